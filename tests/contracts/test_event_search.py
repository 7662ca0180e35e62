"""Search in a log, on every store: forwards, backwards, by ids and by text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.ports import Append, Transition
from noetl.service.executions.views import search
from noetl.service.executions.views.search import EventSearch, Wanted

COUNT = 50


@pytest.fixture
def events(facts: Any) -> Sequence[Event]:
    first = facts.event("x", 1, trace_id="t")
    texts = {7: 'say "Hi"', 23: "two\nlines", 31: "ÄPFEL", 44: "Say hi"}
    rest = [facts.event("x", n, text=texts.get(n, "-")) for n in range(2, COUNT + 1)]
    return [first, *rest]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BATCH", 7)


async def search_in(store: Any, facts: Any, events: Sequence[Event]) -> EventSearch:
    log, summary = Append(0, events), facts.summary("x")
    await store.commit([Transition(execution_id="x", log=log, summary=summary)])
    return EventSearch(store)


def seqs(lines: Sequence[bytes]) -> list[int]:
    return [json.loads(line)["seq"] for line in lines]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("say", [7, 44]),
        ('"hi"', [7]),
        ("two\nlines", [23]),
        ("äpfel", [31]),
        ('"text":"say hi"', [44]),
        ("never", []),
    ],
)
async def test_a_text_is_found_in_any_case(store, facts, events, text, found):
    some = await search_in(store, facts, events)

    for before in (None, COUNT + 1):
        lines, cursor = await some.page(
            "x", Wanted(text=text), after=1, before=before, limit=10
        )
        assert seqs(lines) == (found if before is None else found[::-1])
        assert cursor is None


@pytest.mark.parametrize("before", [COUNT + 1, 9_999, 30, 9, 8, 2, 1])
async def test_events_before_a_position_come_the_latest_first(
    store, facts, events, before
):
    some = await search_in(store, facts, events)

    lines, cursor = await some.page("x", Wanted(), after=0, before=before, limit=1_000)

    assert seqs(lines) == list(range(min(before, COUNT + 1) - 1, 0, -1))
    assert cursor is None


@pytest.mark.parametrize("limit", [1, 7, 10, 49, 50])
@pytest.mark.parametrize("backwards", [True, False])
async def test_pages_add_up(store, facts, events, limit, backwards):
    some = await search_in(store, facts, events)
    found: list[int] = []
    after, before = (0, COUNT + 1) if backwards else (0, None)

    while True:
        lines, cursor = await some.page(
            "x", Wanted(), after=after, before=before, limit=limit
        )
        found += seqs(lines)
        if cursor is None:
            break
        after, before = (0, cursor) if backwards else (cursor, None)

    assert sorted(found) == list(range(1, COUNT + 1))
    assert found == sorted(found, reverse=backwards)


async def test_one_request_looks_at_a_part(store, facts, events, monkeypatch):
    monkeypatch.setattr(search, "MAX_EVENTS", 20)
    some, wanted = await search_in(store, facts, events), Wanted(text="ÄPFEL")

    first = await some.page("x", wanted, after=0, before=None, limit=5)
    second, cursor = await some.page("x", wanted, after=20, before=None, limit=5)

    assert first == ([], 20)
    assert (seqs(second), cursor) == ([31], 40)


async def test_a_page_of_large_events_ends_early(store, facts, events, monkeypatch):
    monkeypatch.setattr(search, "MAX_BYTES", 1)
    some = await search_in(store, facts, events)

    lines, cursor = await some.page("x", Wanted(), after=0, before=9, limit=5)

    assert (seqs(lines), cursor) == ([8], 8)


async def test_ids_are_compared_without_the_events_before(store, facts, events):
    some = await search_in(store, facts, events)
    wanted = Wanted({"event_id": "x.44"})

    assert seqs((await some.page("x", wanted, after=40, before=None, limit=5))[0]) == [
        44
    ]
    assert (await some.page("x", wanted, after=44, before=None, limit=5))[0] == []
