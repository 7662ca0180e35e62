"""Diagnostics for people: the source line, a caret, what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import click

from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.node import printable
from noetl.dsl.secrets import mask
from noetl.engine.events import Event
from noetl.types import JSON

_COLOURS = {"error": "red", "warning": "yellow", "hint": "cyan"}
_TOKEN = re.compile(r"[{\[]|\"[^\"]*\"?|'[^']*'?|(?:[^\s,\]}#:]|:(?=\S))+|\S")
_WIDTH = 110
_SEARCHED = 2_048


def format_diagnostic(found: Diagnostic, file: str, lines: list[str]) -> str:
    """One finding as a block of text, in colour (stripped where none is wanted)."""
    place = click.style(f"{printable(file)}:{found.line}:{found.column}", bold=True)
    severity = click.style(found.severity, fg=_COLOURS[found.severity], bold=True)
    tag = click.style(f"[{found.code} {found.rule}]", dim=True)
    block = [f"{place}: {severity}: {found.message} {tag}"]
    block += _excerpt(found, lines)
    if found.hint:
        block.append(f"      {click.style('=', dim=True)} {found.hint}")
    return "\n".join(block)


def _excerpt(found: Diagnostic, lines: list[str]) -> list[str]:
    if not 1 <= found.line <= len(lines):
        return []
    line, column = _near(lines[found.line - 1], found.column - 1)
    token = _TOKEN.match(line, column)
    width = max(1, (token.end() if token else 0) - column)
    shown = mask(line)
    if found.code == "WARN-05" and shown == line:
        shown = line[:column] + "***"  # the secret is known by its key or its lines
    elif shown != line:
        column = len(mask(line[:column]))  # what was hidden before it moved it
    if shown.startswith("***", column):
        width = 3
    shown, column = _window(shown, column)
    width = max(1, min(width, len(shown) - column))
    caret = click.style("^" * width, fg=_COLOURS[found.severity], bold=True)
    return [
        f" {found.line:>4} {click.style('|', dim=True)} {printable(shown)}",
        f"      {click.style('|', dim=True)} {' ' * column}{caret}",
    ]


def _near(line: str, column: int) -> tuple[str, int]:
    """The part that is worth searching for secrets, and the column in it."""
    start = max(0, column - _SEARCHED)
    near = line[start : column + _SEARCHED].replace("\t", " ")
    return near, min(column - start, len(near))


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around the column, and the column in it."""
    if len(line) <= _WIDTH:
        return line, column
    start = max(0, column - _WIDTH // 2)
    return line[start : start + _WIDTH], column - start


def count_of(number: int, noun: str) -> str:
    """``1 step``, ``2,000 steps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def origin_words(origin: Mapping[str, JSON]) -> str:
    """Whose fork it is: ``<id> at event <seq>``."""
    return f"{origin['execution_id']} at event {origin['seq']}"


def queue_words(places: Mapping[str, JSON]) -> str:
    """What an execution waits for before it begins."""
    key, limit = printable(str(places["key"])), places["limit"]
    return f"in the queue for a place of '{key}', limit {limit:,}"


def bytes_of(size: int) -> str:
    """``512 bytes``, ``1.5 kB``, ``2.1 GB``."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{size:,} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"


def where_of(event: Event) -> str:
    """The step, and which iteration of it: ``fetch``, ``fetch[3]``, ``fetch[3/0]``."""
    _, inside, path = (event.iteration_id or "").partition("/")
    return f"{event.step}[{path}]" if inside else event.step or ""


def count_words(diagnostics: Iterable[Diagnostic]) -> str:
    """``2 errors, 1 warning``; empty if there are none."""
    counts = Counter(found.severity for found in diagnostics)
    words = [
        count_of(counts[name], name)
        for name in ("error", "warning", "hint")
        if counts[name]
    ]
    return ", ".join(words)
