"""Tallies of logs on every store: folded in parts, kept at the end of each page."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl import load
from noetl.engine.events import Event
from noetl.engine.execution_document import Document, elapsed_ms
from noetl.engine.simulate import Simulation
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ConfigError, StoreError
from noetl.ports import Append, Transition
from noetl.report.loop_lines import LoopLines
from noetl.report.run_lines import RunLine
from noetl.report.tally import VERSION
from noetl.service.errors import RequestRefused
from noetl.service.executions.views import iterations, runs, tallies
from noetl.service.executions.views.graphs import PlaybooksThatRan
from noetl.service.executions.views.iterations import IterationQuery, Iterations
from noetl.service.executions.views.runs import Position, RunFilter, Runs
from noetl.service.executions.views.tallies import Folded, LogTallies

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
- step: start
  loop: {in: "{{ range(30) }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
  tool: {kind: http, url: "http://x"}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
"""


@pytest.fixture(scope="module")
def events() -> Sequence[Event]:
    loaded = load(LOOP)
    assert loaded.playbook is not None
    simulation = Simulation(
        loaded.playbook, lambda call: Outcome.ok(1), execution_id="x"
    )
    simulation.run()
    return simulation.log


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "PAGE", 40)
    monkeypatch.setattr(tallies, "SLICE", 7)
    monkeypatch.setattr(runs, "PAGE", 40)


async def append(store: Any, facts: Any, events: Sequence[Event]) -> None:
    summary = facts.summary("x")
    log = Append(events[0].seq - 1, events)
    await store.commit([Transition(execution_id="x", log=log, summary=summary)])


encode = msgspec.json.encode


def folded(events: Sequence[Event]) -> bytes:
    found = Folded()
    for event in events:
        found.take(event)
    return encode(found)


async def test_the_latest_tally_is_that_of_the_whole_log(store, facts, events):
    await append(store, facts, events)

    tally = await LogTallies(store).latest("x")

    assert encode(tally) == folded(events)


async def test_a_tally_is_kept_at_the_end_of_each_page(store, facts, events):
    await append(store, facts, events)

    await LogTallies(store).latest("x")

    for end in range(40, len(events), 40):
        found = await store.tally("x", VERSION, at=end)
        assert (found.seq, found.body) == (end, folded(events[:end]))


async def test_a_kept_tally_spares_the_events_before_it(store, facts, events):
    await append(store, facts, events)
    await LogTallies(store).latest("x")
    reads: list[int] = []
    read = store.read

    async def note(execution_id: str, *, after: int = 0, limit: Any = None) -> Any:
        reads.append(after)
        return await read(execution_id, after=after, limit=limit)

    watched = Watched(store, note)
    tally = await LogTallies(watched).latest("x")

    assert encode(tally) == folded(events)
    assert min(reads) == len(events) // 40 * 40


class Watched:
    """A store whose reads are noted."""

    def __init__(self, store: Any, read: Any) -> None:
        self.read = read
        self.tally, self.keep_tally = store.tally, store.keep_tally
        self.length = store.length


async def test_a_log_that_grows_is_continued(store, facts, events):
    some = LogTallies(store)
    await append(store, facts, events[:33])
    before = encode(await some.latest("x"))
    await append(store, facts, events[33:])

    assert before == folded(events[:33])
    assert encode(await some.latest("x")) == folded(events)


@pytest.mark.parametrize("at", [0, 1, 39, 40, 41, 80])
async def test_the_tally_at_a_position(store, facts, events, at):
    await append(store, facts, events)

    assert encode(await LogTallies(store).at("x", at)) == folded(events[:at])


async def test_changes_of_a_page_lead_to_its_end(store, facts, events):
    await append(store, facts, events)
    some = LogTallies(store)
    tally = (await some.at("x", 40)).tally

    seqs = [
        event.seq
        async for part in some.changes("x", tally, 80)
        for event, changes in part
        if changes
    ]

    assert tally == (await some.at("x", 80)).tally
    assert seqs == sorted(seqs)
    assert set(seqs) <= set(range(41, 81))


async def test_a_store_that_keeps_no_tally_still_answers(store, facts, events):
    await append(store, facts, events)

    async def refuse(*given: Any) -> None:
        raise StoreError("read only", "store.unavailable")

    watched = Watched(store, store.read)
    watched.keep_tally = refuse

    assert encode(await LogTallies(watched).latest("x")) == folded(events)


async def test_tallies_that_no_store_keeps_stay_in_memory(store, facts, events):
    await append(store, facts, events)
    reads: list[int] = []
    read = store.read

    async def note(execution_id: str, *, after: int = 0, limit: Any = None) -> Any:
        reads.append(after)
        return await read(execution_id, after=after, limit=limit)

    async def ignore(*given: Any, **more: Any) -> None:
        pass

    watched = Watched(store, note)
    watched.keep_tally = watched.tally = ignore
    some = LogTallies(watched)
    await some.latest("x")
    reads.clear()

    for at in (40, 80, 41):
        assert encode(await some.at("x", at)) == folded(events[:at])
    assert reads == [40], "one event after a kept tally"


async def test_tallies_in_memory_are_bounded(store, facts, events, monkeypatch):
    await append(store, facts, events)
    size = len(folded(events[:80]))
    monkeypatch.setattr(tallies, "KEPT_BYTES", size + 1)
    some = LogTallies(store)

    await some.latest("x")

    assert sum(map(len, some._bodies._kept.values())) <= size + 1
    assert encode(await some.at("x", 40)) == folded(events[:40])


