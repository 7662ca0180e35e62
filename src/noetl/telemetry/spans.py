"""Spans of an execution, folded from its log: the same log gives the same spans.

===============  ==================================  =============================
span             id is made of                       parent
===============  ==================================  =============================
execution        the execution                       the caller, if there is one
step run         ``step_run_id``                     the execution
iteration        ``iteration_id``                    the step run, or the iteration
                                                     around it
attempt          ``task_run_id`` and the attempt     the iteration, or the step run
===============  ==================================  =============================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.engine.events import Event
from noetl.engine.ids import span_id_of, trace_id_of
from noetl.engine.times import seconds_of
from noetl.telemetry.span import Link, Span, Value
from noetl.types import JSON

MAX_MESSAGE = 1_000
"""Characters of an error's message."""
MAX_ITERATIONS = 1_000
"""Iterations of a loop up to which each of them has a span."""
MAX_KEPT = 1_000
"""Iterations of a longer loop that have spans."""
SLOW = 3.0
"""Multiple of the mean of earlier iterations from which an iteration is slow."""
MIN_SLOW_S = 0.1
KNOWN = 20
"""Iterations after which the mean is known."""


class LoopSample:
    """Decides by what the log had before: so each export keeps the same iterations."""

    def __init__(self, total: int) -> None:
        self.is_sampled = total > MAX_ITERATIONS
        self.kept = 0
        self._count = 0
        self._seconds = 0.0

    def keeps(self, seconds: float, *, failed: bool) -> bool:
        """Return whether an iteration that took so long has a span."""
        if not self.is_sampled:
            self.kept += 1
            return True
        is_kept = self.kept < MAX_KEPT and (failed or self._is_slow(seconds))
        self.kept += is_kept
        self._count += 1
        self._seconds += seconds
        return is_kept

    def _is_slow(self, seconds: float) -> bool:
        if self._count < KNOWN:
            return False
        return seconds > max(MIN_SLOW_S, SLOW * self._seconds / self._count)


