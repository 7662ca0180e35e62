"""What an execution passed over: recorded by the engine, listed in its document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.engine.endings import (
    FALSE,
    LISTED,
    Endings,
    NoArcFired,
    failed_words,
    no_arc_fired,
)
from noetl.engine.execution_document import (
    Document,
    QueueTimes,
    interruption,
    state_document,
)
from noetl.engine.state import commands_of

Run = Callable[..., Any]

IGNORING = """
- step: fetch
  tool:
    - call:
        kind: noop
        spec: {policy: {rules: [{when: "{{ outcome.result == 7 }}", then: {do: fail}}]}}
    - after: {kind: noop}
"""
LOOPING = """
- step: fetch
  loop: {in: "{{ range(%d) }}", iterator: n}
  tool:
    - call:
        kind: noop
        spec: {policy: {rules: [{when: "{{ outcome.result == 7 }}", then: {do: fail}}]}}
"""


def document_of(execution: Any) -> dict[str, Any]:
    return Document().take(execution.log).as_json()


@pytest.mark.spec("S-73", "S-15", "POL-06")
@pytest.mark.parametrize(
    ("answer", "ignored"),
    [
        pytest.param("!http.connection", True, id="an error that no rule matches"),
        pytest.param(1, None, id="a success that no rule matches"),
        pytest.param(7, None, id="a success that a rule fails"),
    ],
)
def test_only_an_error_without_a_rule_is_recorded_as_ignored(
    run: Run, answer: object, ignored: bool | None
) -> None:
    done = run(IGNORING, script={"call": [answer]}).events("task.done")[0]

    assert done.payload.get("ignored") is ignored


@pytest.mark.spec("S-73", "POL-05")
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param("", id="no rules: the error fails the step"),
        pytest.param(
            "spec: {policy: {rules: [{else: {then: {do: continue}}}]}}",
            id="else: the author decided",
        ),
    ],
)
def test_an_error_with_a_verdict_of_its_own_is_not_ignored(
    run: Run, policy: str
) -> None:
    workflow = (
        f"- step: fetch\n  tool:\n    - call:\n        kind: noop\n        {policy}"
    )
    execution = run(workflow, script={"call": ["!timeout"]})

    assert "ignored" not in execution.events("task.done")[0].payload
    assert document_of(execution)["ignored_errors"] == []


@pytest.mark.spec("S-73")
def test_the_document_names_the_ignored_error_and_its_step(run: Run) -> None:
    execution = run(IGNORING, script={"call": ["!http.connection"]})
    document = document_of(execution)
    [error] = document["ignored_errors"]
    [step] = document["steps"]

    assert document["status"] == "completed"
    assert (error["step"], error["task"]) == ("fetch", "call")
    assert (error["kind"], error["message"]) == ("http.connection", "scripted")
    assert document["counts"]["ignored_errors"] == 1
    assert step["ignored"] == {
        "count": 1,
        "kind": "http.connection",
        "message": "scripted",
    }
    assert execution.state.ignored == 1


@pytest.mark.spec("S-73")
def test_the_list_of_ignored_errors_is_bounded_and_the_count_is_complete(
    run: Run,
) -> None:
    execution = run(LOOPING % (LISTED + 5), script={"call": ["!timeout"]})
    document = document_of(execution)

    assert len(document["ignored_errors"]) == LISTED
    assert document["ignored_errors"][3]["iteration"] == [3]
    assert document["counts"]["ignored_errors"] == LISTED + 5
    assert document["steps"][0]["ignored"]["count"] == LISTED + 5


def ending(execution: Any) -> tuple[list[str], list[str]]:
    """The steps after which no arc fired, and those that no token reached."""
    document = document_of(execution)
    return [each["step"] for each in document["no_arc_fired"]], document["not_reached"]


STEP = "- {step: %s, tool: [{%s: {kind: noop}}], next: {arcs: [%s]}}\n"
END = "- {step: %s, tool: [{%s: {kind: noop}}]}\n"
TYPO = "{step: b, when: '{{ event.payload.result.typo }}'}"
ON_FAILED = "{step: c, when: \"{{ event.name == 'step.failed' }}\"}"


@pytest.mark.spec("S-74", "S-09")
@pytest.mark.parametrize(
    ("workflow", "found"),
    [
        pytest.param(
            STEP % ("a", "x", TYPO) + STEP % ("b", "y", "{step: c}") + END % ("c", "z"),
            (["a"], ["b", "c"]),
            id="all steps after arcs that did not fire",
        ),
        pytest.param(
            STEP % ("a", "x", f"{TYPO}, {ON_FAILED}")
            + END % ("b", "y")
            + END % ("c", "z"),
            (["a"], ["b"]),
            id="not the arc that asks for the other end",
        ),
        pytest.param(
            STEP % ("a", "x", ON_FAILED) + END % ("c", "z"),
            ([], []),
            id="a router whose arcs all ask for the other end is normal",
        ),
        pytest.param(
            STEP % ("a", "x", f"{TYPO}, {{step: c}}")
            + END % ("b", "y")
            + END % ("c", "z"),
            ([], []),
            id="a branch beside an arc that fired is normal",
        ),
        pytest.param(END % ("a", "x"), ([], []), id="an end without arcs is normal"),
    ],
)
def test_steps_that_are_not_reached(
    run: Run, workflow: str, found: tuple[list[str], list[str]]
) -> None:
    assert ending(run(workflow)) == found


@pytest.mark.spec("S-74")
def test_a_cycle_that_ends_by_its_guard_leaves_no_step_unreached(run: Run) -> None:
    workflow = """
    - step: a
      tool:
        - x:
            kind: noop
            spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {n: "{{ (ctx.n | default(0)) + 1 }}"}}}}]}}
      next: {arcs: [{step: a, when: "{{ ctx.n < 3 }}"}]}
    """  # noqa: E501
    execution = run(workflow)

    assert len(execution.events("step.done")) == 3
    assert ending(execution) == ([], [])


@pytest.mark.spec("S-74")
def test_a_loop_whose_arcs_wait_for_its_second_boundary_is_asked_at_both(
    run: Run,
) -> None:
    loop = "- {step: a, loop: {in: [1], iterator: n}, tool: [{x: {kind: noop}}], %s}\n"
    lost = run(loop % f"next: {{arcs: [{TYPO}]}}" + END % ("b", "y"))
    late = "{step: b, when: \"{{ event.name == 'step.done' }}\"}"
    fine = run(loop % f"next: {{arcs: [{late}]}}" + END % ("b", "y"))

    assert ending(lost) == (["a"], ["b"])
    assert ending(fine) == ([], [])


@pytest.mark.spec("S-74")
def test_the_log_records_what_was_not_reached(run: Run) -> None:
    execution = run(STEP % ("a", "x", TYPO) + END % ("b", "y"))

    assert execution.event("next.evaluated").payload["unfired"] == ["b"]
    finished = execution.event("workflow.finished").payload
    assert finished["not_reached"] == {"count": 1, "steps": ["b"]}
    assert execution.state.not_reached == 1


@pytest.mark.spec("S-74")
def test_an_arc_without_a_reason_is_listed_without_one(run: Run) -> None:
    """Earlier versions recorded arcs without reasons."""
    event = run(STEP % ("a", "x", TYPO) + END % ("b", "y")).event("next.evaluated")
    payload = {**event.payload, "arcs": [{"step": "b", "fired": False}]}

    lost = no_arc_fired(replace(event, payload=payload))
    assert lost is not None
    assert lost.arcs == [{"step": "b", "why": ""}]


LOOP = """
- step: a
  %s
  loop: {in: "{{ range(%d) }}", iterator: n}
  tool: [{x: {kind: noop, n: "{{ iter.n }}"}}]