async def test_a_damaged_log_is_tallied_up_to_the_damage(store, facts, events):
    at = next(n for n, event in enumerate(events) if event.name == "step.scheduled")
    broken = msgspec.structs.replace(events[at], payload={})
    await append(store, facts, [*events[:at], broken])
    some = LogTallies(store)

    with pytest.raises(KeyError):
        await some.latest("x")
    tally = await some.latest("x", is_damaged=True)

    assert tally.tally.seq == at + 1


STEPS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
- step: start
  tool: {kind: http, url: "http://x"}
  next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: quick}]}
- {step: slow, loop: {in: "{{ range(40) }}", iterator: n}, tool: {kind: noop}}
- step: quick
  tool: {kind: http, url: "http://x"}
  next: {arcs: [{step: quick, when: "{{ args.n | default(0) < 30 }}",
                 args: {n: "{{ args.n | default(0) + 1 }}"}}]}
"""


@pytest.fixture(scope="module")
def many_runs() -> Sequence[Event]:
    loaded = load(STEPS)
    assert loaded.playbook is not None, loaded.diagnostics
    pick = random.Random(7)
    simulation = Simulation(
        loaded.playbook,
        lambda call: Outcome.ok(1),
        execution_id="x",
        choose=pick.randrange,
    )
    simulation.run()
    return simulation.log


class NoCatalog:
    """A catalog that has lost every text."""

    async def pinned(self, about: Any) -> Any:
        raise ConfigError("lost")


def runs_of(store: Any) -> Runs:
    return Runs(store, LogTallies(store), PlaybooksThatRan(store, NoCatalog()))  # type: ignore[arg-type]


async def read_all(some: Runs, summary: Any, wanted: RunFilter) -> list[RunLine]:
    found: list[RunLine] = []
    start: Position | None = Position()
    while start is not None:
        page, start = await some.page(summary, wanted, start, 4)
        assert len(page) <= 4
        found += page
    return found


async def test_runs_in_pages_are_those_of_the_document(store, facts, many_runs):
    await append(store, facts, many_runs)
    summary, document = facts.summary("x"), Document().take(many_runs)

    found = await read_all(runs_of(store), summary, RunFilter())

    known = [(e.step_run_id, e.started_at, e.duration_ms) for e in document.steps]
    assert [
        (line.run, line.at, elapsed_ms(line.at, line.ended_at or "")) for line in found
    ] == known
    assert {line.status for line in found} == {"done"}
    [slow] = [line for line in found if line.step == "slow"]
    assert (slow.total, slow.done) == (40, 40), "it ends pages after its begin"


async def test_runs_are_filtered_by_step_and_status_across_pages(
    store, facts, many_runs
):
    half = many_runs[: len(many_runs) // 2]
    await append(store, facts, half)
    summary, document = facts.summary("x"), Document().take(half)
    still = [e.step_run_id for e in document.steps if e.status == "running"]

    open_ = await read_all(
        runs_of(store), summary, RunFilter(statuses=("running", "ready"))
    )
    quick = await read_all(runs_of(store), summary, RunFilter("quick"))

    assert [line.run for line in open_] == still
    [slow] = [line for line in open_ if line.step == "slow"]
    ended = [each for each in half if each.name == "loop.iteration.done"]
    assert slow.done == len(ended), "as it is now, not at the end of its page"
    assert {line.step for line in quick} == {"quick"}


async def test_each_run_is_found_by_its_number_and_its_id(store, facts, many_runs):
    await append(store, facts, many_runs)
    summary, some = facts.summary("x"), runs_of(store)

    for line in await read_all(some, summary, RunFilter()):
        assert await some.find(summary, str(line.number)) == line
        assert await some.find(summary, line.run) == line
    with pytest.raises(RequestRefused):
        await some.find(summary, "99")
    with pytest.raises(RequestRefused):
        await some.find(summary, "y-1")


async def test_a_run_is_shown_without_its_playbook(store, facts, many_runs):
    await append(store, facts, many_runs)

    shown = await runs_of(store).show(facts.summary("x"), "1")

    assert [call["status"] for call in shown["calls"]] == ["ok"]
    assert [each["what"] for each in shown["routing"]] == ["slow", "quick"]
    assert shown["tasks"] == []


async def test_iterations_are_read_from_any_store(store, facts, many_runs, monkeypatch):
    monkeypatch.setattr(iterations, "SLICE", 9)
    await append(store, facts, many_runs)
    some, summary = runs_of(store), facts.summary("x")
    [slow] = await read_all(some, summary, RunFilter("slow"))
    loops = Iterations(store, some)
    monkeypatch.setattr(LoopLines, "value", lambda self, index: (False, None))

    found = await loops.show(summary, slow.run, IterationQuery(), hides=False)

    assert (found["total"], found["done"], found["ended"]) == (40, 40, True)
    assert [each["value"] for each in found["items"]] == list(range(40))


async def test_one_request_reads_a_part_of_a_long_loop(
    store, facts, many_runs, monkeypatch
):
    monkeypatch.setattr(iterations, "SLICE", 10)
    monkeypatch.setattr(iterations, "MAX_FOLDED", 40)
    await append(store, facts, many_runs)
    loops, summary = Iterations(store, runs_of(store)), facts.summary("x")
    run = next(e.step_run_id for e in many_runs if e.name == "loop.started") or ""
    done, answers = 0, 0

    while True:
        found = await loops.show(summary, run, IterationQuery(), hides=False)
        assert found["done"] >= done
        done, answers = found["done"], answers + 1
        if found["complete"]:
            break

    assert (done, found["ended"]) == (40, True)
    assert answers > 2
