"""Finished executions wait for exports: claimed, postponed, and removed at last."""

from __future__ import annotations

import pytest

from noetl.ports import Timer, WaitingExports

DUE = 100.0


@pytest.fixture
def ended(store, facts):
    """Three executions that wait for `otlp`, and one of them for `other`, too."""

    async def end(name: str, *exports: str) -> None:
        timers = [Timer(name, f"export:{each}", DUE, "export") for each in exports]
        await store.commit([facts.transition(name, status="failed", timers=timers)])

    return end


async def make_three(ended) -> None:
    await ended("a", "otlp")
    await ended("b", "otlp", "other")
    await ended("c", "otlp")


async def claim(store, name: str = "otlp", *, now: float = DUE, limit: int = 10):
    return set(await store.claim_exports(name, now=now, until=now + 60, limit=limit))


async def test_what_has_ended_waits_for_each_export_until_it_is_taken(store, ended):
    await make_three(ended)

    assert await store.count_exports() == {
        "otlp": WaitingExports(3, "a"),
        "other": WaitingExports(1, "b"),
    }
    assert await claim(store) == {"a", "b", "c"}
    await store.end_exports("otlp", ["a", "b"])
    assert await store.count_exports() == {
        "otlp": WaitingExports(1, "c"),
        "other": WaitingExports(1, "b"),
    }
    assert await claim(store, now=DUE + 60) == {"c"}
    assert await claim(store, "other") == {"b"}


async def test_a_claimed_execution_is_offered_again_after_its_time(store, ended):
    await make_three(ended)

    first = await claim(store, limit=2)
    rest = await claim(store)

    assert (len(first), len(rest), first | rest) == (2, 1, {"a", "b", "c"})
    assert await claim(store, now=DUE + 59) == set()
    assert await claim(store, now=DUE + 60) == {"a", "b", "c"}


async def test_a_postponed_execution_is_offered_at_its_time(store, ended):
    await make_three(ended)
    await claim(store)

    await store.postpone_exports("otlp", ["a"], until=DUE + 5)

    assert await claim(store, now=DUE + 4) == set()
    assert await claim(store, now=DUE + 5) == {"a"}
    await store.postpone_exports("otlp", ["unknown"], until=DUE)
    await store.end_exports("otlp", ["unknown"])


async def test_an_export_is_not_due_before_its_time(store, ended):
    await make_three(ended)

    assert await claim(store, now=DUE - 1) == set()


async def test_the_sweep_does_not_serve_exports(store, ended, facts):
    await make_three(ended)
    timers = [Timer("d", "finished", DUE, "finished")]
    await store.commit([facts.transition("d", status="failed", timers=timers)])

    due = await store.sweep(now=DUE)

    assert [(each.execution_id, each.kind) for each in due] == [("d", "finished")]


async def test_a_timer_of_an_export_is_recorded_as_one(store, ended):
    await ended("a", "otlp")

    records = await store.records("a")

    assert [each.kind for each in records.timers] == ["export"]
