"""Values that are rare in a run: broken, too large, of earlier versions, or gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.engine.effects import effects_of
from noetl.engine.evolve import evolve, replay
from noetl.engine.invariants import Audit, audit
from noetl.engine.kept_loops import KeptLoop, KeptRun
from noetl.engine.reports.accept import Fact
from noetl.engine.runs import find_open
from noetl.engine.secrets.encodings import UnescapedText, as_data, parts
from noetl.engine.secrets.handles import Secrets, handle
from noetl.engine.state import Frame, State
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Pipeline
from noetl.engine.tasks.scope import place_of
from noetl.engine.undone import Undone
from noetl.engine.values.references import (
    Values,
    admit_later,
    check_format,
    make_reference,
)
from noetl.engine.waits.signals import later_waits
from noetl.errors import BlobFormat, ForgedHandle, TemplateError, Unloaded
from noetl.templates.errors import LeafError

Run = Callable[..., Any]

WAIT = "- {step: start, tool: [{w: {kind: wait, signal: go}}]}"
END = "- {step: end, tool: {kind: noop}}"
REFERENCE = make_reference("0" * 64, 9, "text")


def waiting(prepare: Run, flow: str = WAIT, **options: Any) -> Any:
    execution = prepare(flow, **options)
    execution.start()
    execution.step()
    return execution


# -- references -------------------------------------------------------------------


@pytest.mark.spec("S-41")
def test_a_later_input_may_not_hold_a_handle() -> None:
    admit_later({"a": [1]}, "data")
    admit_later({"secret": "a plain text"}, "data")

    with pytest.raises(ForgedHandle) as error:
        admit_later({"a": [handle("1" * 32)]}, "data")

    assert error.value.path == "data.a[0]"


@pytest.mark.spec("S-48")
def test_a_file_is_not_read_as_a_value() -> None:
    check_format(REFERENCE)

    with pytest.raises(BlobFormat, match="is a parquet file, not a value"):
        check_format({**REFERENCE, "schema_hint": "parquet"})


@pytest.mark.spec("S-48")
def test_the_engine_asks_for_a_value_that_is_not_loaded() -> None:
    values = Values()

    with pytest.raises(Unloaded):
        values.fetch(REFERENCE)
    values.put_encoded(REFERENCE["key"], b'"text"')
    assert values.fetch(REFERENCE) == "text"
    assert values.fetch(7) == 7


@pytest.mark.spec("S-48")
def test_a_value_beyond_the_limit_makes_room_itself() -> None:
    values = Values(limit=10)
    values.put_encoded(REFERENCE["key"], b'"' + b"x" * 30 + b'"')

    values.trim()

    with pytest.raises(Unloaded):
        values.fetch(REFERENCE)


@pytest.mark.spec("S-48")
def test_a_value_with_a_reference_in_it_is_followed() -> None:
    values, inner = Values(), make_reference("1" * 64, 3, "text")
    body = b'{"store":"noetl","key":"%s","size":3,"checksum":"sha256:%s"' % (
        *(inner["key"].encode(), inner["key"].encode()),
    )
    values.put_encoded(REFERENCE["key"], b'[%s,"schema_hint":"text"}]' % body)
    values.put_encoded(inner["key"], b'"in"')

    assert values.whole([REFERENCE]) == [["in"]]


@pytest.mark.spec("S-48")
def test_large_results_of_inner_loops_are_not_those_of_the_outer(run: Run) -> None:
    flow = """
    - step: start
      loop: {in: [0, 1], iterator: x, loop: {in: [0, 1], iterator: y}}
      tool: [{a: {kind: noop}}]
      next: {arcs: [{step: end}]}
    - {step: end, tool: [{last: {kind: noop, v: "{{ ctx.n }}"}}]}
    """
    execution = run(flow, script={"a": ["x" * 20_000]})

    results = execution.whole(execution.events("loop.done")[-1].payload["results"])

    assert results == [["x" * 20_000] * 2] * 2


# -- secrets ----------------------------------------------------------------------


@pytest.mark.spec("S-41")
def test_broken_json_and_long_texts_are_not_taken_apart() -> None:
    assert as_data("{broken") is None
    assert as_data('{"a": 1}') == {"a": 1}
    assert list(parts("password=abc " + "x" * 40_000)) == []


@pytest.mark.spec("S-41")
@pytest.mark.parametrize(
    ("written", "meant"),
    [(r"\141\142", "ab"), (r"\x61", "a"), (r"\u0061", "a"), (r"\U00000061", "a")],
)
def test_escapes_are_read(written: str, meant: str) -> None:
    assert UnescapedText(f"<{written}>").text == f"<{meant}>"


@pytest.mark.spec("S-41")
def test_a_guard_that_fails_tells_no_secret(prepare: Run) -> None:
    secret = "tok-3f9a7c21"
    flow = """
    - step: start
      tool: [{pick: {kind: choose, wait: true, result: 1,
        when: {a: "{{ (keychain.api ~ event.payload.n) | int + [] }}"}}}]
    """
    root = "keychain: [{name: api, kind: env}]\n"
    execution = waiting(prepare, flow, root=root, secrets=Secrets({"api": secret}))
    execution.signal("go", {"n": 0})
    execution.step()

    [resumed] = execution.events("task.resumed")
    assert "a guard of 'pick'" in resumed.payload["answer"]["error"]["message"]
    assert secret not in str(resumed.payload)


# -- templates and results ----------------------------------------------------------


def test_a_choice_whose_result_cannot_be_rendered_fails(prepare: Run) -> None:
    flow = """
    - step: start
      tool: [{pick: {kind: choose, wait: true, result: "{{ 1 // workload.zero }}",
        when: {a: "{{ event.name == 'message.received' }}"}}}]
    """
    execution = prepare(flow, root="workload: {zero: 1}\n")
    execution.start()
    execution.step()
    execution.state.workload["zero"] = 0
    execution.signal("go")
    execution.step()

    assert execution.state.error["kind"] == "template.error"


@pytest.mark.parametrize("value", [object(), {"a": {1, 2, 3}.__iter__()}])
def test_a_result_that_is_not_json_is_a_failure(run: Run, value: object) -> None:
    execution = run(
        "- {step: start, tool: [{a: {kind: noop}}]}", script={"a": Outcome.ok(value)}
    )

    assert execution.state.error["kind"] == "tool.contract"
    assert "the result is not JSON" in execution.state.error["message"]


def test_a_delay_that_is_not_a_duration_fails_the_task(run: Run) -> None:
    rule = "{when: true, then: {do: retry, delay: \"{{ 'soon' }}\"}}"
    flow = "- {step: start, tool: [{a: {kind: noop, spec: {policy: {rules: [%s]}}}}]}"

    execution = run(flow % rule)

    assert execution.state.error["kind"] == "template.error"
    assert execution.state.error["message"].startswith("delay: ")


def test_the_place_of_an_error_needs_a_place_of_its_value(prepare: Run) -> None:
    error = TemplateError("template.error", "no")

    assert place_of(None, error) is None
    at = prepare(WAIT).playbook.steps["start"].tasks[0].at
    inside = LeafError(error, ("signal", "no", "member"))
    assert place_of(at, LeafError(error, ("nothing",))) == at.mark
    assert place_of(at, inside) == at["signal"].mark


def test_a_pipeline_takes_over_the_ctx_of_the_server(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop, v: '{{ ctx.k }}'}}]}")
    execution.start()
    command = find_open(execution.state.runs, "sim-1")
    frame = Frame.of(execution.state, command.run, (), 100)
    tasks = execution.playbook.steps["start"].tasks
    values = Values()
    pipeline = Pipeline(tasks, frame, command.progress.copy(), values)

    pipeline.renew({"k": REFERENCE}, spilled=True)

    with pytest.raises(Unloaded):
        pipeline.next()
    values.put_encoded(REFERENCE["key"], b'"text"')
    assert pipeline.next().inputs == {"v": "text"}


@pytest.mark.spec("S-39")
def test_a_worker_may_not_begin_a_task_in_a_pause(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop}}]}")
    execution.start()
    execution.pause()

    told = execution.tell("sim-1", [Fact("step.started"), Fact("task.started", "a", 1)])

    assert [event.name for event in told] == ["step.started"]


# -- logs -------------------------------------------------------------------------


def test_an_answer_that_is_stored_elsewhere_is_noted(prepare: Run) -> None:
    flow = "- {step: start, tool: [{call: {kind: playbook, path: shop/pay}}]}"
    execution = waiting(prepare, flow, unasked=frozenset({"playbook"}))
    [(_, child)] = [(run, p.progress.waiting.child) for run, p in
                    execution.state.runs.items()]  # fmt: skip
    answer = {"status": "completed", "result": REFERENCE, "error": None}

    execution.answer("sim-1", child["execution_id"], answer)

    assert execution.state.spilled


def test_an_answer_to_what_does_not_wait_is_folded(prepare: Run) -> None:
    execution = waiting(prepare)
    execution.signal("go", 1)
    [resumed] = execution.events("task.resumed")
    state = State()
    for event in execution.log[: resumed.seq - 1]:
        if event.name != "task.suspended":
            evolve(state, event)

    evolve(state, resumed)

    assert (state.messages, state.suspended) == ([], {})


def test_snapshots_of_earlier_versions_know_no_reached_steps(prepare: Run) -> None:
    execution = prepare("- {step: start, next: {arcs: [{step: end}]}}\n" + END)
    execution.start()
    routed = execution.event("next.evaluated")
    state = replay(execution.log[: routed.seq - 1])
    state.reached = None

    evolve(state, routed)

    assert (list(state.tokens), state.reached) == (["sim.t2"], None)


@pytest.mark.spec("S-35")
def test_a_fork_arms_the_deadlines_of_its_open_steps(prepare: Run) -> None:
    flow = (
        "- {step: start, spec: {deadline: 60}, tool: [{w: {kind: wait, signal: go}}]}"
    )
    origin = waiting(prepare, flow)
    fork = prepare(flow, execution_id="new", clock=100.0)

    fork.fork(origin.log, len(origin.log))

    assert effects_of(fork.log[-1:]).timers["step:new-1"] == 160.0


def test_a_resumed_execution_has_its_new_deadlines(prepare: Run) -> None:
    flow = (
        "- {step: start, spec: {deadline: 60}, tool: [{w: {kind: wait, signal: go}}]}"
    )
    execution = waiting(prepare, flow, root="executor: {spec: {deadline: 90}}\n")
    execution.pause()
    execution.clock = 1000.0
    execution.resume()
    watch = Audit()

    for event in execution.log:
        assert not watch.take(event)


def test_stored_parts_inside_of_stored_values_are_sound(prepare: Run) -> None:
    execution = prepare(WAIT, workload={"a": "x" * 70_000})
    execution.start()
    started = execution.event("workflow.started")
    assert started.payload["spilled"] == ["workload.a"]
    payload = {**started.payload, "spilled": ["workload.a", "workload.a.inner"]}

    at = started.seq - 1
    log = [*execution.log[:at], replace(started, payload=payload)]

    assert audit(log) == []


def test_an_event_of_a_run_that_does_not_follow_is_kept() -> None:
    assert not Undone(last=9, runs=[(2, 3)]).has_run("sim-1")
    assert Undone(last=9, runs=[(2, 3)]).has_run("sim-2")


def test_what_is_inside_of_a_loop_that_is_not_kept_is_not_kept() -> None:
    kept, inner = KeptRun("s", "sim-1", depth=2), KeptLoop("sim-1/0", [], 2, 5)

    kept.open((0, 1), inner)
    kept.close((0, 1), 7, 1)
    kept.open((), KeptLoop("sim-1", [], 2, 4))
    kept.open((1, 0), inner)

    assert kept.find((0,)) is None
    assert kept.find(()) is None


# -- signals that may still come ----------------------------------------------------


def test_tasks_that_a_run_has_passed_wait_for_nothing(prepare: Run) -> None:
    execution = waiting(prepare)
    [run] = execution.state.runs.values()
    run.progress.label = "renamed"

    assert list(later_waits(execution._batch())) == []


def test_a_step_that_comes_again_may_wait_again(prepare: Run) -> None:
    arc = "{step: start, when: \"{{ event.name == 'step.failed' }}\"}"
    flow = WAIT.replace("]}", f"], next: {{arcs: [{arc}]}}}}")

    waits = list(later_waits(waiting(prepare, flow)._batch()))

    assert [wait.name for wait in waits] == ["go"]
