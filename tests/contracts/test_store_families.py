"""Executions that descend from one root: counted, and served, as one family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl.ports import Store, Transition

pytestmark = pytest.mark.spec("S-37")

TTL = 30.0


def child(facts: Any, name: str, caller: str, **more: Any) -> Transition:
    made = facts.transition(name, **more)
    summary = msgspec.structs.replace(made.summary, parent_id=caller)
    return msgspec.structs.replace(made, summary=summary)


async def served(store: Store, slots: int) -> list[str]:
    leases = await store.claim("w", pool="default", slots=slots, now=100.0, ttl=TTL)
    return [lease.command_id for lease in leases]


def names(execution_id: str, count: int) -> list[str]:
    return [f"{execution_id}-{number}" for number in range(count)]


async def begin(store: Store, transitions: Sequence[Transition]) -> None:
    for each in transitions:
        await store.commit([each])


async def test_what_is_not_over_is_counted_at_every_depth(store, facts) -> None:
    await begin(
        store,
        [
            facts.transition("root"),
            child(facts, "a", "root"),
            child(facts, "b", "root", status="paused"),
            child(facts, "deep", "a", status="waiting"),
            child(facts, "refused", "a", status="failed"),
            facts.transition("other"),
            child(facts, "theirs", "other"),
        ],
    )

    for name in ("root", "a", "deep"):
        assert await store.count_family(name, limit=9) == 3
    assert await store.count_family("root", limit=2) == 2
    assert await store.count_family("theirs", limit=9) == 1


async def test_what_has_ended_is_not_counted(store, facts) -> None:
    await begin(store, [facts.transition("root"), child(facts, "a", "root")])
    ended = child(facts, "a", "root", after=1, status="completed")
    await store.commit([ended])

    assert await store.count_family("root", limit=9) == 0


async def test_a_child_of_what_is_not_there_is_a_family_of_its_own(store, facts):
    await begin(store, [child(facts, "a", "gone"), child(facts, "b", "a")])

    assert await store.count_family("a", limit=9) == 1


async def test_a_family_has_one_turn_among_the_others(store, facts) -> None:
    """However many children it has: another team waits for one command of it."""
    await begin(store, [facts.transition("root", commands=names("root", 2))])
    for number in range(20):
        each = f"c{number:02}"
        await store.commit([child(facts, each, "root", commands=names(each, 5))])
    await store.commit([facts.transition("other", commands=names("other", 9))])

    taken = [(await served(store, 1))[0] for _ in range(6)]

    assert taken == ["c00-0", "other-0", "c01-0", "other-1", "c02-0", "other-2"]
    assert await served(store, 4) == ["c03-0", "other-3", "c04-0", "other-4"]


async def test_executions_of_a_family_take_turns(store, facts) -> None:
    await begin(
        store,
        [
            facts.transition("root", commands=names("root", 3)),
            child(facts, "a", "root", commands=names("a", 50)),
            child(facts, "b", "a", commands=names("b", 2)),
        ],
    )

    assert await served(store, 4) == ["a-0", "b-0", "root-0", "a-1"]
    assert await served(store, 1) == ["b-1"]
    assert await served(store, 4) == ["root-1", "a-2", "root-2", "a-3"]
    assert await served(store, 50) == names("a", 50)[4:]


async def test_commands_that_a_child_plans_later_are_its_familys(store, facts) -> None:
    await begin(
        store,
        [
            facts.transition("root"),
            child(facts, "a", "root"),
            facts.transition("other", commands=names("other", 3)),
            child(facts, "a", "root", after=1, commands=names("a", 3)),
            facts.transition("root", 1, commands=names("root", 3)),
        ],
    )

    taken = [(await served(store, 1))[0] for _ in range(6)]

    assert taken == ["a-0", "other-0", "root-0", "other-1", "a-1", "other-2"]
