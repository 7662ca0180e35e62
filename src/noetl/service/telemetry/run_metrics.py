"""Metrics of executions and step runs, by playbook and step: outcomes and durations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from noetl.engine.events import Event
from noetl.engine.times import seconds_of

MAX_PATHS = 200
MAX_STEPS = 500
MAX_LABEL_CHARS = 200
MAX_OPEN_RUNS = 50_000
"""Step runs whose beginning is remembered; the end of an older one is not timed."""
OTHER = "other"
EXECUTION_BUCKETS_S = (0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 21_600.0, 86_400.0)
STEP_BUCKETS_S = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0)
_ENDS = {"step.done": "done", "step.failed": "failed", "step.skipped": "skipped"}

_Ended = tuple[Counter, Histogram]
PathOf = Callable[[str], tuple[str | None, str] | None]
"""Returns the path and the start of a loaded execution, None for another one."""


class RunMetrics:
    """Counts and times what ends on this server.

    At most ``MAX_PATHS`` paths and ``MAX_STEPS`` pairs of path and step have labels of
    their own; ``other`` stands for the rest. Labels are never removed, so that counters
    do not start again.
    """

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._paths: set[str] = set()
        self._steps: set[tuple[str, str]] = set()
        self._open: OrderedDict[str, float] = OrderedDict()
        self._ended: dict[tuple[str, str, str], _Ended] = {}
        self._begun: dict[str, Histogram] = {}
        self._ends = Counter(
            "noetl_playbook_executions_finished_total",
            "Executions that ended on this server, by playbook.",
            ["path", "status"],
            registry=registry,
        )
        self._durations = Histogram(
            "noetl_playbook_execution_seconds",
            "Seconds from the request of an execution to its end.",
            ["path"],
            buckets=EXECUTION_BUCKETS_S,
            registry=registry,
        )
        self._success = Gauge(
            "noetl_playbook_last_success_timestamp_seconds",
            "Time at which an execution completed on this server, since it started.",
            ["path"],
            registry=registry,
        )
        self._step_ends = Counter(
            "noetl_step_runs_finished_total",
            "Step runs that ended on this server: done, failed, or skipped by a gate.",
            ["path", "step", "status"],
            registry=registry,
        )
        self._step_seconds = Histogram(
            "noetl_step_run_seconds",
            "Seconds from the admission of a step run to its end.",
            ["path", "step"],
            buckets=STEP_BUCKETS_S,
            registry=registry,
        )
        self._step_waits = Histogram(
            "noetl_step_start_delay_seconds",
            "Seconds from the admission of a step run to its start by a worker.",
            ["path"],
            buckets=STEP_BUCKETS_S,
            registry=registry,
        )

    def note(self, events: Sequence[Event], path_of: PathOf) -> None:
        """Count the ends in a committed batch of one execution."""
        steps = [each for each in events if each.name in _STEP_EVENTS]
        last = events[-1]
        is_over = last.name == "playbook.processed"
        if not steps and not is_over:
            return
        found = path_of(last.execution_id)
        if found is None:
            return
        path = self._path(found[0])
        for event in steps:
            self._note_step(event, path)
        if is_over:
            self._note_end(last, path, found[1])

    def _note_end(self, end: Event, path: str, started_at: str) -> None:
        status, ended = end.payload["status"], seconds_of(end.timestamp)
        self._ends.labels(path, status).inc()
        self._durations.labels(path).observe(max(0.0, ended - seconds_of(started_at)))
        if status == "completed":
            self._success.labels(path).set(ended)

    def _note_step(self, event: Event, path: str) -> None:
        run, at = event.step_run_id or event.entity_id, seconds_of(event.timestamp)
        if event.name == "step.scheduled":
            self._open[run] = at
            if len(self._open) > MAX_OPEN_RUNS:
                self._open.popitem(last=False)
            return
        if event.name == "step.started":
            if (since := self._open.get(run)) is not None:
                self._waits_of(path).observe(max(0.0, at - since))
            return
        count, seconds = self._ends_of(path, event.step or OTHER, event.name)
        count.inc()
        if (since := self._open.pop(run, None)) is not None:
            seconds.observe(max(0.0, at - since))

    def _waits_of(self, path: str) -> Histogram:
        found = self._begun.get(path)
        if found is None:
            found = self._begun[path] = self._step_waits.labels(path)
        return found

    def _ends_of(self, path: str, step: str, name: str) -> _Ended:
        """Return the series of a step's ends: to find them by labels takes as long as
        all else."""
        found = self._ended.get((path, step, name))
        if found is None:
            label = self._step(path, step)
            count = self._step_ends.labels(path, label, _ENDS[name])
            found = count, self._step_seconds.labels(path, label)
            if label == step:  # the number of these is bounded
                self._ended[path, step, name] = found
        return found

    def _path(self, path: str | None) -> str:
        if path is None or len(path) > MAX_LABEL_CHARS:
            return OTHER
        if path not in self._paths and len(self._paths) >= MAX_PATHS:
            return OTHER
        self._paths.add(path)
        return path

    def _step(self, path: str, step: str) -> str:
        pair = path, step
        if pair in self._steps:
            return step
        if len(self._steps) >= MAX_STEPS or len(step) > MAX_LABEL_CHARS:
            return OTHER
        self._steps.add(pair)
        return step


_STEP_EVENTS = frozenset({"step.scheduled", "step.started", *_ENDS})
