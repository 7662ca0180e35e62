"""The audit of a log: whole ones pass, and each kind of damage is named."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from doctored_logs import (
    doubled,
    edited,
    find,
    loop_of,
    messages_in,
    names_in,
    numbered,
    swapped,
    without,
)
from msgspec.structs import replace

from noetl.engine.error_kinds import remedy_of
from noetl.engine.events import Event
from noetl.engine.invariants import Audit, audit, loops, tasks
from noetl.engine.invariants.catalog import INVARIANTS, cure_of
from noetl.engine.runs import path_of
from noetl.engine.values.references import make_reference
from noetl.engine.waits.resume import children_of

Run = Callable[..., Any]

FLOW = """
- step: start
  loop: {in: [1, 2, 3, 4], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {when: "{{ _attempt < 2 }}", then: {do: retry}},
    {else: {then: {do: continue, set_ctx: {k: 1}}}}]}}}},
    {b: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- {step: left, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: right, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end, spec: {join: {mode: all}}, tool: {kind: noop}}
"""


@pytest.fixture(scope="module")
def flow(run: Run) -> Any:
    return run(FLOW, script={"b": lambda call: call.attempt})


def test_a_whole_log_and_each_beginning_of_it_are_sound(flow: Any) -> None:
    for length in range(len(flow.log) + 1):
        assert audit(flow.log[:length], flow.playbook) == []


def test_a_breach_says_what_was_expected(flow: Any) -> None:
    [arcs] = [
        breach
        for breach in audit(edited(flow.log, "next.evaluated", "fired", []))
        if breach.message == "the tokens are not those of the arcs that fired"
    ]
    assert (arcs.invariant, arcs.expected) == ("I-12", "left, right")


def test_a_token_that_is_left_when_the_execution_finishes_is_named(run: Run) -> None:
    log = run(
        """
        - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
        - {step: end, tool: {kind: noop}}
        """
    ).log
    left = [event for event in log if event.step != "end"]

    messages = [breach.message for breach in audit(left)]
    assert "the execution finishes, and sim.t2 does not" in messages


def test_a_refused_patch_of_a_parallel_loop_is_sound(run: Run) -> None:
    execution = run(
        """
        - step: start
          loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
          tool:
            - a:
                kind: noop
                spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: "{{ iter.x }}"}}}}]}}
        """  # noqa: E501
    )
    refused = [e for e in execution.events("task.done") if "refused" in e.payload]

    assert len(refused) == 1
    assert audit(execution.log) == []


@pytest.mark.parametrize(
    ("change", "name", "invariant"),
    [
        (without, "step.scheduled", "I-15"),
        (without, "step.done", "I-14"),
        (without, "loop.started", "I-22"),
        (without, "loop.iteration.started", "I-22"),
        (without, "loop.iteration.done", "I-24"),
        (without, "task.started", "I-17"),
        (without, "task.done", "I-27"),
        (without, "next.evaluated", "I-11"),
        (without, "loop.done", "I-12"),
        (without, "workflow.finished", "I-14"),
        (without, "workflow.started", "I-11"),
        (doubled, "playbook.execution.requested", "I-01"),
        (doubled, "workflow.started", "I-31"),
        (doubled, "step.done", "I-15"),
        (doubled, "step.scheduled", "I-11"),
        (doubled, "next.evaluated", "I-12"),
        (doubled, "token.joined", "I-11"),
        (doubled, "task.started", "I-27"),
        (doubled, "task.done", "I-27"),
        (doubled, "loop.started", "I-22"),
        (doubled, "loop.done", "I-24"),
        (doubled, "loop.iteration.started", "I-22"),
        (doubled, "loop.iteration.done", "I-15"),
        (doubled, "workflow.finished", "I-14"),
        (doubled, "playbook.processed", "I-14"),
        (swapped, "task.started", "I-17"),
        (swapped, "loop.iteration.started", "I-22"),
        (swapped, "workflow.finished", "I-14"),
    ],
)
def test_damage_is_named(flow: Any, change: Any, name: str, invariant: str) -> None:
    assert invariant in names_in(change(flow.log, name), flow.playbook)


@pytest.mark.parametrize(
    ("name", "path", "value", "invariant"),
    [
        ("workflow.started", "token.token_id", "sim.t7", "I-11"),
        ("workflow.started", "token.step", "other", "I-11"),
        ("step.scheduled", "admit.allow", False, "I-11"),
        ("step.scheduled", "tokens", [], "I-11"),
        ("next.evaluated", "arcs.0.fired", False, "I-12"),
        ("next.evaluated", "arcs.0.step", "other", "I-12"),
        ("next.evaluated", "mode", "exclusive", "I-12"),
        ("next.evaluated", "fired.0.token_id", "sim.t1", "I-11"),
        ("loop.started", "total", 5, "I-22"),
        ("loop.started", "mode", "sequential", "I-23"),
        ("loop.iteration.started", "item", 9, "I-22"),
        ("loop.done", "done", 3, "I-24"),
        ("loop.done", "total", 3, "I-24"),
        ("loop.done", "results", [1, 1, 1], "I-24"),
        ("loop.done", "error_kinds", {"timeout": 1}, "I-24"),
        ("loop.iteration.done", "result", 9, "I-26"),
        ("step.done", "result", 9, "I-26"),
        ("task.done", "outcome.status", "error", "I-26"),
        ("task.done", "directive.do", "fail", "I-27"),
        ("task.done", "directive.delay", -1, "I-28"),
        ("task.started", "in_doubt", 1, "I-27"),
        ("task.done", "directive", {"do": "jump", "to": "b", "next": "a"}, "I-29"),
        ("task.done", "directive", {"do": "continue", "next": "z"}, "I-29"),
        ("task.done", "directive", {"do": "fail", "next": "b"}, "I-26"),
        ("token.joined", "token_id", "sim.t2", "I-11"),
        ("workflow.finished", "status", "failed", "I-14"),
        ("workflow.finished", "status", "cancelled", "I-14"),
        ("task.done", "outcome.result", "x" * 70_000, "I-35"),
        ("task.done", "spilled", ["outcome.result"], "I-35"),
    ],
)
def test_an_edited_event_is_named(
    flow: Any, name: str, path: str, value: Any, invariant: str
) -> None:
    assert invariant in names_in(edited(flow.log, name, path, value), flow.playbook)


@pytest.mark.parametrize(
    ("name", "changes", "invariant"),
    [
        ("step.scheduled", {"source": "worker"}, "I-13"),
        ("step.scheduled", {"name": "step.dreamt"}, "I-13"),
        ("step.scheduled", {"step_run_id": "sim-8"}, "I-15"),
        ("task.started", {"attempt": 2}, "I-27"),
        ("task.started", {"task_label": "b"}, "I-27"),
        ("task.started", {"task_run_id": "sim-1/0:a.2"}, "I-27"),
        ("task.done", {"status": "skipped"}, "I-26"),
        ("step.done", {"status": "paused"}, "I-26"),
        ("step.done", {"execution_id": "other"}, "I-04"),
        ("step.done", {"event_id": "sim.999"}, "I-04"),
        ("step.done", {"payload": {}}, "I-26"),
        ("next.evaluated", {"payload": {}}, "I-07"),
        ("loop.started", {"payload": {"total": 3}}, "I-07"),
    ],
)
def test_a_wrong_envelope_is_named(
    flow: Any, name: str, changes: dict[str, Any], invariant: str
) -> None:
    at, log = find(flow.log, name), list(flow.log)
    log[at] = replace(log[at], **changes)

    assert invariant in names_in(log)


def test_a_gap_is_named_with_its_place(flow: Any) -> None:
    log = flow.log
    [breach] = [b for b in audit(log[:4] + log[5:]) if b.invariant == "I-04"]

    assert (breach.seq, breach.message) == (6, "expected event 5, found 6")
    assert breach.expected == "event 5"


def test_more_open_iterations_than_the_playbook_allows_are_named(
    run: Run, prepare: Run
) -> None:
    log = run(FLOW.replace("max_in_flight: 2", "max_in_flight: 3")).log
    narrow = prepare(FLOW).playbook

    assert audit(log) == [], "the log has the bound that its execution had"
    [told, *_] = audit(log, narrow)
    [first, *_] = audit([_without_bound(event) for event in log], narrow)

    assert (told.invariant, told.message) == (
        "I-23",
        "the loop sim-1 has max_in_flight 3",
    )
    assert (first.invariant, first.message, first.expected) == (
        "I-23",
        "3 iterations of sim-1 are open",
        "at most 2",
    )


def _without_bound(event: Event, bound: int | None = None) -> Event:
    """The event as an earlier version has recorded it, or with another bound."""
    if event.name != "loop.started":
        return event
    payload = {k: v for k, v in event.payload.items() if k != "max_in_flight"}
    if bound is not None:
        payload["max_in_flight"] = bound
    return replace(event, payload=payload)


def test_more_open_iterations_than_the_log_allows_are_named(run: Run) -> None:
    """The log alone says it: no playbook is at hand."""
    log = run(FLOW).log

    [first, *_] = audit([_without_bound(event, 1) for event in log])

    assert (first.invariant, first.expected) == ("I-23", "at most 1")
    assert audit([_without_bound(event) for event in log]) == []


def test_each_invariant_is_described() -> None:
    numbers = [int(name.removeprefix("I-")) for name in INVARIANTS]

    assert numbers == list(range(1, len(INVARIANTS) + 1))
    for name, each in INVARIANTS.items():
        assert each.sentence.endswith("."), name
        assert each.how, name
        assert each.cure, name


# -- size ------------------------------------------------------------------------


def test_a_long_loop_is_audited_in_bounded_memory(run: Run) -> None:
    count = 4_000
    log = run(
        "- {step: start, loop: {in: '{{ range(2) }}', iterator: x, "
        "spec: {mode: sequential}}, tool: [{a: {kind: noop}}]}"
    ).log
    items = {"start": 0, "stop": count, "step": 1}
    log = edited(
        edited(log, "loop.started", "total", count), "loop.started", "items", items
    )
    watch, at = Audit(), find(log, "loop.iteration.started")
    for event in log[:at]:
        assert not watch.take(event)
    tracemalloc.start()
    sizes = []
    for number, event in enumerate(loop_of(count, log, log[find(log, "loop.done")])):
        assert not watch.take(event)
        if number in (count * 2, count * 4 - 1):
            path_of.cache_clear()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()

    half, whole = sizes
    assert whole < half + 20_000


# -- rare logs -------------------------------------------------------------------


def test_a_remedy_is_known_for_each_invariant_and_for_others() -> None:
    assert cure_of("I-01") == INVARIANTS["I-01"].cure
    assert cure_of("I-99")
    assert remedy_of("timeout")
    assert remedy_of("pg.23505")
    assert remedy_of("my.own") is None


def test_a_log_that_cannot_be_understood_is_lost(flow: Any) -> None:
    watch, at = Audit(), find(flow.log, "next.evaluated")
    for event in flow.log[:at]:
        watch.take(event)
    assert not watch.is_lost
    watch.take(replace(flow.log[at], payload={}))

    assert watch.is_lost


def test_values_that_were_stored_elsewhere_are_compared_by_their_keys(run: Run) -> None:
    both = run(WRITERS, script={"a": ["x" * 70_000]})
    assert both.events("task.done")[1].payload["spilled"]
    assert audit(both.log) == []
    at = next(n for n, e in enumerate(both.log) if e.iteration_id == "sim-1/1"
              and e.name == "task.done")  # fmt: skip
    payload = deepcopy(both.log[at].payload)
    payload["set_ctx"]["k"]["key"] = "0" * 64
    changed = [*both.log[:at], replace(both.log[at], payload=payload)]

    assert "ctx.k is written by sim-1/1 and by sim-1/0" in messages_in(changed)


WRITERS = """
- step: start
  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {else: {then: {do: continue, set_ctx: {k: "{{ outcome.result }}"}}}}]}}}}]
