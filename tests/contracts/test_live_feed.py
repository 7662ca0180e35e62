"""The live feed finds what other servers have committed, on every store."""

from __future__ import annotations

import time

from msgspec.structs import replace

from noetl.engine.times import rfc3339
from noetl.ports import Command
from noetl.service.live import LiveFeed

LATER = 4e9


async def test_a_look_finds_the_changes_of_others(store, facts):
    feed = LiveFeed(store)
    await store.commit([facts.transition("a", commands=["a-1"])])
    await feed.look()
    before = feed.at

    await store.commit([facts.transition("b")])
    await store.commit([facts.transition("a", 1, status="completed", done=["a-1"])])
    await feed.look()
    await feed.look()

    changed = {name for _, name in feed.changes(before, 10)}
    assert changed == {"a", "b"}
    lines = [await feed.line(number, name) for number, name in feed.changes(before, 10)]
    assert {line.execution_id: line.status for line in lines if line} == {
        "a": "completed",
        "b": "running",
    }


async def test_a_look_finds_new_questions(store, facts):
    feed = LiveFeed(store)
    await feed.look()
    before = feed.asked_at

    command = Command("a-1", "a", not_before=LATER)
    await store.commit([facts.transition("a", commands=[command])])
    await feed.look()
    asked = feed.asked_at
    await feed.look()

    assert before < asked == feed.asked_at


async def test_the_first_look_finds_what_has_just_begun(store, facts):
    old, new = facts.transition("a"), facts.transition("b")
    summary = replace(new.summary, started_at=rfc3339(time.time()))
    await store.commit([old])
    await store.commit([replace(new, summary=summary)])
    feed = LiveFeed(store)

    await feed.look()

    assert [name for _, name in feed.changes(0, 10)] == ["b"]
