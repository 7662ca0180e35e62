"""Signals: checked before they are recorded, kept in order, each taken once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.state import commands_of
from noetl.engine.values.references import references_in
from noetl.engine.waits.resume import moments_in, waits_of
from noetl.engine.waits.signals import Sender, receive, wait_words
from noetl.errors import SignalRefused

Run = Callable[..., Any]

ASK = """
- step: start
  tool:
    - ask:
        kind: wait
        signal: approval
        timeout: 60
        roles: [operator, auditor]
        schema:
          type: object
          required: [approved]
          properties: {approved: {type: boolean}}
  next:
    arcs:
      - {step: end, when: "{{ event.name == 'step.failed' }}"}
- {step: end, tool: [{after: {kind: noop}}]}
"""
TWO = """
- step: start
  tool: [{first: {kind: wait, signal: one}}, {second: {kind: wait, signal: two}}]
"""


def begun(prepare: Run, flow: str, moves: int = 1, **options: Any) -> Any:
    """An execution after so many moves."""
    execution = prepare(flow, **options)
    execution.start()
    for _ in range(moves):
        execution.step()
    return execution


def finish(execution: Any) -> None:
    while execution.step():
        pass


def refusal(execution: Any, *args: Any) -> SignalRefused:
    """Why it is refused; and nothing was recorded."""
    before = len(execution.log)
    with pytest.raises(SignalRefused) as refused:
        execution.command(receive, *args)
    assert len(execution.log) == before
    return refused.value


@pytest.mark.spec("S-54")
def test_data_that_do_not_fit_are_refused_before_anything_is_recorded(
    prepare: Run,
) -> None:
    execution = begun(prepare, ASK)

    error = refusal(execution, "approval", {"approved": "yes"})

    assert error.kind == "signal.invalid"
    assert error.problems == ["'approved' must be true or false, found text"]
    assert error.waits[0]["schema"]["required"] == ["approved"]
    execution.signal("approval", {"approved": True})
    finish(execution)
    assert execution.state.result == {"approved": True}


@pytest.mark.spec("S-54")
@pytest.mark.parametrize(
    ("roles", "taken"),
    [
        (["viewer", "operator"], True),
        (["auditor"], True),
        (["admin"], True),
        (["viewer", "author"], False),
        ([], False),
    ],
)
def test_only_who_has_one_of_the_roles_may_send_it(
    prepare: Run, roles: list[str], taken: bool
) -> None:
    execution = begun(prepare, ASK)
    args = ("approval", {"approved": True}, Sender("eve", roles))
    if not taken:
        error = refusal(execution, *args)
        assert error.kind == "auth.role"
        assert str(error) == (
            "signal 'approval' is for operator or auditor, and eve is neither"
        )
        return

    execution.command(receive, *args)

    sent = execution.event("message.received").payload
    assert sent["by"] == {"name": "eve", "roles": roles}
    assert execution.events("task.resumed")


@pytest.mark.spec("S-54")
def test_what_comes_early_is_checked_against_what_will_wait(prepare: Run) -> None:
    execution = begun(prepare, ASK, moves=0)

    assert refusal(execution, "approval", 1).kind == "signal.invalid"
    eve = Sender("eve", ["viewer"])
    assert refusal(execution, "approval", {"approved": True}, eve).kind == "auth.role"
    execution.signal("approval", {"approved": False})
    finish(execution)

    assert (execution.state.result, execution.clock) == ({"approved": False}, 0.0)


LATER = """
- step: start
  tool:
    - ask:
        kind: wait
        signal: "{{ 'go' }}"
        timeout: 5
        roles: "{{ ['operator'] }}"
        schema: "{{ {'type': 'integer'} }}"
