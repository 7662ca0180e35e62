"""Forks of an execution, on every store: read once, and then as they begin."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl.ports import Append, Summary, Transition
from noetl.service.executions.views import head
from noetl.service.executions.views.head import ForkIndex


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "LINES", 5)


async def begin(store: Any, facts: Any, name: str, origin: str | None = None) -> None:
    summary = facts.summary(name)
    if origin is not None:
        at = {"execution_id": origin, "seq": 1}
        summary = msgspec.structs.replace(summary, forked_from=at)
    log = Append(0, [facts.event(name, 1)])
    await store.commit([Transition(execution_id=name, log=log, summary=summary)])


def everything(summary: Summary) -> bool:
    return True


async def test_forks_are_found_and_so_are_later_ones(store, facts):
    for number in range(12):
        await begin(store, facts, f"e{number:02}", "e00" if number == 3 else None)
    forks = ForkIndex(store)

    before = await forks.of("e00", everything)
    for number in range(12, 30):
        await begin(store, facts, f"e{number:02}", "e00" if number % 8 == 0 else None)
    after = await forks.of("e00", everything)

    assert before == ["e03"]
    assert after == ["e24", "e16", "e03"]
    assert await forks.of("e01", everything) == []
    assert await forks.of("e00", lambda each: each.execution_id != "e16") == [
        *("e24", "e03"),
    ]


async def test_an_execution_is_read_once(store, facts):
    reads: list[int] = []

    class Watched:
        async def find(self, **query: Any) -> Any:
            found = await store.find(**query)
            reads.append(len(found))
            return found

    for number in range(12):
        await begin(store, facts, f"e{number:02}")
    forks = ForkIndex(Watched())  # type: ignore[arg-type]
    await forks.of("e00", everything)
    first = len(reads)

    await forks.of("e00", everything)

    assert (first, len(reads) - first) == (3, 1)


async def test_the_first_read_ends(store, facts, monkeypatch):
    monkeypatch.setattr(head, "MAX_SCANNED", 10)
    for number in range(20):
        await begin(store, facts, f"e{number:02}", "e00" if number == 2 else None)

    assert await ForkIndex(store).of("e00", everything) == []