"""
BEST_EFFORT = "spec: {policy: {failure: best_effort}}"


def odd(call: Any) -> str | int:
    return "!timeout" if call.inputs["n"] % 2 else 1


@pytest.mark.spec("S-73", "S-12")
def test_a_loop_lists_the_errors_of_its_iterations_and_counts_them_by_kind(
    run: Run,
) -> None:
    execution = run(LOOP % (BEST_EFFORT, 5), script={"x": odd})
    done = execution.event("loop.done").payload
    [step] = document_of(execution)["steps"]

    assert done["errors"] == [
        {"index": 1, "kind": "timeout", "message": "scripted"},
        {"index": 3, "kind": "timeout", "message": "scripted"},
    ]
    assert done["error_kinds"] == {"timeout": 2}
    assert done["results"] == [1, None, 1, None, 1]
    assert (step["errors"], step["error_kinds"]) == (done["errors"], {"timeout": 2})


@pytest.mark.spec("S-73")
def test_the_errors_of_a_loop_are_bounded_and_their_count_is_complete(run: Run) -> None:
    done = run(LOOP % (BEST_EFFORT, 250), script={"x": odd}).event("loop.done").payload

    assert len(done["errors"]) == LISTED
    assert done["error_kinds"] == {"timeout": 125}


@pytest.mark.spec("S-38", "S-12")
def test_iterations_that_a_cancellation_stops_have_not_failed(prepare: Run) -> None:
    workflow = LOOP % (BEST_EFFORT, 6)
    workflow = workflow.replace("iterator: n", "iterator: n, spec: {mode: parallel}")
    execution = prepare(workflow, script={"x": odd})
    execution.start()
    execution.step()
    execution.step()
    execution.cancel()
    [step] = document_of(execution)["steps"]

    assert step["status"] == "cancelled"
    assert step["iterations"] == {
        "total": 6,
        "done": 1,
        "failed": 1,
        "skipped": 0,
        "cancelled": 4,
    }


@pytest.mark.spec("S-73")
def test_a_loop_that_fails_fast_records_the_error_and_its_iteration(run: Run) -> None:
    failed = run(LOOP % ("", 5), script={"x": odd}).event("step.failed").payload

    assert failed["error"]["iteration"] == 1
    assert failed["errors"][0]["index"] == 1
    assert failed["error_kinds"] == {"timeout": 1}


@pytest.mark.spec("S-73")
def test_a_loop_without_errors_has_no_list_of_them(run: Run) -> None:
    done = run(LOOP % (BEST_EFFORT, 3)).event("loop.done").payload

    assert "errors" not in done
    assert "error_kinds" not in done


@pytest.mark.spec("S-73")
def test_an_arc_can_pass_the_errors_of_a_loop_on(run: Run) -> None:
    arc = """
  next:
    arcs:
      - step: b
        when: "{{ event.payload.errors }}"
        args: {first: "{{ event.payload.errors[0].index }}"}
