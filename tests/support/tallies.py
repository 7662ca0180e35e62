"""The counters of a tally, compared with what the report and the engine count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from noetl.engine.events import Event
from noetl.engine.execution_document import Document, elapsed_ms
from noetl.engine.state import State
from noetl.engine.undone import Undone
from noetl.engine.waits.resume import waiting_in
from noetl.report.counting import count_event
from noetl.report.fold import Record, StepCounts
from noetl.report.loop_lines import STATUSES, LoopLines
from noetl.report.run_lines import RunLine, RunPage
from noetl.report.tally import (
    COUNTERS,
    EFFECTS,
    Change,
    Tally,
)

Sums = dict[str, Counter[str]]
"""What a page adds: counters by step."""


def check_counters(log: Sequence[Event]) -> Tally:
    """Compare them at every prefix: the sums of the changes, as a browser adds them,
    the tally itself, the report's record and the engine's state.

    In the middle the tally is stored and read again.
    """
    tally, record, sums = Tally(), Record(), Sums()
    for event in log:
        if event.seq == len(log) // 2:
            tally = msgspec.json.decode(msgspec.json.encode(tally), type=Tally)
        add(sums, count_event(tally, event))
        record.take([event])
        kept = {
            step: dict(zip(COUNTERS, all_, strict=True))
            for step, all_ in tally.steps.items()
        }
        assert {step: +each for step, each in sums.items() if +each} == {
            step: +Counter(each) for step, each in kept.items() if +Counter(each)
        }, event
        assert all(min(each.values()) >= 0 for each in kept.values()), event
        for step in kept.keys() | record.steps.keys() - {""}:
            compare_step(sums.get(step, Counter()), record.counts(step), event)
        compare_state(sums, tally, record.state, event)
    assert tally.seq == len(log)
    return tally


def add(sums: Sums, changes: Iterable[Change]) -> None:
    for change in changes:
        for name, delta in EFFECTS[change.op].items():
            assert change.step is not None
            sums.setdefault(change.step, Counter())[name] += delta * change.n


def compare_step(sums: Counter[str], counts: StepCounts, event: Event) -> None:
    open_runs = sums["ready"] + sums["running"] + sums["waiting"]
    assert sums["done"] == counts.done, event
    assert sums["failed"] == counts.failed, event
    assert open_runs == counts.active, event
    assert sums["skipped"] == counts.skipped, event
    assert sums["retries"] == counts.retries, event
    assert sums["ignored"] == counts.ignored, event
    assert sums["loop_failed"] == counts.failed_iterations, event


def compare_state(sums: Sums, tally: Tally, state: State, event: Event) -> None:
    tokens = Counter(token.step for token in state.tokens.values())
    for step, queues in state.joining.items():
        tokens[step] += sum(map(len, queues.values()))
    assert {step: each["tokens"] for step, each in sums.items() if each["tokens"]} == {
        **tokens
    }, event
    waits = {
        name: (run.step, each.on, each.until) for name, run, each in waiting_in(state)
    }
    assert {
        name: (each.step, each.on, each.until) for name, each in tally.waits.items()
    } == waits, event
    failures = [each for each in tally.failures if each]  # "": a refused request
    assert failures == [*state.failures] or state.finished, event
    in_flight = Counter[str]()
    for run in state.runs.values():
        if run.loop is not None:
            in_flight[run.step] += len(run.loop.open)
    assert {
        step: each["loop_running"]
        for step, each in sums.items()
        if each["loop_running"]
    } == {step: number for step, number in in_flight.items() if number}, event


def check_runs(log: Sequence[Event], size: int) -> None:
    """Compare lines of runs, folded in pages, with the document of the execution."""
    document = Document().take(log)
    lines = run_lines(log, size)
    known = [
        (each.step_run_id, each.step, each.started_at, each.duration_ms)
        for each in document.steps
        if each.step_run_id is not None
    ]
    found = [each for each in lines if each.number > 0]
    assert [
        (e.run, e.step, e.at, elapsed_ms(e.at, e.ended_at or "")) for e in found
    ] == known
    denied = [each for each in document.steps if each.step_run_id is None]
    assert len(lines) - len(found) == len(denied)
    words = {"partial": "done", "ready": "running"}
    by_run = {each.step_run_id: each for each in document.steps}
    for line in found:
        shown = by_run[line.run]
        status = words.get(line.status, line.status)
        assert status == shown.status or shown.status == "waiting", line
        assert line.wait == shown.queued_ms
        assert line.attempts == shown.attempts
        assert line.ignored == (shown.ignored.count if shown.ignored else 0)
        if shown.iterations is not None:
            counts = {"total": line.total, "done": line.done, "failed": line.failed}
            assert {name: shown.iterations[name] for name in counts} == counts
            check_loop(log, line)


def run_lines(log: Sequence[Event], size: int) -> list[RunLine]:
    """Fold pages of a size, each stored and read again; return the latest lines."""
    undone = Undone.of(log[0])
    page, found = RunPage(), dict[str, RunLine]()
    for event in log:
        page.take(event, undone)
        if event.seq % size == 0 or event.seq == len(log):
            read = msgspec.json.decode(msgspec.json.encode(page), type=RunPage)
            found |= {
                e.run: e for e in (*read.begun, *read.closed, *read.open.values())
            }
            page = read.turn()
    return list(found.values())


def check_loop(log: Sequence[Event], line: RunLine) -> None:
    """Compare the lines of iterations with the counts of their run."""
    lines = LoopLines(line.run, line.seq)
    for event in log[line.seq :]:
        lines.take(event)
    states = Counter(STATUSES[each] for each in lines.status)
    assert (lines.done + lines.kept, lines.failed) == (line.done, line.failed)
    assert (states["done"], states["failed"]) == (lines.done, lines.failed)
    assert states["kept"] == lines.kept
    assert states["running"] + states["waiting"] == lines.in_flight
    assert sum(group.count for group in lines.groups.values()) == lines.failed
    buckets = list(lines.buckets)
    assert sum(each.done for each in buckets) == lines.done
    assert sum(each.failed for each in buckets) == lines.failed
    assert not buckets or buckets[-1].in_flight == lines.in_flight
    for index, status in enumerate(lines.status):
        event = log[lines.first_seq[index] - 1]
        if status and STATUSES[status] != "kept":
            assert event.iteration_id == f"{line.run}/{index}"
            assert event.name == "loop.iteration.started"
            is_known, value = lines.value(index)
            assert not is_known or value == event.payload["item"]
