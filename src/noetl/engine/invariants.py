"""Invariants of any log: checked event by event, with memory of open items only."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.engine.events import Event
from noetl.engine.undone import Undone
from noetl.types import JSON

_STEP_ENDS = frozenset({"step.done", "step.failed"})
_ITERATION_ENDS = frozenset({"loop.iteration.done", "loop.iteration.failed"})
_ROUTED = frozenset({*_STEP_ENDS, "loop.done"})


class Breach(msgspec.Struct, frozen=True):
    """An invariant that does not hold, and the event where it was found."""

    invariant: str
    seq: int
    message: str


class Audit:
    """A check of one execution's events, in order: ``take`` each, then call ``end``.

    ``tokens``, ``runs``, ``iterations`` and ``attempts`` hold the open items.
    """

    def __init__(self) -> None:
        self._seq = 0
        self._tokens: set[str] = set()
        self._runs: set[str] = set()
        self._iterations: set[str] = set()
        self._next: dict[str, int] = {}
        self._kept: set[str] = set()
        self._boundaries: set[tuple[str, str]] = set()
        self._attempts: dict[str, tuple[str, int]] = {}
        self._begun: set[str] = set()
        self._cancelled = False
        self._last = ""
        self._undone: Undone | None = None

    def take(self, event: Event) -> Iterator[Breach]:
        """Yield the breaches of this event, given those before it."""
        for invariant, message in self._judge(event):
            yield Breach(invariant, event.seq, message)
        self._seq, self._last = event.seq, event.name

    def end(self) -> Iterator[Breach]:
        """Yield the breaches of a log that ends here; only a finished log must be
        complete."""
        if self._last != "playbook.processed":
            return
        left = [*sorted(self._tokens), *sorted(self._runs), *sorted(self._iterations)]
        for name in left[:10]:
            message = f"the execution has finished, but {name} has not"
            yield Breach("I-14", self._seq, message)

    def _judge(self, event: Event) -> Iterator[tuple[str, str]]:
        if event.seq != self._seq + 1:
            yield "I-04", f"expected event {self._seq + 1}, found {event.seq}"
        if self._last == "playbook.processed":
            yield "I-14", f"{event.name} comes after the last event"
        if event.seq == 1:
            self._undone = Undone.of(event)
        if self._undone is not None and self._undone.covers(event):
            return
        yield from self._judge_tokens(event)
        yield from self._judge_runs(event)
        yield from self._judge_loops(event)
        yield from self._judge_tasks(event)
        if event.name == "workflow.cancelled":
            self._cancelled = True

    def _judge_tokens(self, event: Event) -> Iterator[tuple[str, str]]:
        """I-11: a token is made once, and ends once."""
        payload = event.payload
        made: list[JSON] = []
        gone: list[JSON] = []
        if event.name == "workflow.started":
            made = [payload["token"]]
        elif event.name == "next.evaluated":
            made = payload["fired"]
            if payload["mode"] == "exclusive" and len(made) > 1:
                yield "I-12", f"an exclusive router fired {len(made)} arcs"
            key = (event.step_run_id or "", payload["on"])
            if key not in self._boundaries:
                yield "I-12", f"{key[1]} of {key[0]} is routed twice, or not recorded"
            self._boundaries.discard(key)
        elif event.name == "workflow.forked":
            made = [
                token
                for token in payload.get("again", [])
                if self._undone is None or not self._undone.has_run(token["failed"])
            ]
        elif event.name in ("step.scheduled", "step.skipped"):
            gone = payload["tokens"]
        elif event.name == "token.joined" and payload.get("discarded"):
            gone = [payload["token_id"]]
        elif event.name in ("workflow.cancelled", "workflow.finished"):
            self._tokens.clear()
        self._tokens.update(token["token_id"] for token in made)
        for token in gone:
            if token not in self._tokens:
                yield "I-11", f"token {token} ends twice, or was never made"
            self._tokens.discard(token)

    def _judge_runs(self, event: Event) -> Iterator[tuple[str, str]]:
        """I-15: a step run ends once."""
        run = event.step_run_id or ""
        if event.name == "step.scheduled":
            self._runs.add(run)
        elif event.name in _STEP_ENDS:
            if run not in self._runs:
                yield "I-15", f"step run {run} ends twice, or was never begun"
            self._runs.discard(run)
        if event.name in _ROUTED and event.iteration_id is None:
            self._boundaries = {
                key for key in self._boundaries if key[0] in self._runs
            } | {(run, event.name)}

    def _judge_loops(self, event: Event) -> Iterator[tuple[str, str]]:
        """I-22: iterations begin in order, once, and end once."""
        name = event.iteration_id or ""
        loop, _, index = name.rpartition("/")
        if event.name == "loop.started":
            self._next[event.entity_id] = 0
            if "kept" in event.payload:
                self._kept.add(event.entity_id)
        elif event.name == "loop.iteration.started":
            expected = self._next.get(loop)
            skips = loop in self._kept and int(index) > (expected or 0)
            if int(index) != expected and not skips:
                yield "I-22", f"{name} is begun where {self._next.get(loop)} is next"
            self._next[loop] = int(index) + 1
            self._iterations.add(name)
        elif event.name in _ITERATION_ENDS:
            if name not in self._iterations:
                yield "I-15", f"iteration {name} ends twice, or was never begun"
            self._iterations.discard(name)
            self._next.pop(name, None)
            self._kept.discard(name)
        elif event.name in _STEP_ENDS:
            self._next.pop(event.step_run_id or "", None)
            self._kept.discard(event.step_run_id or "")

    def _judge_tasks(self, event: Event) -> Iterator[tuple[str, str]]:
        """I-17, I-27, I-32: attempts count from one, without gaps."""
        pipeline = event.iteration_id or event.step_run_id or ""
        task, attempt = event.task_run_id or "", event.attempt or 0
        if event.name == "task.started":
            if self._cancelled:
                yield "I-32", f"{task} is begun after the execution was cancelled"
            before, count = self._attempts.get(pipeline, ("", 0))
            again = event.payload.get("in_doubt") is not None
            expected = count + (not again) if before == task else 1
            if attempt != expected:
                yield "I-27", f"attempt {attempt} of {task} where {expected} is next"
            self._attempts[pipeline] = (task, attempt)
            self._begun.add(pipeline)
        elif event.name == "task.resumed":
            self._begun.discard(pipeline)
        elif event.name == "workflow.forked":
            for name in self._begun:  # open attempts begin again
                task, attempt = self._attempts[name]
                self._attempts[name] = (task, attempt - 1)
            self._begun.clear()
        elif event.name == "task.done":
            self._begun.discard(pipeline)
            if self._attempts.get(pipeline) != (task, attempt):
                yield "I-17", f"attempt {attempt} of {task} ended but never began"
        elif event.name in _STEP_ENDS or event.name in _ITERATION_ENDS:
            self._attempts.pop(event.entity_id, None)
            self._begun.discard(event.entity_id)


def audit(events: list[Event]) -> list[Breach]:
    """Return all breaches of a whole log."""
    watch = Audit()
    found = [breach for event in events for breach in watch.take(event)]
    return found + list(watch.end())
