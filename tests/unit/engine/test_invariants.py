"""The audit of a log: whole ones pass, and each kind of damage is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from noetl.engine.events import Event
from noetl.engine.invariants import audit

Run = Callable[..., Any]

FLOW = """
- step: start
  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {when: "{{ _attempt < 2 }}", then: {do: retry}}]}}}}]
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- {step: left, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: right, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end, spec: {join: {mode: all}}, tool: {kind: noop}}
"""


def numbered(log: list[Event]) -> list[Event]:
    return [
        replace(event, seq=seq, event_id=f"{event.execution_id}.{seq}")
        for seq, event in enumerate(log, 1)
    ]


def without(log: list[Event], name: str) -> list[Event]:
    first = next(event for event in log if event.name == name)
    return numbered([event for event in log if event is not first])


def doubled(log: list[Event], name: str) -> list[Event]:
    first = next(event for event in log if event.name == name)
    at = log.index(first)
    return numbered([*log[: at + 1], first, *log[at + 1 :]])


def test_a_whole_log_and_each_beginning_of_it_are_sound(run: Run) -> None:
    log = run(FLOW).log

    for length in range(len(log) + 1):
        assert audit(log[:length]) == []


@pytest.mark.parametrize(
    ("change", "name", "invariant"),
    [
        (without, "step.scheduled", "I-15"),
        (without, "step.done", "I-14"),
        (without, "loop.iteration.started", "I-22"),
        (without, "loop.iteration.done", "I-24"),
        (without, "task.started", "I-17"),
        (without, "next.evaluated", "I-11"),
        (doubled, "step.done", "I-15"),
        (doubled, "step.scheduled", "I-11"),
        (doubled, "next.evaluated", "I-12"),
        (doubled, "task.started", "I-27"),
        (doubled, "loop.iteration.started", "I-22"),
        (doubled, "loop.iteration.done", "I-15"),
        (doubled, "playbook.processed", "I-14"),
    ],
)
def test_damage_is_named(run: Run, change: Any, name: str, invariant: str) -> None:
    breaches = audit(change(run(FLOW).log, name))

    assert invariant in {breach.invariant for breach in breaches}


def test_a_gap_is_named_with_its_place(run: Run) -> None:
    log = run(FLOW).log
    [breach] = [b for b in audit(log[:4] + log[5:]) if b.invariant == "I-04"]

    assert (breach.seq, breach.message) == (6, "expected event 5, found 6")


@pytest.mark.spec("S-38")
def test_a_start_after_a_cancel_is_named(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}")
    execution.start()
    execution.step()
    started = execution.event("task.started")
    execution.cancel()
    at = [e.name for e in execution.log].index("workflow.cancelled") + 1
    log = numbered([*execution.log[:at], started, *execution.log[at:]])

    assert "I-32" in {breach.invariant for breach in audit(log)}
