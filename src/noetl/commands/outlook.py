"""What a fork would keep, and what it would do: ``--dry-run``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from noetl.commands.printing import count_of, origin_words
from noetl.engine.context import is_equal
from noetl.engine.document import Document
from noetl.engine.events import Event
from noetl.engine.forking import Fork
from noetl.engine.runs import pipelines
from noetl.engine.state import LoopState, Run, State
from noetl.types import JSON


class Outlook:
    """Told the events of the origin; those that are kept count."""

    def __init__(self, fork: Fork, state: State) -> None:
        self._fork = fork
        self._state = state
        self._document = Document()

    def recall(self, events: Sequence[Event]) -> None:
        self._document.note([e for e in events if e.seq <= self._fork.seq])

    def as_json(self) -> dict[str, JSON]:
        fork, state = self._fork, self._state
        kept = Counter(
            (each.step, each.status)
            for each in self._document.steps
            if each.status in ("done", "failed", "skipped")
            and each.step_run_id not in fork.again
        )
        return {
            "forked_from": {"execution_id": fork.origin, "seq": fork.seq},
            "kept": [
                {"step": step, "status": status, "runs": count}
                for (step, status), count in kept.items()
            ],
            "again": [_under_way(run) for run in state.runs.values()],
            "next": [
                {"step": token.step, "args": token.args}
                for token in state.tokens.values()
            ]
            + [{"step": step, "args": {}} for step in state.joining]
            + [
                {"step": token["step"], "args": token["args"]}
                for token in fork.again.values()
            ],
            "workload": self._changes(),
            "set_ctx": fork.set_ctx,
            "playbook": fork.playbook if fork.newer else None,
        }

    def _changes(self) -> dict[str, JSON]:
        """Inputs that will not be what they were."""
        before, after = self._state.workload, self._fork.workload or {}
        return {
            key: value
            for key, value in after.items()
            if key not in before or not is_equal(before[key], value)
        }


def _under_way(run: Run) -> dict[str, JSON]:
    labels = [progress.label for _, progress in pipelines(run)]
    return {
        "step": run.step,
        "step_run_id": run.id,
        "task": labels[0] if run.loop is None else None,
        "iterations": _iterations(run.loop) if run.loop is not None else None,
    }


def _iterations(loop: LoopState) -> dict[str, JSON]:
    """Of the outermost loop: those that are over are kept."""
    over = loop.done + loop.failed
    return {"total": loop.total, "kept": over, "again": len(loop.open)}


def print_outlook(outlook: dict[str, JSON]) -> None:
    click.echo(f"a fork of {origin_words(outlook['forked_from'])} would")
    for each in outlook["kept"]:
        times = f", {count_of(each['runs'], 'run')}" if each["runs"] > 1 else ""
        click.echo(f"  keep   {each['step']}: {each['status']}{times}")
    for each in outlook["again"]:
        click.echo(f"  go on  {each['step']}: {_activity(each)}")
    for each in outlook["next"]:
        click.echo(f"  begin  {each['step']}")
    for where, edits in (("workload", "workload"), ("ctx", "set_ctx")):
        if outlook[edits]:
            click.echo(f"  with other values in {where}: {', '.join(outlook[edits])}")
    if outlook["playbook"] is not None:
        about = outlook["playbook"]
        version = f" {about['version']}" if about["version"] else ""
        click.echo(f"  with the playbook {about['path']}{version}")
    click.echo("nothing was started")


def _activity(each: dict[str, JSON]) -> str:
    counts = each["iterations"]
    if counts is None:
        if each["task"] is None:
            return "it has ended, its arcs are judged again"
        return f"task '{each['task']}' begins again"
    text = f"{counts['kept']:,} of {count_of(counts['total'], 'iteration')} are kept"
    if counts["again"]:
        text += f", {counts['again']:,} begin again"
    return text
