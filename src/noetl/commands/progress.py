"""What happens while a playbook runs, line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Self

import click

from noetl.commands.live.board import read_wait, seconds_of
from noetl.commands.live.words import activity_words
from noetl.commands.printing import count_of, where_of
from noetl.dsl.node import printable
from noetl.engine.events import Event


class Progress:
    """Told what was committed. This one shows nothing."""

    def take(self, events: Sequence[Event]) -> None:
        pass

    def recall(self, events: Sequence[Event]) -> None:
        """What happened before: the work of an earlier process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass


def choose_progress(*, quiet: bool, as_json: bool) -> Progress:
    """A live view where people look at it, else lines; with ``--json`` no lines."""
    if quiet:
        return Progress()
    if sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        from noetl.commands.live.screen import LiveProgress

        return LiveProgress()
    return Progress() if as_json else PlainProgress()


class PlainProgress(Progress):
    """A line per step, retry and wait; loops speak at every tenth of their length."""

    def __init__(self) -> None:
        self._loops: dict[str, tuple[int, int]] = {}

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            self._say(event)

    def _say(self, event: Event) -> None:
        name, step = event.name, event.step or ""
        if name in ("step.done", "step.failed"):
            self._loops.pop(event.step_run_id or "", None)
        if name == "step.skipped":
            _line("-", step, "not admitted")
        elif name == "workflow.queued":
            _line("…", "queue", "it waits for a place of its concurrency key")
        elif name == "step.done":
            _line("✓", step, "done")
        elif name == "step.failed":
            _line("✗", step, f"failed: {event.payload['error'].get('message', '')}")
        elif name == "task.done" and event.payload["directive"]["do"] == "retry":
            self._retry(event)
        elif name == "task.suspended":
            self._wait(event)
        elif name == "loop.started" and event.iteration_id is None:
            self._loops[event.step_run_id or ""] = (0, event.payload["total"])
            _line("↻", step, count_of(event.payload["total"], "iteration"))
        elif name.startswith("loop.iteration.") and name != "loop.iteration.started":
            self._iteration(event)

    def _retry(self, event: Event) -> None:
        error = event.payload["outcome"]["error"] or {}
        why = error.get("message", "not yet")
        delay = event.payload["directive"]["delay"]
        text = (
            f"{event.task_label}: attempt {event.attempt}: {why}; again in {delay:g} s"
        )
        _line("…", where_of(event), text)

    def _wait(self, event: Event) -> None:
        """A retry has said when it goes on; of iterations there may be too many."""
        if event.payload.get("on") == "delay" or event.iteration_id is not None:
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


def _line(sign: str, step: str, text: str) -> None:
    click.echo(f"{sign} {step}: {printable(' '.join(text.split()))}", err=True)
