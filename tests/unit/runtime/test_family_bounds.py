"""S-37: a family is counted rarely, and never has many more than its limit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.runtime.executions.child_requests import (
    COUNT_LIFE_S,
    FULL_COUNT_LIFE_S,
    MAX_CACHED,
    FamilyBound,
)

pytestmark = pytest.mark.spec("S-37")


class Counted:
    """A store in which ``open`` executions of every family are not over."""

    def __init__(self) -> None:
        self.open = 0
        self.reads = 0
        self.now = 1_000.0

    async def count_family(self, execution_id: str, *, limit: int) -> int:
        self.reads += 1
        await asyncio.sleep(0)
        return min(self.open, limit)


def bound(counted: Any, limit: int | None) -> FamilyBound:
    return FamilyBound(counted, lambda: counted.now, limit)


def test_a_hundred_children_of_one_second_cost_one_count() -> None:
    async def test() -> None:
        counted = Counted()
        families = bound(counted, 1_000)
        for _ in range(100):
            assert await families.admits("f", "x")
        assert counted.reads == 1
        counted.now += COUNT_LIFE_S
        await families.admits("f", "x")
        assert counted.reads == 2

    asyncio.run(test())


def test_children_that_are_begun_count_before_they_are_in_the_store() -> None:
    async def test() -> None:
        counted = Counted()
        counted.open = 7
        families = bound(counted, 10)
        answers = [await families.admits("f", "x") for _ in range(5)]
        assert answers == [True, True, True, False, False]
        assert await families.admits("another", "y")

    asyncio.run(test())


def test_children_that_begin_during_a_count_are_not_forgotten() -> None:
    async def test() -> None:
        counted = Counted()
        families = bound(counted, 10)
        answers = await asyncio.gather(*(families.admits("f", "x") for _ in range(20)))
        assert answers.count(True) == 10

    asyncio.run(test())


def test_counts_that_overlap_do_not_forget_children_twice() -> None:
    async def test() -> None:
        counted = Counted()
        families = bound(counted, 10)
        answers = [await families.admits("f", "x") for _ in range(5)]
        counted.open = 5
        counted.now += COUNT_LIFE_S
        slow = asyncio.create_task(families.admits("f", "x"))
        await asyncio.sleep(0)
        counted.now += COUNT_LIFE_S
        answers += [await families.admits("f", "x") for _ in range(20)]
        answers.append(await slow)
        assert counted.reads == 3
        assert answers.count(True) == 10

    asyncio.run(test())


def test_of_a_full_family_it_is_soon_known_that_some_have_ended() -> None:
    async def test() -> None:
        counted = Counted()
        counted.open = 10
        families = bound(counted, 10)
        assert not await families.admits("f", "x")
        counted.open = 9
        assert not await families.admits("f", "x")
        assert counted.reads == 1
        counted.now += FULL_COUNT_LIFE_S
        assert await families.admits("f", "x")

    asyncio.run(test())


def test_a_clock_that_was_set_back_makes_a_count_old() -> None:
    async def test() -> None:
        counted = Counted()
        families = bound(counted, 10)
        await families.admits("f", "x")
        counted.now -= 3_600.0
        await families.admits("f", "x")
        assert counted.reads == 2

    asyncio.run(test())


def test_without_a_limit_nothing_is_counted() -> None:
    async def test() -> None:
        counted = Counted()
        assert await bound(counted, None).admits("f", "x")
        assert counted.reads == 0

    asyncio.run(test())


def test_so_many_families_are_remembered_and_no_more() -> None:
    async def test() -> None:
        counted = Counted()
        families = bound(counted, 10)
        for number in range(MAX_CACHED + 5):
            await families.admits(f"f{number}", "x")
        assert len(families._counts) == MAX_CACHED

    asyncio.run(test())