class Spans:
    """Folds the events of one execution, in their order.

    ``take`` returns the spans that ended with an event. Memory holds what is open, not
    what has ended. With ``hides``, messages of errors are left out.
    """

    def __init__(self, *, hides: bool = False) -> None:
        self._hides = hides
        self._trace_id = ""
        self._root: Span | None = None
        self._open: dict[str, Span] = {}
        self._attempts: dict[str, Event] = {}
        self._samples: dict[str, LoopSample] = {}
        self._held: dict[str, list[Span]] = {}
        self._skips_to = 0

    def take(self, events: Sequence[Event]) -> list[Span]:
        """Fold events, and return the spans that ended."""
        ended: list[Span] = []
        for event in events:
            fold = _FOLDS.get(event.name)
            if fold is None:
                continue
            found = fold(self, event)
            if found and event.seq > self._skips_to:  # a fork has its origin's events
                ended += found
        return ended

    # -- the execution -------------------------------------------------------------

    def _requested(self, event: Event) -> None:
        asked = event.payload
        about, caller = asked["playbook"], asked.get("caller") or {}
        self._trace_id = asked["trace_id"]
        name = about.get("path") or about.get("name") or "execution"
        self._root = root = Span(
            self._trace_id,
            span_id_of(event.execution_id),
            name,
            event.timestamp,
            parent_id=asked.get("trace_parent"),
        )
        if root.parent_id is not None and "parent" not in asked:
            root.kind = "server"
        root.attributes = {"noetl.execution_id": event.execution_id}
        for key in ("path", "version", "name"):
            if about.get(key) is not None:
                root.attributes[f"noetl.playbook.{key}"] = str(about[key])
        for key, value in (asked.get("labels") or {}).items():
            root.attributes[f"noetl.label.{key}"] = value
        if trigger := caller.get("trigger"):
            root.attributes["noetl.trigger"] = str(trigger.get("name"))
        if parent := asked.get("parent"):
            root.attributes["noetl.parent_id"] = parent["execution_id"]
        if fork := asked.get("fork"):
            origin, self._skips_to = fork["execution_id"], fork["seq"]
            root.attributes["noetl.fork_of"] = f"{origin}@{fork['seq']}"
            trace = fork.get("trace_id") or trace_id_of(origin)
            root.links.append(Link(trace, span_id_of(origin), {"noetl.link": "fork"}))

    def _noted(self, event: Event) -> None:
        if self._root is not None:
            self._root.note(event.name, event.timestamp, {})

    def _skipped(self, event: Event) -> None:
        if self._root is not None:
            step = {"noetl.step": event.step or ""}
            self._root.note(event.name, event.timestamp, step)

    def _finished(self, event: Event) -> None:
        error = event.payload.get("error")
        if error and self._root is not None:
            self._fail(self._root, error)

    def _processed(self, event: Event) -> list[Span]:
        """End the execution. All else has ended before, also in a cancelled one."""
        root, status = self._root, event.payload["status"]
        if root is None:
            return []
        root.end = event.timestamp
        root.status = "ok" if status == "completed" else "error"
        root.attributes["noetl.status"] = status
        return [root]

    # -- step runs and iterations --------------------------------------------------

    def _begin(self, event: Event, entity: str, name: str, parent: str) -> Span:
        span = Span(
            self._trace_id,
            span_id_of(entity),
            name,
            event.timestamp,
            parent_id=span_id_of(parent),
        )
        span.attributes = {"noetl.step": event.step or ""}
        self._open[entity] = span
        return span

    def _scheduled(self, event: Event) -> None:
        run = event.step_run_id or event.entity_id
        name = event.step or "step"
        self._begin(event, run, name, event.execution_id)
        self._open[run].attributes["noetl.step_run_id"] = run

    def _started(self, event: Event) -> None:
        if span := self._open.get(event.step_run_id or ""):
            wait = seconds_of(event.timestamp) - seconds_of(span.start)
            span.attributes["noetl.queued_ms"] = round(wait * 1000, 3)

    def _step_ended(self, event: Event) -> list[Span]:
        run = event.step_run_id or event.entity_id
        self._samples.pop(run, None)
        return self._end(event, run)

    def _loop_started(self, event: Event) -> None:
        entity, total = event.entity_id, event.payload["total"]
        if span := self._open.get(entity):
            span.attributes["noetl.loop.total"] = total
        self._samples[entity] = LoopSample(total)

    def _loop_done(self, event: Event) -> None:
        span = self._open.get(event.entity_id)
        sample = self._samples.pop(event.entity_id, None)
        if span is None:
            return
        for key in ("done", "failed", "skipped"):
            span.attributes[f"noetl.loop.{key}"] = event.payload[key]
        if sample is not None and sample.is_sampled:
            span.attributes["noetl.sampled"] = True
            span.attributes["noetl.loop.spans"] = sample.kept

    def _iteration_started(self, event: Event) -> None:
        entity = event.iteration_id or event.entity_id
        parent, _, index = entity.rpartition("/")
        span = self._begin(event, entity, f"{event.step}[{index}]", parent)
        span.attributes["noetl.iteration"] = entity.partition("/")[2]
        if self._is_held(parent):
            self._held[entity] = []

    def _iteration_ended(self, event: Event) -> list[Span]:
        """End an iteration; of a long loop only failed and slow ones are kept, with
        the spans inside them."""
        entity = event.iteration_id or event.entity_id
        parent = entity.rpartition("/")[0]
        ended = self._end(event, entity)
        spans = [*self._held.pop(entity, []), *ended]
        sample = self._samples.get(parent)
        if sample is not None and ended:
            span = ended[-1]
            seconds = seconds_of(span.end) - seconds_of(span.start)
            if not sample.keeps(seconds, failed=span.status == "error"):
                return []
        return self._hand_up(parent, spans)

    def _is_held(self, entity: str) -> bool:
        """Return whether the spans of iterations of this loop wait for their end."""
        sample = self._samples.get(entity)
        return entity in self._held or (sample is not None and sample.is_sampled)

    def _hand_up(self, entity: str, spans: list[Span]) -> list[Span]:
        """Return spans, or keep them for the end of the iteration around them."""
        while "/" in entity and entity not in self._held:
            entity = entity.rpartition("/")[0]
        if entity not in self._held:
            return spans
        self._held[entity] += spans
        return []

    def _end(self, event: Event, entity: str) -> list[Span]:
        span = self._open.pop(entity, None)
        if span is None:
            return []
        span.end = event.timestamp
        error = event.payload.get("error")
        span.status = "error" if error else "ok"
        if error:
            self._fail(span, error)
        left = self._attempts.pop(entity, None)
        return [span] if left is None else [self._cut(left, event), span]

    # -- tasks ---------------------------------------------------------------------

    def _task_started(self, event: Event) -> None:
        self._attempts[_pipeline_of(event)] = event

    def _cut(self, begun: Event, end: Event) -> Span:
        """Return the span of an attempt without an outcome: it was cancelled."""
        span = self._attempt(begun, begun.timestamp, end.timestamp)
        span.status, span.attributes["noetl.status"] = "error", "cancelled"
        return span

    def _attempt(self, event: Event, start: str, end: str) -> Span:
        span = Span(
            self._trace_id,
            span_id_of(event.entity_id, event.attempt),
            event.task_label or "task",
            start,
            end,
            span_id_of(_pipeline_of(event)),
        )
        span.attributes = {
            "noetl.step": event.step or "",
            "noetl.task": event.task_label or "",
            "noetl.attempt": event.attempt or 1,
            "noetl.action_id": event.action_id or "",
        }
        return span

    def _task_done(self, event: Event) -> list[Span]:
        outcome: Mapping[str, JSON] = event.payload["outcome"]
        meta, directive = outcome.get("meta") or {}, event.payload["directive"]
        pipeline = _pipeline_of(event)
        begun = self._attempts.pop(pipeline, event)
        span = self._attempt(
            event,
            meta.get("started_at") or begun.timestamp,
            meta.get("ts") or event.timestamp,
        )
        span.attributes["noetl.directive"] = directive["do"]
        if doubt := begun.payload.get("in_doubt"):
            span.attributes["noetl.in_doubt"] = doubt
        if http := outcome.get("http"):
            span.kind = "client"
            if http.get("status") is not None:
                span.attributes["http.response.status_code"] = http["status"]
        if child := outcome.get("playbook"):
            self._link_child(span, child)
        span.status = "error" if outcome.get("status") == "error" else "ok"
        if error := outcome.get("error"):
            self._fail(span, error)
        return self._hand_up(pipeline, [span])

    def _link_child(self, span: Span, child: Mapping[str, JSON]) -> None:
        if name := child.get("execution_id"):
            attributes: dict[str, Value] = {"noetl.link": "child"}
            span.links.append(Link(self._trace_id, span_id_of(name), attributes))

    def _waits(self, event: Event) -> None:
        if span := self._open.get(_pipeline_of(event)):
            found: dict[str, Value] = {"noetl.task": event.task_label or ""}
            for key in ("on", "signal", "until"):
                if isinstance(value := event.payload.get(key), str):
                    found[f"noetl.wait.{key}"] = value
            span.note(event.name, event.timestamp, found)

    def _fail(self, span: Span, error: Mapping[str, JSON]) -> None:
        span.attributes["error.type"] = str(error.get("kind"))
        if not self._hides:
            span.message = str(error.get("message") or "")[:MAX_MESSAGE]


def _pipeline_of(event: Event) -> str:
    """Return the iteration or the step run that an event of a task belongs to."""
    return event.iteration_id or event.step_run_id or event.execution_id


_FOLDS = {
    "playbook.execution.requested": Spans._requested,
    "workflow.queued": Spans._noted,
    "workflow.admitted": Spans._noted,
    "workflow.paused": Spans._noted,
    "workflow.resumed": Spans._noted,
    "workflow.cancelled": Spans._noted,
    "workflow.finished": Spans._finished,
    "playbook.processed": Spans._processed,
    "step.scheduled": Spans._scheduled,
    "step.started": Spans._started,
    "step.skipped": Spans._skipped,
    "step.done": Spans._step_ended,
    "step.failed": Spans._step_ended,
    "loop.started": Spans._loop_started,
    "loop.done": Spans._loop_done,
    "loop.iteration.started": Spans._iteration_started,
    "loop.iteration.done": Spans._iteration_ended,
    "loop.iteration.failed": Spans._iteration_ended,
    "task.started": Spans._task_started,
    "task.done": Spans._task_done,
    "task.suspended": Spans._waits,
    "task.resumed": Spans._waits,
}
