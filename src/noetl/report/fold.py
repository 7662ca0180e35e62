"""The log, folded for a page: counts of everything, details of a bounded part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.runs import status_of
from noetl.engine.state import State
from noetl.engine.times import seconds_of
from noetl.report.runs import StepRun
from noetl.report.samples import Sample
from noetl.types import JSON

RUNS = (160, 40, 40)
RUNS_OF_STEP = (4, 2, 4)
EVENTS = (400, 300, 200)


class StepCounts(msgspec.Struct):
    """What happened at one step, all its runs together; ``spent`` is in seconds.

    ``kept`` runs ended before the execution was forked, some of them ``kept_failed``.
    """

    runs: int = 0
    done: int = 0
    failed: int = 0
    skipped: int = 0
    calls: int = 0
    errors: int = 0
    retries: int = 0
    joined: int = 0
    iterations: int = 0
    failed_iterations: int = 0
    spent: float = 0.0
    kept: int = 0
    kept_failed: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether a run failed that was not done again after the fork."""
        return self.failed > (self.kept_failed if self.runs > self.kept else 0)

    @property
    def active(self) -> int:
        return self.runs - self.done - self.failed


class Record:
    """Told the events in order. What it keeps does not grow with the log, but for
    some bytes per iteration."""

    def __init__(self) -> None:
        self.state = State()
        self.playbook: dict[str, JSON] = {}
        self.parent: dict[str, JSON] | None = None
        self.origin: dict[str, JSON] | None = None
        self.trace_id = ""
        self.first = self.last = ""
        self.steps: dict[str, StepCounts] = {}
        self.fired: Counter[tuple[str, int]] = Counter()
        self.judged: Counter[tuple[str, int]] = Counter()
        self.runs: Sample[StepRun] = Sample(*RUNS)
        self.runs_of: dict[str, Sample[StepRun]] = {}
        self.events: Sample[Event] = Sample(*EVENTS)
        self.refusal: dict[str, JSON] | None = None
        self._open: dict[str, tuple[StepRun, int, int]] = {}
        self._cancelled = False

    def open_runs(self) -> Iterator[StepRun]:
        """Those that have not ended."""
        yield from (run for run, _, _ in self._open.values() if run.end is None)

    @property
    def status(self) -> str:
        return status_of(self.state)

    @property
    def started(self) -> float:
        return seconds_of(self.first)

    @property
    def ended(self) -> float:
        """Of one that is not over: when something last happened."""
        return seconds_of(self.last)

    def take(self, events: Iterable[Event]) -> Record:
        for event in events:
            evolve(self.state, event)
            self._note(event)
        return self

    def counts(self, step: str | None) -> StepCounts:
        return self.steps.setdefault(step or "", StepCounts())

    def _note(self, event: Event) -> None:
        self.first = self.first or event.timestamp
        self.last = event.timestamp
        number = self.events.add(event)
        if event.status == "error":
            self.events.mark(number, event)
        match event.name:
            case "playbook.execution.requested":
                self.playbook = event.payload["playbook"]
                self.parent = event.payload.get("parent")
                self.trace_id = event.payload["trace_id"]
            case "playbook.request.evaluated":
                self.refusal = event.payload.get("error")
            case "workflow.forked":
                self._fork(event)
            case "workflow.cancelled":
                self._cancelled = True
            case "step.scheduled" | "step.skipped":
                self._begin(event)
            case "token.joined":
                self.counts(event.step).joined += 1
            case "step.done" | "step.failed":
                self._end(event)
            case _:
                if event.step_run_id in self._open:
                    self._detail(event)
        if event.name == "next.evaluated":
            self._count_arcs(event)

    def _fork(self, event: Event) -> None:
        """What was under way begins again now; the rest stays as it was."""
        self.origin = event.payload["from"]
        for counts in self.steps.values():
            counts.kept, counts.kept_failed = counts.done + counts.failed, counts.failed
        for run in self.runs.kept().values():
            run.is_kept = run.end is not None or run.is_skipped
        for run in self.open_runs():
            run.started = seconds_of(event.timestamp)

    def _begin(self, event: Event) -> None:
        run = StepRun(event, self.runs.count + 1)
        number = self.runs.add(run)
        step = run.step
        nth = self.runs_of.setdefault(step, Sample(*RUNS_OF_STEP)).add(run)
        if run.is_skipped:
            self.counts(step).skipped += 1
        else:
            self.counts(step).runs += 1
            self._open[event.step_run_id or ""] = run, number, nth

    def _end(self, event: Event) -> None:
        run_id = event.step_run_id or ""
        if run_id not in self._open:
            return
        run, number, nth = self._open[run_id]
        run.end, run.is_cancelled = event, self._cancelled
        counts = self.counts(event.step)
        counts.spent += seconds_of(event.timestamp) - run.started
        if event.name == "step.failed":
            counts.failed += 1
            self.runs.mark(number, run)
            self.runs_of[run.step].mark(nth, run)
        else:
            counts.done += 1
        if not run.began.payload["has_arcs"]:
            del self._open[run_id]

    def _detail(self, event: Event) -> None:
        run = self._open[event.step_run_id or ""][0]
        run.take(event)
        counts = self.counts(event.step)
        match event.name:
            case "task.started":
                counts.calls += 1
                counts.retries += (event.attempt or 1) > 1
            case "task.done" if event.status == "error":
                counts.errors += 1
            case "next.evaluated" if run.end is not None:
                del self._open[event.step_run_id or ""]
            case "loop.iteration.done" | "loop.iteration.failed":
                if (event.iteration_id or "").count("/") == 1:
                    counts.iterations += 1
                    failed = event.name == "loop.iteration.failed"
                    counts.failed_iterations += failed
            case _:
                pass

    def _count_arcs(self, event: Event) -> None:
        for number, answer in enumerate(event.payload["arcs"]):
            key = (event.step or "", number)
            self.judged[key] += 1
            self.fired[key] += bool(answer["fired"])
