"""The table of executions that ``noetl list`` prints."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping, Sequence

import click

from noetl.commands.output.diagnostics import queue_words
from noetl.commands.output.live.rows import local_moment, one_line
from noetl.dsl.node import printable
from noetl.engine.endings import ignored_words, not_reached_words
from noetl.engine.execution_document import elapsed_ms
from noetl.engine.times import seconds_of
from noetl.engine.waits.resume import WaitLine
from noetl.ports import Summary
from noetl.report.format import duration

SHORT_ID = 8
"""Characters at the end of an id: they are random, the first ones are the time."""
INTERRUPTED = "interrupted (its process is gone)"
"""The words for an unfinished execution whose process is gone."""
_ERROR = 60
_HEADER = ("ID", "STATUS", "STARTED", "TOOK", "PLAYBOOK")
_COLOURS = {
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "quarantined": "red",
}


def short_id(execution_id: str) -> str:
    """Return the end of an id, which commands take for the whole id."""
    return execution_id[-SHORT_ID:]


def print_table(
    found: Sequence[Summary],
    below: Mapping[str, Sequence[str]] | None = None,
    interrupted: Container[str] = (),
) -> None:
    """Print a header and a row for each execution; ``below`` has lines under a row.
    ``interrupted`` are executions whose process is gone."""
    rows = [_cells(each, each.execution_id in interrupted) for each in found]
    widths = [max(map(len, column)) for column in zip(_HEADER, *rows, strict=True)]
    click.echo(_aligned(_HEADER, widths))
    for each, row in zip(found, rows, strict=True):
        click.echo(_aligned(row, widths, _colour(each)))
        for line in (below or {}).get(each.execution_id, ()):
            click.echo(line)


def answer_words(execution_id: str, wait: WaitLine) -> str:
    """Format the command that sends the signal, with a gap for each field."""
    words = ["noetl", "signal", short_id(execution_id), wait.signal or ""]
    fields = (wait.schema or {}).get("properties", {})
    gaps = [f"--set {shlex.quote(printable(name))}=…" for name in fields]
    if wait.schema is not None and not fields:
        gaps = ["--data …"]
    return " ".join([shlex.join(map(printable, words)), *gaps])


def _cells(each: Summary, is_interrupted: bool) -> tuple[str, ...]:
    name = printable(str(each.playbook.get("path") or each.playbook.get("name")))
    indent = "↳ " if each.parent_id is not None else ""
    notes = "".join(f"  ({note})" for note in _notes(each))
    status = INTERRUPTED if is_interrupted else each.status
    problem = f"  {_shortened(each.error['message'])}" if each.error else ""
    began = local_moment(seconds_of(each.started_at)) if each.started_at else "-"
    took = elapsed_ms(each.started_at, each.finished_at or "")
    spent = "-" if took is None else duration(took / 1000)
    place = f"{indent}{name}{notes}{problem}"
    return short_id(each.execution_id), status, began, spent, place


def _notes(each: Summary) -> list[str]:
    notes = []
    if each.parent_id is not None:
        notes.append(f"called by {short_id(each.parent_id)}")
    if each.forked_from is not None:
        origin, seq = each.forked_from["execution_id"], each.forked_from["seq"]
        notes.append(f"forked from {short_id(origin)} at event {seq}")
    if each.trigger is not None:
        words = [each.trigger["name"], each.trigger["slot"]]
        notes.append(f"trigger {' '.join(filter(None, words))}")
    if each.concurrency is not None and each.concurrency["queued"]:
        notes.append(queue_words(each.concurrency))
    if each.ignored_errors:
        notes.append(ignored_words(each.ignored_errors))
    if each.not_reached:
        notes.append(not_reached_words(each.not_reached))
    return notes


def _shortened(message: str) -> str:
    text = one_line(message)
    return text if len(text) <= _ERROR else f"{text[: _ERROR - 1]}…"


def _aligned(
    cells: Sequence[str], widths: Sequence[int], colour: str | None = None
) -> str:
    *columns, last = cells
    padded = [cell.ljust(width) for cell, width in zip(columns, widths, strict=False)]
    padded[1] = click.style(padded[1], fg=colour)
    return "  ".join([*padded, last])


def _colour(each: Summary) -> str | None:
    if each.status == "completed" and (each.ignored_errors or each.not_reached):
        return "yellow"
    return _COLOURS.get(each.status)
