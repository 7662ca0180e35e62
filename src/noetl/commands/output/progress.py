"""Progress of a run as plain lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias

import click

from noetl.commands.output.diagnostics import count_of, where_of
from noetl.commands.output.live.model import read_wait, seconds_of
from noetl.commands.output.live.rows import activity_words
from noetl.dsl.node import printable
from noetl.engine.endings import (
    Ignored,
    add_ignored,
    ignored_error,
    iteration_words,
    no_arc_fired,
    partial_failure,
)
from noetl.engine.events import Event, LoopStarted, NextEvaluated, TaskDone

if TYPE_CHECKING:
    from noetl.runtime.worker.executor import SlotUse
    from noetl.service.executions.task_logs import LogLine

LookAtSlots: TypeAlias = "Callable[[], SlotUse]"
"""A function that returns what the slots run at this moment."""


class Progress:
    """Receives committed events, and lines of tasks if it ``shows_logs``. This base
    class shows nothing.
    """

    shows_logs = False

    def watch_slots(self, look: LookAtSlots) -> None:
        """Receive the function that tells which steps wait for a slot."""

    def take(self, events: Sequence[Event]) -> None:
        pass

    def print_logs(self, lines: Sequence[LogLine]) -> None:
        """Receive lines that tasks printed, once they are stored."""

    def say(self, text: str) -> None:
        """Print a line about the command itself."""
        click.echo(text, err=True)

    def recall(self, events: Sequence[Event]) -> None:
        """Receive events that an earlier process committed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def choose_progress(*, quiet: bool, as_json: bool, logs: bool = True) -> Progress:
    """Choose the live view on a terminal, else lines; with ``--json`` neither.

    Without ``logs``, lines that tasks print are not shown.
    """
    progress = _choose(quiet=quiet, as_json=as_json)
    progress.shows_logs = progress.shows_logs and logs
    return progress


def _choose(*, quiet: bool, as_json: bool) -> Progress:
    if quiet:
        return Progress()
    if sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        from noetl.commands.output.live.terminal import LiveProgress

        return LiveProgress(untitled=not as_json)
    return Progress() if as_json else PlainProgress()


class PlainProgress(Progress):
    """Prints a line per step, retry and wait, and one per tenth of a loop."""

    shows_logs = True

    def __init__(self) -> None:
        self._loops: dict[str, tuple[int, int]] = {}
        self._ignored: dict[str, Ignored] = {}
        self._failed: dict[str, str] = {}
        self._is_cancelled = False

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            self._say(event)

    def print_logs(self, lines: Sequence[LogLine]) -> None:
        from noetl.commands.output.log_lines import format_line, shorten

        shown, note = shorten(lines)
        texts = [*([note] if note else []), *map(format_line, shown)]
        if texts:
            click.echo("\n".join(texts), err=True)

    def _say(self, event: Event) -> None:
        name, step, run = event.name, event.step or "", event.step_run_id or ""
        ignored = failed = None
        if name in ("step.done", "step.failed"):
            self._loops.pop(run, None)
            ignored = self._ignored.pop(run, None)
            failed = self._failed.pop(run, None)
        elif (error := ignored_error(event)) is not None:
            self._ignored[run] = add_ignored(self._ignored.get(run), error)
        elif (words := partial_failure(event)) is not None:
            self._failed[run] = words
        if name == "step.skipped":
            _line("-", step, "not admitted")
        elif name == "workflow.cancelled":
            self._is_cancelled = True
        elif name == "step.failed" and self._is_cancelled:
            _line("■", step, "cancelled")
        elif name == "workflow.queued":
            _line("…", "queue", "waiting for its concurrency key")
        elif name == "step.done" and (ignored is not None or failed is not None):
            noted = ignored.words() if ignored is not None else None
            _line("!", step, ", ".join(filter(None, ["done", failed, noted])))
        elif name == "step.done":
            _line("✓", step, "done")
        elif name == "step.failed":
            problem = event.payload["error"]
            words = f"{iteration_words(problem)}{problem.get('message', '')}"
            _line("✗", step, f"failed: {words}")
        elif (lost := no_arc_fired(event)) is not None:
            _line("!", step, lost.words())
        elif name == "next.evaluated" and event.payload["on"] == "step.failed":
            _unhandled(step, event.payload)
        elif name == "task.done" and event.payload["directive"]["do"] == "retry":
            self._retry(event)
        elif name == "task.suspended":
            self._wait(event)
        elif name == "loop.started" and event.iteration_id is None:
            self._begin_loop(event)
        elif name.startswith("loop.iteration.") and name != "loop.iteration.started":
            self._iteration(event)

    def _begin_loop(self, event: Event) -> None:
        loop: LoopStarted = event.payload
        done = loop["kept"]["done"] if "kept" in loop else 0
        self._loops[event.step_run_id or ""] = (done, loop["total"])
        words = count_of(loop["total"], "iteration")
        kept = f", {done:,} of them kept" if done else ""
        _line("↻", event.step or "", f"{words}{kept}")

    def _retry(self, event: Event) -> None:
        done: TaskDone = event.payload
        error = done["outcome"]["error"] or {}
        why = error.get("message", "not yet")
        delay = done["directive"]["delay"]
        text = (
            f"{event.task_label}: attempt {event.attempt}: {why}; again in {delay:g} s"
        )
        _line("…", where_of(event), text)

    def _wait(self, event: Event) -> None:
        """Print a wait, but not of a retry, which has printed it, or an iteration."""
        if (
            event.payload.get("on") in ("delay", "limit")
            or event.iteration_id is not None
        ):
            return
        waiting, now = read_wait(event), seconds_of(event.timestamp)
        _line("◷", event.step or "", activity_words(waiting, now))

    def _iteration(self, event: Event) -> None:
        run = event.step_run_id or ""
        if run not in self._loops or (event.iteration_id or "").count("/") != 1:
            return
        over, total = self._loops[run]
        over += 1
        self._loops[run] = (over, total)
        if total >= 20 and over * 10 // total != (over - 1) * 10 // total:
            _line("↻", event.step or "", f"{over} of {total}")


def _unhandled(step: str, routed: NextEvaluated) -> None:
    """Warn about arcs without a guard: they fire after a failure, too (S-08)."""
    if routed["fired"] and not routed["handled"]:
        targets = ", ".join(token["step"] for token in routed["fired"])
        text = f"its failure is not handled, but an unguarded arc fired: {targets}"
        _line("!", step, text)


def _line(sign: str, step: str, text: str) -> None:
    click.echo(f"{sign} {step}: {printable(' '.join(text.split()))}", err=True)