"""


@pytest.mark.spec("S-54")
def test_a_buffered_signal_that_does_not_match_is_skipped(prepare: Run) -> None:
    """Only a template knows the form, so it cannot be checked when it is sent."""
    execution = begun(prepare, LATER, moves=0)
    for data, roles in (("x", ["operator"]), (1, ["viewer"]), (2, ["operator"])):
        execution.command(receive, "go", data, Sender("eve", roles))
    finish(execution)

    assert execution.state.result == 2
    assert len(execution.events("task.resumed")) == 1


@pytest.mark.spec("S-48", "S-54")
def test_a_large_signal_is_checked_as_a_whole(prepare: Run) -> None:
    flow = LATER.replace("integer", "array").replace("operator", "viewer")
    execution = begun(prepare, flow, moves=0)
    execution.signal("go", ["x" * 70_000])
    finish(execution)

    assert execution.whole(execution.state.result) == ["x" * 70_000]


@pytest.mark.spec("S-54")
@pytest.mark.parametrize(
    ("flow", "moves", "name", "words"),
    [
        pytest.param(
            ASK,
            1,
            "aproval",
            "nothing in this playbook waits for signal 'aproval'; the execution waits "
            "for signal 'approval' until 1970-01-01T00:01:00.000000Z (start.ask); did "
            "you mean 'approval'?",
            id="another name",
        ),
        pytest.param(
            "- {step: start, tool: {kind: wait, for: 90}}",
            1,
            "go",
            "nothing in this playbook waits for signal 'go'; the execution waits for "
            "the time 1970-01-01T00:01:30.000000Z (start.task_1)",
            id="no signal at all",
        ),
        pytest.param(
            TWO,
            0,
            "three",
            "nothing in this playbook waits for signal 'three'; the execution waits "
            "for nothing at the moment",
            id="nothing waits yet",
        ),
    ],
)
def test_a_signal_that_nothing_can_take_is_refused(
    prepare: Run, flow: str, moves: int, name: str, words: str
) -> None:
    execution = begun(prepare, flow, moves)

    error = refusal(execution, name, None)

    assert (error.kind, str(error)) == ("signal.unknown", words)


@pytest.mark.parametrize(
    ("count", "end"),
    [
        pytest.param(3, "(start.task_1)", id="three are named"),
        pytest.param(4, "(start.task_1), and 1 more", id="the fourth is counted"),
        pytest.param(7, "(start.task_1), and 4 more", id="so are the others"),
    ],
)
def test_a_refusal_names_the_first_waits(prepare: Run, count: int, end: str) -> None:
    flow = f"""
    - step: start
      loop: {{in: "{{{{ range({count}) }}}}", iterator: x, spec: {{mode: parallel}}}}
      tool: {{kind: wait, for: 90}}
    """
    execution = begun(prepare, flow, count)
    words = str(refusal(execution, "go", None))

    assert words.count("(start.task_1)") == 3
    assert words.count("the time 1970-01-01T00:01:30.000000Z (start.task_1), ") >= 2
    assert words.endswith(end)


def test_the_pipelines_of_an_execution_are_those_that_are_open(prepare: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: one}, {step: many}]}
    - {step: one, tool: {kind: wait, for: 90}}
    - step: many
      loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
      tool: {kind: wait, for: 90}
    """
    execution = begun(prepare, flow)

    assert list(commands_of(execution.state)) == ["sim-2", "sim-3/0", "sim-3/1"]


@pytest.mark.spec("S-54")
def test_a_signal_for_a_child_gets_a_hint_to_its_execution(prepare: Run) -> None:
    flow = "- {step: start, tool: [{call: {kind: playbook, path: shop/pay}}]}"
    execution = begun(prepare, flow, unasked=frozenset({"playbook"}))

    error = refusal(execution, "go", None)

    child = error.waits[0]["execution_id"]
    assert f"playbook 'shop/pay', execution {child} (start.call)" in str(error)


@pytest.mark.spec("S-54")
def test_what_was_passed_is_not_waited_for_any_more(prepare: Run) -> None:
    execution = begun(prepare, TWO)
    execution.signal("two", "early")
    execution.signal("one", "now")
    execution.step()

    error = refusal(execution, "one", "again")

    assert str(error).startswith("signal 'one' is no longer waited for; ")
    finish(execution)
    assert execution.state.result == "early"


@pytest.mark.spec("S-35", "S-54")
@pytest.mark.parametrize("clock", [60.0, 1000.0])
def test_a_signal_that_comes_too_late_is_refused(prepare: Run, clock: float) -> None:
    """Also if nobody has noticed yet that the time is over."""
    execution = begun(prepare, ASK)
    execution.clock = clock

    error = refusal(execution, "approval", {"approved": True})

    assert "signal 'approval' is no longer waited for" in str(error)
    finish(execution)
    assert [call.task.label for call in execution.calls] == ["after"]


@pytest.mark.spec("S-35", "S-54")
def test_a_late_signal_is_buffered_for_the_next_wait(prepare: Run) -> None:
    flow = """
    - step: start
      tool: [{ask: {kind: wait, signal: go, timeout: 60}}]
      next: {arcs: [{step: again, when: "{{ event.name == 'step.failed' }}"}]}
    - {step: again, tool: [{ask: {kind: wait, signal: go}}]}
    """
    execution = begun(prepare, flow)
    execution.clock = 61.0
    execution.signal("go", 7)
    finish(execution)

    assert execution.event("step.failed").payload["error"]["kind"] == "timeout"
    assert (execution.state.result, execution.state.status) == (7, "completed")


