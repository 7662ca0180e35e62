"""A large family of executions keeps no other family waiting."""

from __future__ import annotations

import asyncio

from noetl.runtime.executions.child_requests import Lane


def test_a_family_does_not_wait_for_another_one() -> None:
    async def work(lane: Lane, family: str, opened: asyncio.Event) -> None:
        async with lane.turn(family):
            await opened.wait()

    async def scenario() -> None:
        lane, opened = Lane(1), asyncio.Event()
        large = [asyncio.create_task(work(lane, "large", opened)) for _ in range(50)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5), lane.turn("small"):
            assert not any(task.done() for task in large)
        opened.set()
        await asyncio.gather(*large)

    asyncio.run(scenario())


def test_no_more_than_its_width_runs_at_once() -> None:
    most = running = 0

    async def work(lane: Lane) -> None:
        nonlocal most, running
        async with lane.turn("one"):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1

    async def scenario() -> None:
        lane = Lane(3)
        await asyncio.gather(*(work(lane) for _ in range(20)))

    asyncio.run(scenario())

    assert most == 3


def test_a_turn_is_not_lost_with_work_that_is_cancelled() -> None:
    async def hold(lane: Lane, opened: asyncio.Event) -> None:
        async with lane.turn("one"):
            await opened.wait()

    async def scenario() -> None:
        lane, opened = Lane(1), asyncio.Event()
        first = asyncio.create_task(hold(lane, opened))
        waiting = asyncio.create_task(hold(lane, opened))
        given = asyncio.create_task(hold(lane, opened))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        opened.set()
        await first
        given.cancel()  # it has been given the turn, and has not noticed
        async with asyncio.timeout(5), lane.turn("one"):
            pass

    asyncio.run(scenario())
