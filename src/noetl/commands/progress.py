"""What happens while a playbook runs, line by line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from noetl.engine.events import Event


class PlainProgress:
    """A line per step and per retry; loops speak at every tenth of their length."""

    def __init__(self) -> None:
        self._loops: dict[str, tuple[int, int]] = {}

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            self._say(event)

    def _say(self, event: Event) -> None:
        name, step = event.name, event.step or ""
        if name == "step.skipped":
            _line("-", step, "not admitted")
        elif name == "step.done":
            _line("✓", step, "done")
        elif name == "step.failed":
            _line("✗", step, f"failed: {event.payload['error'].get('message', '')}")
        elif name == "task.done" and event.payload["directive"]["do"] == "retry":
            self._retry(event)
        elif name == "loop.started" and event.iteration_id is None:
            self._loops[event.step_run_id or ""] = (0, event.payload["total"])
            _line("↻", step, f"{event.payload['total']} iterations")
        elif name.startswith("loop.iteration.") and name != "loop.iteration.started":
            self._iteration(event)

    def _retry(self, event: Event) -> None:
        error = event.payload["outcome"]["error"] or {}
        why = error.get("message", "not yet")
        delay = event.payload["directive"]["delay"]
        text = (
            f"{event.task_label}: attempt {event.attempt}: {why}; again in {delay:g} s"
        )
        _line("…", event.step or "", text)

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
    click.echo(f"{sign} {step}: {text}", err=True)
