"""The sweep serves due timers; one that fails is served again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"


async def test_handlers_are_called_until_they_return(
    make_cluster: Make, make_tool: Make
) -> None:
    errors: list[str] = []
    cluster = make_cluster(on_error=lambda name, error: errors.append(name))
    calls: list[str] = []

    async def handle(execution_id: str) -> None:
        calls.append(execution_id)
        if len(calls) == 1:
            raise OSError("not yet")

    cluster.server.finished.subscribe(lambda path: path == "tests/t", handle)
    await cluster.start(ONE)
    cluster.work("w", make_tool())
    await cluster.finish()

    for _ in range(3):
        cluster.clock.time += 100.0
        await cluster.server.sweep()

    assert calls == ["e", "e"]
    assert errors == ["e"]


async def test_no_timer_without_a_handler_that_awaits_the_path(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster, calls = make_cluster(), []

    async def handle(execution_id: str) -> None:
        calls.append(execution_id)

    cluster.server.finished.subscribe(lambda path: path == "tests/other", handle)
    await cluster.start(ONE)
    cluster.work("w", make_tool())
    await cluster.finish()
    await cluster.server.sweep()

    assert calls == []


async def test_a_deadline_ends_the_execution(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE, timeout=10.0)

    cluster.clock.time += 5.0
    await cluster.server.sweep()
    assert (await cluster.store.summary("e")).finished_at is None
    cluster.clock.time += 6.0
    await cluster.server.sweep()

    assert (await cluster.store.summary("e")).finished_at is not None


async def test_each_sweep_wakes_the_workers(make_cluster: Make) -> None:
    cluster = make_cluster()
    listener = cluster.server.wakeup.listen()

    await cluster.server.sweep()

    assert listener.is_set()


async def test_the_age_of_a_sweep_and_the_lateness_of_its_timers_are_known(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE, timeout=10.0)
    sweep = cluster.server.sweep
    await sweep()

    cluster.clock.time += 25.0
    assert (sweep.age(), sweep.late) == (25.0, 0.0)
    await sweep()

    assert sweep.age() == 0.0
    assert 14.0 < sweep.late <= 15.0
