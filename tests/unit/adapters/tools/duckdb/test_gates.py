"""Who waits for whom at a database file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from noetl.adapters.tools.duckdb.client import Files, Gates

READ, WRITE = {"a": False}, {"a": True}


class Queue:
    """Calls that enter and stay inside until they are told to leave."""

    def __init__(self) -> None:
        self._gates = Gates()
        self._tasks: list[asyncio.Task[None]] = []
        self._leave: list[asyncio.Event] = []
        self.inside: list[int] = []

    async def come(self, files: Files) -> None:
        number = len(self._tasks)
        self._leave.append(asyncio.Event())
        self._tasks.append(asyncio.create_task(self._stay(number, files)))
        await settle()

    async def leave(self, number: int) -> None:
        self._leave[number].set()
        await settle()

    async def cancel(self, number: int) -> None:
        self._tasks[number].cancel()
        await settle()

    async def _stay(self, number: int, files: Files) -> None:
        async with self._gates.entered(files):
            self.inside.append(number)
            try:
                await self._leave[number].wait()
            finally:
                self.inside.remove(number)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(game: Callable[[Queue], Awaitable[None]]) -> None:
    async def main() -> None:
        await game(Queue())

    asyncio.run(main())


def test_readers_share_a_file_and_a_writer_does_not() -> None:
    async def game(queue: Queue) -> None:
        await queue.come(READ)
        await queue.come(READ)
        await queue.come(WRITE)
        assert queue.inside == [0, 1]
        await queue.leave(0)
        assert queue.inside == [1]
        await queue.leave(1)
        assert queue.inside == [2]

    play(game)


def test_a_writer_is_not_overtaken_by_later_readers() -> None:
    async def game(queue: Queue) -> None:
        for files in (READ, WRITE, READ):
            await queue.come(files)
        assert queue.inside == [0]
        await queue.leave(0)
        assert queue.inside == [1]
        await queue.leave(1)
        assert queue.inside == [2]

    play(game)


def test_other_files_are_ignored() -> None:
    async def game(queue: Queue) -> None:
        for files in (WRITE, {"b": True}, {}):
            await queue.come(files)
        assert queue.inside == [0, 1, 2]

    play(game)


def test_two_that_want_two_files_do_not_wait_for_each_other() -> None:
    async def game(queue: Queue) -> None:
        await queue.come({"a": True, "b": True})
        await queue.come({"b": True, "a": True})
        assert queue.inside == [0]
        await queue.leave(0)
        assert queue.inside == [1]

    play(game)


@pytest.mark.parametrize("gone", [0, 1], ids=["inside", "waiting"])
def test_who_is_cancelled_makes_way(gone: int) -> None:
    async def game(queue: Queue) -> None:
        for _ in range(3):
            await queue.come(WRITE)
        await queue.cancel(gone)
        await queue.leave(1 - gone)
        assert queue.inside == [2]

    play(game)
