"""Long logs: a reading touches the rows of its range, wherever in the log it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from noetl.adapters.stores import batches
from noetl.adapters.stores.batches import Row
from noetl.adapters.stores.memory import store as memory
from noetl.adapters.stores.postgres import store as postgres_store
from noetl.adapters.stores.sqlite import reads as sqlite

COMMITS, SIZE = 60, 20
LENGTH = COMMITS * SIZE
PAGE = 50


class Touched:
    """Rows that a reading fetched, and those of them that it decompressed."""

    fetched = 0
    unpacked = 0

    def reset(self) -> None:
        self.fetched = self.unpacked = 0


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> Touched:
    counts, unpack_rows, unpack_lines = (
        Touched(),
        batches.unpack_rows,
        batches.unpack_lines,
    )

    def each(rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            counts.fetched += 1
            yield row

    def rows_of(rows: Iterable[Row], *given: Any) -> Any:
        if isinstance(rows, list):  # fetched already
            counts.fetched += len(rows)
            return unpack_rows(rows, *given)
        return unpack_rows(each(rows), *given)

    def lines_of(row: Row, execution_id: str) -> list[bytes]:
        counts.unpacked += 1
        return unpack_lines(row, execution_id)

    for module in (memory, sqlite, postgres_store):
        monkeypatch.setattr(module, "unpack_rows", rows_of)
    monkeypatch.setattr(batches, "unpack_lines", lines_of)
    return counts


async def fill(store: Any, facts: Any) -> None:
    for after in range(0, LENGTH, SIZE):
        await store.commit([facts.transition("x", after, count=SIZE)])
        await store.commit([facts.transition(f"other-{after}", count=SIZE)])


@pytest.mark.parametrize(
    "after", [0, 1, SIZE - 1, LENGTH // 2 + 7, LENGTH - PAGE, LENGTH - 1, LENGTH]
)
async def test_a_reading_touches_the_rows_of_its_range_alone(
    store, facts, touched, after
):
    await fill(store, facts)

    events = await store.read("x", after=after, limit=PAGE)

    assert [each.seq for each in events] == list(
        range(after + 1, min(after + PAGE, LENGTH) + 1)
    )
    assert touched.fetched <= PAGE // SIZE + 2
    assert touched.unpacked == len({(each.seq - 1) // SIZE for each in events})


async def test_paging_backwards_touches_as_many_rows_as_forwards(store, facts, touched):
    await fill(store, facts)
    starts, seen = [*range(0, LENGTH, PAGE)], []
    for after in starts:
        await store.read("x", after=after, limit=PAGE)
    forwards = touched.unpacked
    touched.reset()

    for after in reversed(starts):
        page = await store.read("x", after=after, limit=PAGE)
        seen = [each.seq for each in page] + seen

    assert seen == list(range(1, LENGTH + 1))
    assert touched.unpacked == forwards
    assert touched.fetched <= len(starts) * (PAGE // SIZE + 2)


async def test_a_snapshot_is_read_without_the_log(store, facts, touched):
    await fill(store, facts)
    await store.commit([facts.transition("x", LENGTH, count=SIZE, snapshot=b"here")])

    assert await store.snapshot("x") is not None
    assert await store.length("x") == LENGTH + SIZE

    assert touched.fetched == touched.unpacked == 0
