"""Waiting: for a time, for a signal, for a deadline that passes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from noetl.engine.decide import expire
from noetl.engine.execution_document import Document
from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.engine.runs import Waiting
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.waits.resume import children_of, fix_time, moments_in
from noetl.engine.waits.signals import receive
from noetl.engine.waits.suspend import answer_of, child_id, child_of, wait_of

Run = Callable[..., Any]

GO_ON = "spec: {policy: {rules: [{else: {then: {do: continue}}}]}}"


def one(task: str) -> str:
    return f"- {{step: start, tool: [{{w: {{{task}}}}}, {{after: {{kind: noop}}}}]}}"


@pytest.mark.spec("S-68")
@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        ("kind: wait, for: 90", 90.0),
        ("kind: wait, for: 2m", 120.0),
        ("kind: wait, until: '1970-01-01T00:05:00Z'", 300.0),
        ("kind: wait, until: '1970-01-01T02:00:00+01:00'", 3600.0),
        ("kind: wait, for: 0", 0.0),
        ("kind: wait, at: '00:00:30'", 30.0),
        ("kind: wait, at: '00:00'", 86_400.0),
        ("kind: wait, at: '09:30', zone: Europe/Berlin", 30_600.0),
    ],
)
def test_waits_for_a_time_without_a_worker(run: Run, task: str, seconds: float) -> None:
    execution = run(one(task))
    suspended = execution.event("task.suspended")

    assert execution.clock == seconds
    assert (suspended.payload["on"], suspended.status) == ("timer", "paused")
    assert execution.state.status == "completed"
    assert [call.task.label for call in execution.calls] == ["after"]


@pytest.mark.spec("S-68")
@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"for": "soon"}, "soon"),
        ({"for": -1}, "-1"),
        ({"until": "tomorrow"}, "tomorrow"),
        ({"signal": ""}, "'signal' must be a name"),
        ({"signal": "x", "timeout": "long"}, "long"),
        ({"at": "9:00"}, "write it as 09:00"),
        ({"at": "24:00"}, "is not a time of day"),
        ({"at": "09:00", "zone": "Europe/Berlim"}, "did you mean 'Europe/Berlin'?"),
        ({"signal": "x", "schema": {"type": "text"}}, "'type' must be one or several"),
        ({"signal": "x", "schema": {"title": "x" * 17_000}}, "16,384 bytes"),
        ({"signal": "x", "roles": "admin"}, "'roles' must be a list"),
    ],
)
def test_a_wait_that_makes_no_sense_is_an_outcome(inputs: Any, words: str) -> None:
    outcome = wait_of(inputs)

    assert outcome.error.kind == "tool.contract"
    assert words in outcome.error.message


@pytest.mark.spec("S-54", "S-68")
def test_a_signal_ends_the_wait_with_its_data(prepare: Run) -> None:
    execution = prepare(one("kind: wait, signal: go"))
    execution.start()
    execution.step()
    assert not execution.step()  # nothing can move until somebody sends it
    execution.signal("go", {"by": "ana"})
    while execution.step():
        pass

    assert execution.state.status == "completed"
    done = execution.events("task.done")[0].payload["outcome"]
    assert (done["status"], done["result"]) == ("ok", {"by": "ana"})


@pytest.mark.spec("S-48", "S-54")
@pytest.mark.parametrize("size", range(64_800, 65_400, 20))
def test_data_that_fits_into_one_event_and_not_the_next_arrives(
    prepare: Run, size: int
) -> None:
    execution = prepare(one("kind: wait, signal: go"))
    execution.start()
    execution.step()
    execution.signal("go", "x" * size)
    while execution.step():
        pass

    assert execution.state.status == "completed"
    done = execution.events("task.done")[0].payload["outcome"]
    assert execution.whole(done["result"]) == "x" * size


@pytest.mark.spec("S-54")
def test_an_early_signal_is_buffered_until_a_wait(prepare: Run) -> None:
    execution = prepare(one("kind: wait, signal: go"))
    execution.start()
    execution.signal("go", 1)
    execution.signal("go", 2)
    while execution.step():
        pass

    results = [e.payload["outcome"]["result"] for e in execution.events("task.done")]
    assert results[0] == 1
    assert execution.state.finished


@pytest.mark.spec("S-54")
def test_signals_go_to_the_longest_waits_one_each(prepare: Run) -> None:
    flow = """
    - step: start
      loop: {in: [0, 1, 2], iterator: x, spec: {mode: parallel}}
      tool: [{w: {kind: wait, signal: go}}]
    """
    execution = prepare(flow)
    execution.start()
    for _ in range(3):
        execution.step()
    for data in ("a", "b", "c"):
        execution.signal("go", data)
    while execution.step():
        pass

    assert execution.event("loop.done").payload["results"] == ["a", "b", "c"]


@pytest.mark.spec("S-35", "S-68")
def test_a_signal_that_does_not_come_in_time_is_a_timeout(run: Run) -> None:
    execution = run(one(f"kind: wait, signal: go, timeout: 60, {GO_ON}"))
    error = execution.events("task.done")[0].payload["outcome"]["error"]

    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert "no signal 'go' arrived" in error["message"]
    assert execution.clock == 60.0


@pytest.mark.spec("S-54")
def test_a_signal_for_what_is_over_changes_nothing(run: Run) -> None:
    execution = run(one("kind: noop"))
    before = len(execution.log)

    execution.command(receive, "go", 1)

    assert len(execution.log) == before


@pytest.mark.spec("S-38", "S-68")
def test_a_cancel_ends_what_waits_at_once(prepare: Run) -> None:
    execution = prepare(one("kind: wait, for: 1h"))
    execution.start()
    execution.step()

    execution.cancel()

    assert (execution.state.status, execution.clock) == ("cancelled", 0.0)
    assert execution.state.suspended == {}


@pytest.mark.spec("S-39", "S-68")
def test_a_pause_holds_what_waits(prepare: Run) -> None:
    execution = prepare(one("kind: wait, signal: go"))
    execution.start()
    execution.step()
    execution.pause()
    execution.signal("go", 1)
    execution.resume()
    while execution.step():
        pass

    assert execution.state.status == "completed"


@pytest.mark.spec("S-35", "C-30")
def test_the_deadline_of_a_step_fails_it_and_its_arcs_may_handle_that(run: Run) -> None:
    flow = """
    - step: start
      spec: {deadline: 5}
      tool: [{w: {kind: wait, for: 1h}}]
      next: {arcs: [{step: end, when: "{{ event.payload.error.kind == 'timeout' }}"}]}
    - {step: end, tool: {kind: noop}}
    """
    execution = run(flow)
    error = execution.event("step.failed").payload["error"]

    assert (error["kind"], execution.clock) == ("timeout", 5.0)
    assert "1970-01-01T00:00:05.000000Z" in error["message"]
    assert execution.state.status == "completed"


@pytest.mark.spec("S-35", "LOOP-21")
def test_the_deadline_of_a_loop_step_ends_every_open_iteration(run: Run) -> None:
    flow = """
    - step: start
      spec: {deadline: 5, policy: {failure: best_effort}}
      loop: {in: [0, 1], iterator: x, loop: {in: [0, 1, 2], iterator: y,
        spec: {mode: parallel, max_in_flight: 2}}}
      tool: [{w: {kind: wait, for: 1h}}]
    """
    execution = run(flow)
    failed = [e.iteration_id for e in execution.events("loop.iteration.failed")]

    assert failed == ["sim-1/0/0", "sim-1/0/1", "sim-1/0"]
    assert execution.event("step.failed").payload["error"]["kind"] == "timeout"
    assert execution.state.status == "failed"
    assert execution.state.suspended == {}


@pytest.mark.spec("S-35", "S-55")
def test_a_step_that_ended_before_its_deadline_is_not_concerned(run: Run) -> None:
    flow = """
    - step: start
      spec: {deadline: 5}
      tool: [{w: {kind: wait, for: 1}}]
      next: {arcs: [{step: end}]}
    - {step: end, tool: [{v: {kind: wait, for: 1h}}]}
    """
    execution = run(flow)

    assert (execution.state.status, execution.clock) == ("completed", 3601.0)


@pytest.mark.spec("S-36")
def test_the_deadline_of_the_execution_cancels_it(run: Run) -> None:
    execution = run(one("kind: wait, for: 1h"), "executor: {spec: {deadline: 10m}}\n")

    assert (execution.state.status, execution.clock) == ("cancelled", 600.0)
    assert execution.state.error["kind"] == "timeout"


@pytest.mark.spec("S-37")
def test_a_child_is_the_same_for_the_same_attempt_only() -> None:
    parent = "01a1e1ce-62fa-71d5-ac5d-47da0b2bac17"
    calls = [("a1x", 1), ("a1x", 2), ("a1y", 1)]
    children = [child_id(parent, *call) for call in calls]

    assert children == [child_id(parent, *call) for call in calls]
    assert len(set(children)) == 3
    assert all(uuid.UUID(child).version == 8 for child in children)
    assert {child[:13] for child in children} == {parent[:13]}
    assert uuid.UUID(child_id("sim", "a1x", 1)).version == 8


@pytest.mark.spec("S-37", "OUT-04")
def test_a_failed_child_names_its_step_its_iteration_and_its_id() -> None:
    error = {"kind": "x", "message": "no", "step": "fetch", "iteration": 3}
    answer = {"status": "failed", "error": error}
    child = {"execution_id": "c", "path": "t/child"}

    failure = answer_of(Waiting("playbook", child=child, answer=answer)).error

    assert failure is not None
    assert failure.message == (
        "playbook 't/child' failed in step 'fetch', iteration 3: no"
    )
    assert failure.details == {"error": error, "execution_id": "c"}


@pytest.mark.spec("S-37")
@pytest.mark.parametrize(
    ("answer", "status", "kind"),
    [
        ({"status": "completed", "result": 7, "error": None}, "ok", None),
        ({"status": "failed", "error": {"message": "no"}}, "error", "playbook.failed"),
        ({"status": "cancelled", "error": None}, "error", "playbook.cancelled"),
        (
            {"status": None, "error": {"kind": "playbook.depth", "message": "x"}},
            "error",
            "playbook.depth",
        ),
        (None, "error", "timeout"),
    ],
)
def test_the_end_of_a_child_is_the_outcome_of_its_task(
    answer: Any, status: str, kind: str | None
) -> None:
    child = {"execution_id": "c", "path": "t/child"}
    outcome = answer_of(Waiting("playbook", child=child, answer=answer))

    assert outcome.status == status
    assert (outcome.error.kind if outcome.error else None) == kind
    assert outcome.helper["execution_id"] == "c"


def test_a_child_that_takes_too_long_may_be_called_again() -> None:
    late = answer_of(Waiting("playbook", child={"path": "shop/pay"}))

    assert late.error is not None
    assert (late.error.kind, late.error.retryable) == ("timeout", True)
    assert late.error.message == "playbook 'shop/pay' took longer than its timeout"


EARLY = {"id": "b", "at": "1970-01-01T00:00:05.000000Z"}
NEVER = "9999-12-31T23:46:39.000000Z"


@pytest.mark.parametrize(
    ("payload", "until", "timers"),
    [
        pytest.param({"seconds": 9.0}, "1970-01-01T00:01:09.000000Z", [], id="seconds"),
        pytest.param({"seconds": 1e18}, NEVER, [], id="never"),
        pytest.param(
            {"on": "event", "timers": [{"id": "a", "seconds": 1e18}, EARLY]},
            EARLY["at"],
            [EARLY["at"], NEVER],
            id="the first of several timers",
        ),
        pytest.param({"on": "event", "timers": []}, None, [], id="without timers"),
    ],
)
def test_the_end_of_a_wait_is_fixed_when_it_begins(
    payload: dict[str, Any], until: str | None, timers: list[str]
) -> None:
    batch: Any = SimpleNamespace(clock=60.0)
    fixed = fix_time(batch, {"on": "time", **payload})

    assert fixed["until"] == until
    assert [timer["at"] for timer in fixed.get("timers", ())] == timers
    assert "seconds" not in fixed


@pytest.mark.spec("S-39", "S-35", "S-36")
def test_time_stands_still_in_a_pause(prepare: Run) -> None:
    flow = """
    - step: start
      spec: {deadline: 10}
      tool: [{w: {kind: wait, signal: go}}]
    """
    execution = prepare(flow, "executor: {spec: {deadline: 20}}\n")
    execution.start()
    execution.step()
    execution.clock = 4.0
    execution.pause()
    execution.clock = 1000.0
    execution.command(expire, "step:sim-1")  # it was due in the pause
    execution.resume()
    moments = execution.event("workflow.resumed").payload["deadlines"]

    assert moments == {
        "sim-1": "1970-01-01T00:16:46.000000Z",
        "sim": "1970-01-01T00:16:56.000000Z",
    }
    while execution.step():
        pass
    assert execution.clock == 1006.0
    assert execution.event("step.failed").payload["error"]["kind"] == "timeout"


@pytest.mark.spec("S-37")
def test_a_worker_does_not_choose_which_execution_its_child_is(prepare: Run) -> None:
    """I-37: it would get the result of an execution that is not its own."""
    execution = prepare("- {step: start, tool: {c: {kind: playbook, path: x/y}}}")
    execution.start()
    command = f"{execution.state.execution_id}-1"
    child = {"execution_id": str(uuid.uuid4()), "path": "x/y", "version": None}
    asked = {"on": "playbook", "child": {**child, "args": {}, "iter": None}}
    facts = [Fact("step.started"), Fact("task.started", "c", 1)]
    facts.append(Fact("task.suspended", "c", 1, {**asked, "seconds": None}))

    with pytest.raises(OutOfOrder, match="not its own"):
        execution.tell(command, facts)


@pytest.mark.spec("S-37")
@pytest.mark.parametrize(
    ("inputs", "spec", "words"),
    [
        ({"path": 7}, {}, "'path' must be text"),
        ({"path": "a", "args": [1]}, {}, "and 'args' a mapping"),
        ({"path": "a"}, {"timeout": "soon"}, "spec.timeout: "),
        ({"path": "a", "labels": "x"}, {}, "'labels' must be a mapping of texts"),
        ({"path": "a", "labels": {"a b": "x"}}, {}, "a b"),
    ],
)
def test_a_child_that_makes_no_sense_is_an_outcome(
    inputs: Any, spec: Any, words: str
) -> None:
    outcome = child_of(inputs, spec, "sim", "a1x", 1, None)

    assert isinstance(outcome, Outcome)
    assert outcome.error is not None
    assert outcome.error.kind == "tool.contract"
    assert words in outcome.error.message


@pytest.mark.spec("S-37")
def test_a_child_gets_its_labels() -> None:
    asked = child_of({"path": "a", "labels": {"team": "x"}}, {}, "sim", "a1x", 1, None)

    assert isinstance(asked, dict)
    assert asked["child"]["labels"] == {"team": "x"}


@pytest.mark.spec("S-37", "S-72")
def test_only_the_child_that_is_waited_for_answers(prepare: Run) -> None:
    flow = "- {step: start, tool: [{call: {kind: playbook, path: shop/pay}}]}"
    execution = prepare(flow, unasked=frozenset({"playbook"}))
    execution.start()
    execution.step()
    [(command_id, child)] = children_of(execution.state)
    answer = {"status": "completed", "result": ["x" * 70_000], "error": None}
    answer["warnings"] = ["'n' is text"]

    execution.answer(command_id, "another", answer)
    assert execution.events("task.resumed") == []
    execution.answer(command_id, child["execution_id"], answer)

    resumed = execution.event("task.resumed")
    assert resumed.payload["answer"]["warnings"] == ["playbook 'shop/pay': 'n' is text"]
    assert execution.state.spilled
    document = Document().take(execution.log).as_json()
    assert document["warnings"] == ["playbook 'shop/pay': 'n' is text"]


@pytest.mark.spec("S-54")
@pytest.mark.parametrize(
    "asked",
    [
        {"on": "timer", "at": "25:00", "zone": "UTC"},
        {"on": "signal", "signal": "go", "schema": {"type": "text"}},
    ],
)
def test_a_worker_cannot_report_a_wait_that_makes_no_sense(
    prepare: Run, asked: Any
) -> None:
    execution = prepare(one("kind: wait, for: 1h"))
    execution.start()
    begun = [Fact("step.started"), Fact("task.started", "w", 1)]

    with pytest.raises(OutOfOrder, match="not a valid wait: "):
        execution.tell("sim-1", [*begun, Fact("task.suspended", "w", 1, asked)])


def test_everything_that_is_due_is_found(prepare: Run) -> None:
    flow = "- {step: start, spec: {deadline: 5}, tool: {kind: wait, for: 3}}"
    execution = prepare(flow, "executor: {spec: {deadline: 9}}\n")
    execution.start()
    execution.step()

    assert sorted(moments_in(execution.state)) == [3.0, 5.0, 9.0]