"""


def test_a_refused_patch_that_fails_is_sound(run: Run) -> None:
    log = run(WRITERS, script={"a": [1, 2]}).log
    [refused] = [event for event in log if "refused" in event.payload]

    assert refused.payload["directive"]["do"] == "fail"
    assert audit(log) == []


def test_writers_are_remembered_up_to_a_bound(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = run(WRITERS, script={"a": [1, 1]}).log
    monkeypatch.setattr(tasks, "MAX_WRITERS", 0)
    monkeypatch.setattr(loops, "MAX_ERRORS", 0)
    other = edited(log, "task.done", "set_ctx", {"k": 2})

    assert audit(other) == []
    failed = run(FAILING, script={"a": "!timeout"}).log
    assert "errors differs from the failed iterations" in messages_in(failed)


FAILING = """
- step: start
  spec: {policy: {failure: best_effort}}
  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: noop}}]
"""


def test_more_loops_than_the_playbook_has_are_without_a_bound(
    run: Run, prepare: Run
) -> None:
    inner = "loop: {in: [1, 2], iterator: y, spec: {mode: parallel}}"
    both = f"""
    - step: start
      loop: {{in: [1], iterator: x, {inner}}}
      tool: [{{a: {{kind: noop}}}}]
    """
    narrow = prepare(both.replace(f", {inner}", "")).playbook

    assert "I-23" not in names_in(run(both).log, narrow)


def test_an_event_of_a_pipeline_that_was_never_begun_is_named(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: {kind: wait, signal: go}}")
    execution.start()
    execution.step()
    execution.signal("go")
    while execution.step():
        pass
    log = [event for event in execution.log if event.name != "step.scheduled"]

    assert "I-15" in names_in(numbered(log))


def test_a_discarded_token_that_was_never_sent_is_named(flow: Any) -> None:
    log = edited(flow.log, "token.joined", "discarded", True)
    at = find(log, "token.joined")
    payload = {**log[at].payload, "token_id": "sim.t99"}

    found = names_in([*log[:at], replace(log[at], payload=payload), *log[at + 1 :]])

    assert "I-11" in found


def test_results_that_were_stored_as_a_value_are_compared(run: Run) -> None:
    log = run(FLOW, script={"b": lambda call: "x" * 5_000}).log
    assert audit(log) == []
    body = msgspec.json.encode(["x" * 5_000] * 4)
    key = hashlib.sha256(body).hexdigest()
    good = make_reference(key, len(body), "list")
    bad = make_reference("0" * 64, len(body), "list")
    message = "the results are not those of the iterations"

    for reference, told in ((good, False), (bad, True)):
        changed = edited(log, "loop.done", "results", reference)
        assert (message in messages_in(changed)) is told


def test_errors_that_were_stored_elsewhere_are_not_compared(run: Run) -> None:
    best = FLOW.replace(
        "tool: [{a", "spec: {policy: {failure: best_effort}}\n  tool: [{a"
    )
    log = run(best, script={"b": "!timeout"}).log
    reference = make_reference("0" * 64, 9, "list")

    changed = edited(log, "loop.done", "errors", reference)

    assert "errors differs from the failed iterations" not in messages_in(changed)


def test_one_iteration_may_write_a_key_twice(run: Run) -> None:
    rules = (
        "spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {k: %d}}}}]}}"
    )
    tasks = ", ".join(
        f"{{{label}: {{kind: noop, {rules % number}}}}}"
        for number, label in enumerate("ab")
    )
    flow = (
        "- {step: s, loop: {in: [1], iterator: x, spec: {mode: parallel}}, tool: [%s]}"
    )

    execution = run(flow % tasks)

    assert execution.state.ctx == {"k": 1}
    assert audit(execution.log) == []


def test_the_answer_of_a_child_is_sound(prepare: Run) -> None:
    execution = prepare(
        "- {step: start, tool: [{call: {kind: playbook, path: shop/pay}}]}",
        unasked=frozenset({"playbook"}),
    )
    execution.start()
    execution.step()
    [(command_id, child)] = children_of(execution.state)
    answer = {"status": "completed", "result": 1, "error": None}
    execution.answer(command_id, child["execution_id"], answer)
    while execution.step():
        pass

    assert audit(execution.log) == []


def test_large_results_in_an_event_are_not_compared(run: Run) -> None:
    log = run(FLOW, script={"b": lambda call: "x" * 20_000}).log

    changed = edited(log, "loop.done", "results", [1, 2])

    assert "the results are not those of the iterations" not in messages_in(changed)
