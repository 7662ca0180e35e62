"""Fold of a log for a page: counts of everything, details of a bounded part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from noetl.engine.endings import Endings
from noetl.engine.events import (
    Event,
    ExecutionRequested,
    NextEvaluated,
    RequestEvaluated,
)
from noetl.engine.evolve import evolve
from noetl.engine.state import State, status_of
from noetl.engine.times import seconds_of
from noetl.report.runs import Sample, StepRun
from noetl.types import JSON

RUNS = (160, 40, 40)
RUNS_OF_STEP = (4, 2, 4)
EVENTS = (400, 300, 200)


class StepCounts(msgspec.Struct):
    """Counts of one step, all its runs together; ``spent`` is in seconds.

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
    ignored: int = 0
    unfired: int = 0

    @property
    def is_flawed(self) -> bool:
        """True if errors were ignored, iterations failed, or no arc fired."""
        return bool(self.ignored or self.failed_iterations or self.unfired)

    @property
    def has_failed(self) -> bool:
        """True if a run failed that was not repeated after the fork."""
        return self.failed > (self.kept_failed if self.runs > self.kept else 0)

    @property
    def active(self) -> int:
        return self.runs - self.done - self.failed


class Record:
    """Fold of the events in order.

    Its size does not grow with the log, but for some bytes per iteration.
    """

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
        self.endings = Endings()
        self.refusal: dict[str, JSON] | None = None
        self._open: dict[str, tuple[StepRun, int, int]] = {}
        self._cancelled = False

    def open_runs(self) -> Iterator[StepRun]:
        """Runs that have not ended."""
        yield from (run for run, _, _ in self._open.values() if run.end is None)

    @property
    def status(self) -> str:
        return status_of(self.state)

    @property
    def started(self) -> float:
        return seconds_of(self.first)

    @property
    def ended(self) -> float:
        """End of the execution; of a running one, the time of its last event."""
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
        if self.state.undone is not None and self.state.undone.covers(event):
            return
        self.endings.take(event)
        number = self.events.add(event)
        if event.status == "error":
            self.events.mark(number, event)
        match event.name:
            case "playbook.execution.requested":
                asked: ExecutionRequested = event.payload
                self.playbook, self.trace_id = asked["playbook"], asked["trace_id"]
                self.parent = asked.get("parent")
            case "playbook.request.evaluated":
                evaluated: RequestEvaluated = event.payload
                self.refusal = evaluated.get("error")
            case "workflow.forked":
                self._fork(event)
            case "workflow.cancelled":
                self._cancelled = True
                for run in self.open_runs():
                    run.is_cancelled = True
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
        """Start the running runs again at the fork; finished runs stay."""
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
                counts.ignored += bool(event.payload.get("ignored"))
            case "next.evaluated" if run.end is not None:
                del self._open[event.step_run_id or ""]
            case "loop.iteration.done" | "loop.iteration.failed":
                if (event.iteration_id or "").count("/") == 1:
                    counts.iterations += 1
                    failed = event.name == "loop.iteration.failed"
                    counts.failed_iterations += failed and not self._cancelled
            case _:
                pass

    def _count_arcs(self, event: Event) -> None:
        payload: NextEvaluated = event.payload
        for number, answer in enumerate(payload["arcs"]):
            key = (event.step or "", number)
            self.judged[key] += 1
            self.fired[key] += bool(answer["fired"])
        self.counts(event.step).unfired += bool(payload.get("unfired"))
