"""A wake-up reaches all listeners of the process, and is counted."""

from __future__ import annotations

from noetl.runtime.dispatcher import Wakeup


async def test_each_listener_is_woken_on_its_own() -> None:
    wakeup = Wakeup()
    first, second = wakeup.listen(), wakeup.listen()

    wakeup.notify()
    first.clear()

    assert (first.is_set(), second.is_set()) == (False, True)
    assert wakeup.count == 1


async def test_a_listener_that_is_gone_is_forgotten() -> None:
    wakeup = Wakeup()
    kept = wakeup.listen()
    wakeup.listen()

    wakeup.notify()

    assert kept.is_set()
    assert len(wakeup._listeners) == 1
