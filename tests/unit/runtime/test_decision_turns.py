"""Decisions take turns, and those of an execution that are slow are counted."""

from __future__ import annotations

import asyncio
from time import thread_time

import pytest

from noetl.runtime import event_loop
from noetl.runtime.event_loop import (
    MAX_SLOW_DECISIONS,
    MAX_TURN_S,
    TooSlow,
    Turns,
    Watchdog,
)
from noetl.runtime.executions.quarantine import is_defect


def work_long() -> None:
    until = thread_time() + 2 * MAX_TURN_S
    while thread_time() < until:
        pass


async def test_between_long_decisions_everything_else_runs() -> None:
    turns, rounds = Turns(), 0
    over = asyncio.Event()

    async def live() -> None:
        nonlocal rounds
        while not over.is_set():
            rounds += 1
            await asyncio.sleep(0)

    living = asyncio.create_task(live())
    await asyncio.gather(*(turns.take(work_long) for _ in range(10)))
    over.set()
    await living
    assert rounds >= 10


async def test_what_a_decision_raises_is_passed_on_and_its_time_counted() -> None:
    turns = Turns()

    def fail() -> None:
        work_long()
        raise KeyError("x")

    with pytest.raises(KeyError):
        await turns.take(fail)
    assert turns.seconds >= MAX_TURN_S
    assert await turns.take(lambda: 1) == 1


async def test_time_in_which_the_processor_did_other_work_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Decisions of a busy machine are not slow."""
    elapsed = iter([100.0, 200.0])
    monkeypatch.setattr(event_loop, "perf_counter", lambda: next(elapsed))
    turns = Turns()
    assert await turns.take(lambda: 1) == 1
    assert turns.seconds < MAX_TURN_S


def test_an_execution_is_set_aside_with_its_third_slow_decision() -> None:
    watchdog = Watchdog()
    for _ in range(MAX_SLOW_DECISIONS - 1):
        watchdog.note("e", "finance/slow", 0.3)
    watchdog.note("f", "finance/other", 0.3)
    with pytest.raises(TooSlow, match="finance/slow") as raised:
        watchdog.note("e", "finance/slow", 0.3)
    assert is_defect(raised.value)