@pytest.mark.spec("S-54")
@pytest.mark.parametrize(
    "back",
    [
        "{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 9}}",
        "{when: \"{{ outcome.status == 'error' }}\", then: {do: jump, to: ask}}",
    ],
)
def test_a_wait_that_may_come_again_keeps_its_signals(prepare: Run, back: str) -> None:
    rules = f"spec: {{policy: {{rules: [{back}]}}}}"
    flow = f"- {{step: start, tool: [{{ask: {{kind: wait, signal: go, timeout: 5, {rules}}}}}]}}"  # noqa: E501
    execution = begun(prepare, flow)
    execution.clock = 5.0
    execution.signal("go", 1)
    finish(execution)

    assert (execution.state.status, execution.state.result) == ("completed", 1)


@pytest.mark.spec("S-54")
def test_an_iteration_that_has_not_begun_may_take_it(prepare: Run) -> None:
    flow = """
    - step: start
      loop: {in: [0, 1], iterator: x}
      tool: [{ask: {kind: wait, signal: go}}]
    """
    execution = begun(prepare, flow)
    for data in "ab":
        execution.signal("go", data)
    finish(execution)

    assert execution.event("loop.done").payload["results"] == ["a", "b"]


@pytest.mark.spec("S-54")
def test_signals_are_taken_in_the_order_in_which_they_came(prepare: Run) -> None:
    flow = """
    - step: start
      tool: [{a: {kind: wait, signal: go}}, {b: {kind: wait, signal: go}}]
    """
    execution = begun(prepare, flow)
    execution.signal("go", 1)
    execution.signal("go", 2)
    finish(execution)

    taken = [e.payload for e in execution.events("task.resumed")]
    sent = [e.seq for e in execution.events("message.received")]
    assert [each["answer"]["data"] for each in taken] == [1, 2]
    assert [each["message"] for each in taken] == sent
    assert execution.state.messages == []


@pytest.mark.spec("S-54")
def test_a_signal_may_be_for_one_pipeline_only(prepare: Run) -> None:
    flow = """
    - step: start
      loop: {in: [0, 1], iterator: x, spec: {mode: parallel}}
      tool: [{ask: {kind: wait, signal: go, roles: [operator]}}]
    """
    execution = begun(prepare, flow, moves=2)
    eve = Sender("eve", ["operator"])

    execution.command(receive, "go", "b", eve, {"account": "eve"}, "sim-1/1")

    assert refusal(execution, "go", "c", None, None, "sim-1/1").kind == "signal.unknown"
    assert execution.event("task.resumed").iteration_id == "sim-1/1"
    assert execution.event("message.received").payload["caller"] == {"account": "eve"}
    lost = refusal(execution, "go", "a", Sender("eve", ["viewer"]))
    assert str(lost) == "signal 'go' is for operator, which eve is not"


@pytest.mark.spec("S-54")
def test_a_kept_signal_that_cannot_be_read_is_not_taken(prepare: Run) -> None:
    execution = begun(prepare, LATER.replace("integer", "array"), moves=0)
    execution.signal("go", ["x" * 70_000])
    [reference] = references_in(execution.state.messages[0])
    execution._values.miss(reference["key"], "result.gone", "it was removed")

    execution.step()

    assert execution.events("task.resumed") == []
    assert execution.state.suspended == {"sim-1": "signal"}


@pytest.mark.spec("S-54")
def test_a_signal_that_no_guard_accepts_is_kept_for_later(prepare: Run) -> None:
    flow = """
    - step: start
      tool: [{pick: {kind: choose, wait: true, timers: {timeout: 60}, when: {
        a: "{{ event.payload.type == 'a' }}"}}}]
    """
    execution = begun(prepare, flow)

    execution.signal("b")

    assert [each["name"] for each in execution.state.messages] == ["b"]
    [line] = waits_of(execution.state)
    assert wait_words(line) == "an event that fits until 1970-01-01T00:01:00.000000Z"
    assert list(moments_in(execution.state)) == [60.0]
    execution.clock = 60.0
    finish(execution)
    assert execution.state.error["kind"] == "timeout"


def test_a_schema_with_flaws_refuses_nothing_before_the_wait(prepare: Run) -> None:
    flow = "- {step: start, tool: {kind: wait, signal: go, schema: {type: array}}}"
    execution = begun(prepare, flow, moves=0)
    [task] = execution.playbook.steps["start"].tasks
    task.inputs["schema"].written["type"] = "text"

    execution.signal("go", 1)

    assert len(execution.state.messages) == 1
