"""Lines of task logs for people: ``talk[3].load │ text``, coloured by level."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from noetl.dsl.node import printable
from noetl.ports.task_logs import LogChunk
from noetl.service.executions.task_logs import LogLine, lines_of

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]"
)
_UNNAMED = re.compile(r"task_\d+")
_COLOURS = {"debug": "bright_black", "warning": "yellow", "error": "red"}
STDERR = "magenta"
MAX_SHOWN = 200
"""Lines that are shown of those that are stored together."""


def label_of(line: LogLine) -> str:
    """Return ``talk[3].load #2``: step, iteration, named task and later attempt."""
    path = f"[{line.iteration}]" if line.iteration is not None else ""
    task = "" if _UNNAMED.fullmatch(line.task) else f".{line.task}"
    attempt = f" #{line.attempt}" if line.attempt > 1 else ""
    return printable(f"{line.step}{path}{task}{attempt}")


def text_of(line: LogLine) -> str:
    """Return the text without terminal sequences; of a line that was overwritten by
    carriage returns, what a terminal shows in the end."""
    text = _ESCAPES.sub("", line.text).rstrip("\r").rpartition("\r")[2]
    return printable(text.expandtabs(8))


def colour_of(line: LogLine) -> str | None:
    if line.level == "critical":
        return "red"
    if line.level is not None:
        return _COLOURS.get(line.level)
    return STDERR if line.stream == "stderr" else None


def format_line(line: LogLine, time: str = "") -> str:
    head = click.style(f"{time}{label_of(line)} │", dim=True)
    return f"{head} {click.style(text_of(line), fg=colour_of(line))}"


def lines_in(chunks: Sequence[LogChunk]) -> list[LogLine]:
    texts = ((chunk, text) for chunk in chunks for text in chunk.texts)
    return [line for chunk, text in texts for line in lines_of(chunk, text)]


def shorten(lines: Sequence[LogLine]) -> tuple[Sequence[LogLine], str | None]:
    """Return the last lines of many that came at once, and a note about the others."""
    left = len(lines) - MAX_SHOWN
    if left <= 0:
        return lines, None
    return lines[left:], f"… {left:,} more lines: noetl logs"
