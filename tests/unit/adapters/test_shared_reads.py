"""Readers of the same row share a statement that begins after they asked."""

from __future__ import annotations

import asyncio

import pytest

from noetl.adapters.catalogs.postgres import SharedReads


class Row:
    """A row whose reads wait until the test lets one of them go on."""

    def __init__(self) -> None:
        self.value = 1
        self.reads = 0
        self._open: asyncio.Queue[Exception | None] = asyncio.Queue()
        self.shared = SharedReads(self._read)

    async def _read(self, key: str) -> str:
        self.reads += 1
        found = f"{key}{self.value}"
        error = await self._open.get()
        if error is not None:
            raise error
        return found

    def let_go(self, count: int = 1, error: Exception | None = None) -> None:
        for _ in range(count):
            self._open.put_nowait(error)

    async def ask(self, key: str = "a") -> asyncio.Task[str]:
        task = asyncio.create_task(self.shared.get(key))
        await asyncio.sleep(0)
        return task


async def test_those_who_ask_during_a_read_share_the_next() -> None:
    row = Row()
    first = await row.ask()
    row.value = 2
    others = [await row.ask() for _ in range(5)]
    row.let_go(2)

    assert await first == "a1"
    assert await asyncio.gather(*others) == ["a2"] * 5
    assert row.reads == 2


async def test_no_caller_gets_what_was_read_before_it_asked() -> None:
    row = Row()
    first = await row.ask()
    second = await row.ask()
    row.let_go()
    assert await first == "a1"
    await asyncio.sleep(0)  # the read for the second has begun
    row.value = 2
    third = await row.ask()
    row.let_go(2)

    assert (await second, await third) == ("a1", "a2")
    assert row.reads == 3


async def test_reads_of_other_keys_do_not_wait() -> None:
    row = Row()
    tasks = [await row.ask("a"), await row.ask("b")]
    assert row.reads == 2
    row.let_go(2)
    assert await asyncio.gather(*tasks) == ["a1", "b1"]


async def test_a_read_that_fails_fails_for_those_who_share_it_alone() -> None:
    row = Row()
    first = await row.ask()
    others = [await row.ask() for _ in range(2)]
    row.let_go()
    assert await first == "a1"
    await asyncio.sleep(0)
    last = await row.ask()
    row.let_go(error=OSError("gone"))
    for task in others:
        with pytest.raises(OSError, match="gone"):
            await task
    row.let_go()
    assert await last == "a1"


async def test_a_caller_that_leaves_keeps_no_other_waiting() -> None:
    row = Row()
    first = await row.ask()
    second, third = await row.ask(), await row.ask()
    first.cancel()
    second.cancel()
    await asyncio.wait({first, second})
    row.let_go()
    assert await third == "a1"
    assert row.reads == 2


async def test_nothing_is_remembered_after_a_read() -> None:
    row = Row()
    for number in (1, 2):
        row.value = number
        row.let_go()
        assert await row.shared.get("a") == f"a{number}"
    assert row.shared._waiting == {}