- {step: b, tool: [{y: {kind: noop}}]}
"""
    execution = run(LOOP % (BEST_EFFORT, 3) + arc.lstrip("\n"), script={"x": odd})

    assert execution.events("step.scheduled")[1].payload["args"] == {"first": 1}


@pytest.mark.spec("S-73", "S-74")
def test_the_lists_of_endings_are_bounded(run: Run) -> None:
    log = run(STEP % ("a", "x", TYPO) + END % ("b", "y")).log
    lost = next(event for event in log if event.name == "next.evaluated")
    fold = Endings()

    for number in range(LISTED + 3):
        fold.take(replace(lost, step=f"s{number}"))

    assert (len(fold.unfired), fold.unfired_count) == (LISTED, LISTED + 3)
    assert len(fold.undefined) == LISTED


@pytest.mark.parametrize(
    ("arcs", "words"),
    [
        (
            [("a", "its guard is false"), ("b", "the step has not failed")],
            "no arc fired (a: its guard is false; b: the step has not failed); "
            "its guards read x, which nothing gave",
        ),
        (
            [("a", FALSE)],
            "no arc fired; its guard read x, which nothing gave",
        ),
    ],
)
def test_words_for_an_end_name_what_guards_read(
    arcs: list[tuple[str, str]], words: str
) -> None:
    answers = [{"step": step, "why": why} for step, why in arcs]

    assert NoArcFired("s", "sim-1", "step.done", answers, ["x"]).words() == words


def test_words_for_failed_iterations_without_their_kinds() -> None:
    assert failed_words(1, 2, None, None) == "1 of 2 iterations failed"


def test_a_document_of_an_execution_that_was_interrupted(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{w: {kind: wait, signal: go}}]}")
    execution.start()
    execution.step()
    document = Document().take(execution.log)
    assert [line.status for line in document.steps] == ["waiting"]
    assert interruption("sim", document.last) == {
        "since": execution.log[-1].timestamp,
        "resume": "noetl resume sim",
    }
    execution.signal("go")
    document = Document().take(execution.log)

    assert [line.status for line in document.steps] == ["running"]
    assert list(commands_of(execution.state)) == ["sim-1"]
    assert state_document(execution.state)["status"] == "running"


@pytest.mark.spec("S-38", "S-54")
def test_iterations_that_a_cancellation_stopped_are_counted_apart(
    prepare: Run,
) -> None:
    execution = prepare(LOOPING % 2)
    execution.start()
    execution.cancel()

    [line] = Document().take(execution.log).steps

    assert line.status == "cancelled"
    assert line.iterations is not None
    assert line.iterations["failed"] == 0


def test_moments_that_cannot_be_read_give_no_time_in_the_queue(run: Run) -> None:
    times = QueueTimes()
    for event in run("- {step: start, tool: [{a: {kind: noop}}]}").log:
        queued = times.take(replace(event, timestamp="yesterday"))

    assert queued is None
