"""Changes of ctx in any part of a log, on every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.scope import read_path
from noetl.ports import Append, Transition
from noetl.service.executions.views import context
from noetl.service.executions.views.context import CtxChanges
from noetl.service.executions.views.states import States

COUNTS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
- step: start
  tool:
    - call:
        kind: http
        url: "http://x"
        spec:
          policy:
            rules:
              - else:
                  then:
                    do: continue
                    set_ctx: {n: "{{ ctx.n | default(0) + 1 }}", a.b: "{{ args.n }}"}
  next: {arcs: [{step: start, when: "{{ ctx.n < 20 }}", args: {n: "{{ ctx.n }}"}},
                {step: each}]}
- step: each
  loop: {in: [1, 2, 3], iterator: i, spec: {mode: parallel}}
  tool:
    - call:
        kind: http
        url: "http://x"
        spec:
          policy:
            rules: [{else: {then: {do: continue, set_ctx: {one: "{{ iter.i }}"}}}}]
"""


@pytest.fixture(scope="module")
def events() -> Sequence[Event]:
    loaded = load(COUNTS.replace("{{ args.n }}", "{{ args.n | default('x') }}"))
    assert loaded.playbook is not None, loaded.diagnostics
    answer = Outcome.ok(1)
    simulation = Simulation(loaded.playbook, lambda call: answer, execution_id="x")
    simulation.run()
    return simulation.log


async def changes_of(store: Any, facts: Any, events: Sequence[Event]) -> CtxChanges:
    log = Append(0, events)
    summary = facts.summary("x")
    await store.commit([Transition(execution_id="x", log=log, summary=summary)])
    return CtxChanges(store, States(store))


async def test_each_change_has_the_values_before_and_after(store, facts, events):
    some = await changes_of(store, facts, events)

    found, following = await some.page("x", 1, None)

    assert following is None
    assert [each["after"] for each in found if each["key"] == "n"] == list(range(1, 21))
    for each in found:
        before, after = (replay(events[: each["seq"] - n]).ctx for n in (1, 0))
        assert each["before"] == read_path(before, each["key"])
        if each["refused"] is None:
            assert each["after"] == read_path(after, each["key"])
    assert [each["new"] for each in found[:4]] == [True, True, False, False]


async def test_a_refused_write_says_who_was_first(store, facts, events):
    some = await changes_of(store, facts, events)

    found, _ = await some.page("x", 1, None)

    ones = [each for each in found if each["key"] == "one"]
    refused = [each for each in ones if each["refused"] is not None]
    assert len(ones) == 3
    assert len(refused) == 2
    assert all("ctx.one was written by" in each["refused"] for each in refused)


@pytest.mark.parametrize("first", [1, 2])
async def test_writes_that_do_not_count_are_left_out(store, facts, events, first):
    undone = {"last": len(events), "runs": [[2, 21]], "events": []}
    fork = {"execution_id": "y", "seq": 1, "started_at": "", "undone": undone}
    retried = {**events[0].payload, "fork": {**fork, "depth": 1, "iter": None}}
    begun = msgspec.structs.replace(events[0], payload=retried)
    some = await changes_of(store, facts, [begun, *events[1:]])

    found, _ = await some.page("x", first, None)

    assert [each["after"] for each in found if each["key"] == "n"] == [1]


@pytest.mark.parametrize(("first", "last"), [(1, 5), (6, 40), (30, None), (999, None)])
async def test_a_part_of_the_log(store, facts, events, first, last):
    some = await changes_of(store, facts, events)
    whole, _ = await some.page("x", 1, None)

    found, following = await some.page("x", first, last)

    end = len(events) if last is None else last
    assert found == [each for each in whole if first <= each["seq"] <= end]
    assert following is None


@pytest.mark.parametrize(("changes", "most"), [(5, 20_000), (500, 7), (3, 10)])
async def test_pages_add_up(store, facts, events, monkeypatch, changes, most):
    some = await changes_of(store, facts, events)
    whole, _ = await some.page("x", 1, None)
    monkeypatch.setattr(context, "MAX_CHANGES", changes)
    monkeypatch.setattr(context, "MAX_EVENTS", most)
    monkeypatch.setattr(context, "SLICE", 4)
    found: list[dict[str, Any]] = []
    first: int | None = 1

    while first is not None:
        page, first = await some.page("x", first, None)
        assert len(page) <= changes
        found += page

    assert found == whole
