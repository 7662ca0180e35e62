"""States at any event, on every store: folded from checkpoints and snapshots."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import Append, Transition
from noetl.runtime.executions.loaded import freeze
from noetl.service.errors import RequestRefused
from noetl.service.executions.views import states
from noetl.service.executions.views.states import States

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
- step: start
  loop: {in: "{{ range(30) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool:
    - call:
        kind: http
        url: "http://x"
        spec:
          policy:
            rules:
              - else: {then: {do: continue, set_ctx: {last: "{{ 'x' * 5000 }}"}}}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
"""


@pytest.fixture(scope="module")
def events() -> Sequence[Event]:
    loaded = load(LOOP)
    assert loaded.playbook is not None, loaded.diagnostics
    simulation = Simulation(
        loaded.playbook,
        lambda call: Outcome.ok(1),
        execution_id="x",
        choose=random.Random(1).randrange,
    )
    simulation.run()
    return simulation.log


@pytest.fixture(autouse=True)
def close_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "EVERY", 20)
    monkeypatch.setattr(states, "SLICE", 7)


async def append(
    store: Any, facts: Any, events: Sequence[Event], snapshot: bytes | None = None
) -> None:
    log = Append(events[0].seq - 1, events, snapshot=snapshot)
    summary = facts.summary("x")
    await store.commit([Transition(execution_id="x", log=log, summary=summary)])


class Watched:
    """A store whose reads are noted."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.length, self.snapshot = store.length, store.snapshot
        self.events = 0

    async def read(self, execution_id: str, *, after: int, limit: int) -> Any:
        found = await self._store.read(execution_id, after=after, limit=limit)
        self.events += len(found)
        return found


async def test_the_state_at_any_event_is_that_of_a_replay(store, facts, events):
    await append(store, facts, events)
    some = States(store)

    for seq in [*range(1, len(events) + 1, 3), 20, 40, 1, len(events)]:
        assert freeze(await some.at("x", seq)) == freeze(replay(events[:seq])), seq
    assert freeze(await some.at("x", None)) == freeze(replay(events))


async def test_checkpoints_spare_the_events_before_them(store, facts, events):
    await append(store, facts, events)
    watched = Watched(store)
    some = States(watched)  # type: ignore[arg-type]
    await some.at("x", None)
    watched.events = 0

    for seq in range(len(events), 0, -1):
        before = watched.events
        await some.at("x", seq)
        assert watched.events - before < 20, "less than from one to the next"


async def test_the_first_fold_begins_at_a_snapshot(store, facts, events):
    await append(store, facts, events[:50], freeze(replay(events[:50])))
    await append(store, facts, events[50:])
    watched = Watched(store)
    some = States(watched)  # type: ignore[arg-type]

    late, early = await some.at("x", 60), watched.events
    before = await some.at("x", 45)

    assert (freeze(late), early) == (freeze(replay(events[:60])), 11)
    assert freeze(before) == freeze(replay(events[:45]))


async def test_a_state_that_a_caller_changes_is_its_own(store, facts, events):
    await append(store, facts, events)
    some = States(store)

    (await some.at("x", 40)).ctx["changed"] = True

    assert freeze(await some.at("x", 40)) == freeze(replay(events[:40]))


async def test_checkpoints_are_bounded(store, facts, events, monkeypatch):
    await append(store, facts, events)
    size = len(freeze(replay(events)))
    monkeypatch.setattr(states, "CACHE_BYTES", 2 * size)
    some = States(store)

    await some.at("x", None)
    kept = some._checkpoints._kept

    assert 0 < sum(map(len, kept.values())) <= 2 * size
    monkeypatch.setattr(states, "MAX_BYTES", 10)
    few = States(store)
    await few.at("x", None)
    assert not few._checkpoints._kept


async def test_an_event_after_the_end_is_refused(store, facts, events):
    await append(store, facts, events)

    with pytest.raises(RequestRefused, match=f"the log ends at {len(events)}"):
        await States(store).at("x", len(events) + 1)


async def test_parts_have_cut_values_and_are_counted(store, facts, events, monkeypatch):
    await append(store, facts, events)
    monkeypatch.setattr(states, "MAX_ITEMS", 1)
    middle = next(e.seq for e in events if e.name == "task.done") + 5

    shown = await States(store).show("x", middle, ("ctx", "loops"))
    tokens = await States(store).show("x", 3, ("tokens",))

    assert shown.keys() == {"execution_id", "status", "seq", "totals", "ctx", "loops"}
    assert shown["ctx"]["last"]["$cut"] == 5_002
    assert len(shown["ctx"]["last"]["head"]) == 512
    assert shown["totals"] == {"loops": 1}
    [loop] = shown["loops"].values()
    assert (loop["total"], loop["iterator"]) == (30, "n")
    assert [each["step"] for each in tokens["tokens"].values()] == ["start"]
    assert msgspec.json.encode(shown), "plain values"
