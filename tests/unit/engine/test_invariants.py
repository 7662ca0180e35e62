"""The audit of a log: whole ones pass, and each kind of damage is named."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from doctored_logs import (
    doubled,
    edited,
    find,
    loop_of,
    names_in,
    swapped,
    without,
)
from msgspec.structs import replace

from noetl.engine.invariants import Audit, audit
from noetl.engine.invariants.catalog import INVARIANTS
from noetl.engine.runs import path_of

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

    [first, *_] = audit(log, narrow)

    assert (first.invariant, first.message, first.expected) == (
        "I-23",
        "3 iterations of sim-1 are open",
        "at most 2",
    )


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
