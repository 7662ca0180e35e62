"""The checkers of client histories find each anomaly that is planted, and no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from faults.history import Fact, Operation, check, check_ledger, check_timers


def did(what: Any, at: float, **more: Any) -> Operation:
    """An operation of client ``a`` on execution ``x`` that takes a second."""
    told = {"client": "a", "execution": "x", "outcome": "ok", **more}
    return Operation(what=what, began=at, ended=at + 1.0, **told)


def log(*names: str, key: str | None = "k", status: str = "completed") -> list[Fact]:
    first = Fact(name="playbook.execution.requested", key=key)
    last = Fact(name="playbook.processed", status=status)
    return [first, *(Fact(name=name) for name in names), last]


CALM: Sequence[Operation] = (
    did("start", 0.0, key="k", outcome="info", execution=None),
    did("start", 2.0, key="k"),
    did("read", 4.0, seq=2, status="running"),
    did("signal", 6.0, key="s"),
    did("cancel", 8.0),
    did("read", 10.0, seq=5, status="cancelled"),
)
CALM_LOG = [
    Fact(name="playbook.execution.requested", key="k"),
    Fact(name="step.scheduled"),
    Fact(name="message.received", key="s"),
    Fact(name="workflow.cancelled"),
    Fact(name="playbook.processed", status="cancelled"),
]


def test_a_history_that_agrees_with_the_log_has_no_anomaly() -> None:
    assert check(CALM, {"x": CALM_LOG}) == []


PLANTED = {
    "lost start": ([did("start", 0, key="k")], {}, "is not stored"),
    "doubled start": (
        [did("start", 0, key="k")],
        {"x": log(), "y": log()},
        "has 2 executions",
    ),
    "start under another name": (
        [did("start", 0, key="k", execution="z")],
        {"x": log()},
        "is not stored",
    ),
    "start of no client": ([], {"x": log()}, "no client has asked"),
    "refused start that is stored": (
        [did("start", 0, key="k", outcome="fail", execution=None)],
        {"x": log()},
        "refused each time",
    ),
    "lost signal": ([*CALM[:2], did("signal", 4, key="s")], {"x": log()}, "not recor"),
    "doubled signal": (
        CALM,
        {"x": [*CALM_LOG[:3], *CALM_LOG[2:]]},
        "is recorded 2 times",
    ),
    "signal of no client": (CALM[:3], {"x": CALM_LOG[:3]}, "was never sent"),
    "refused signal that is recorded": (
        [*CALM[:2], did("signal", 4, key="s", outcome="fail")],
        {"x": CALM_LOG[:3]},
        "was refused and is recorded",
    ),
    "lost cancellation": (
        [*CALM[:2], did("cancel", 4)],
        {"x": log()[:1]},
        "the cancellation is not recorded",
    ),
    "cancellation of no client": (
        CALM[:2],
        {"x": log("workflow.cancelled")},
        "is cancelled, and no client",
    ),
    "admission after the cancellation": (
        [*CALM[:2], did("cancel", 4)],
        {"x": log("workflow.cancelled", "step.scheduled")},
        "step.scheduled after the cancellation",
    ),
    "read that denies the cancellation": (
        [*CALM[:5], did("read", 10, seq=3, status="running")],
        {"x": CALM_LOG},
        "was read at 3 after its cancellation at 4",
    ),
    "read that goes back": (
        [*CALM[:2], did("read", 4, seq=3), did("read", 6, seq=2)],
        {"x": CALM_LOG[:3] + log()[1:]},
        "went back from 3 to 2",
    ),
    "read that finds nothing": (
        [*CALM[:2], did("read", 4, outcome="fail")],
        {"x": log()},
        "is not found",
    ),
    "read of events that are not stored": (
        [*CALM[:2], did("read", 4, seq=9, status="running")],
        {"x": log()},
        "its log ends at 2",
    ),
    "read of another end": (
        [*CALM[:2], did("read", 4, seq=2, status="failed")],
        {"x": log()},
        "as failed, and is completed",
    ),
}


@pytest.mark.parametrize(("history", "logs", "told"), PLANTED.values(), ids=PLANTED)
def test_a_planted_anomaly_is_found(
    history: Sequence[Operation], logs: Any, told: str
) -> None:
    found = check(history, logs)

    assert any(told in each for each in found), found


def test_a_wait_that_ends_before_its_time_is_found() -> None:
    until = "2026-01-01T00:00:02Z"
    begun = Fact(name="task.suspended", of="t", until=until)

    def ended(at: str, **more: Any) -> list[str]:
        fact = Fact(name="task.resumed", of="t", at=at, **more)
        return [*check_timers({"x": [begun, fact]})]

    assert ended("2026-01-01T00:00:02.1Z") == []
    assert ended("2026-01-01T00:00:01Z", key="3") == [], "a signal ended it"
    assert len(ended("2026-01-01T00:00:01.9Z")) == 1


def test_effects_that_the_log_does_not_know_of_are_found() -> None:
    one, two = ("x", 0), ("x", 1)

    assert [*check_ledger({one: 2, two: 1}, {one: 2, two: 1}, [one, two])] == []
    [twice] = check_ledger({one: 2}, {one: 1}, [one])
    [never] = check_ledger({one: 1}, {one: 1, two: 1}, [one, two])
    assert "effect 0 happened 2 times, the log knows of 1" in twice
    assert "effect 1 has ended and never happened" in never
