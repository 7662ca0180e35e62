"""Diagnostics for people: the source line, a caret, what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import click

from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.secrets import mask

_COLOURS = {"error": "red", "warning": "yellow", "hint": "cyan"}
_TOKEN = re.compile(r"[{\[]|\"[^\"]*\"?|'[^']*'?|(?:[^\s,\]}#:]|:(?=\S))+|\S")
_WIDTH = 110


def format_diagnostic(found: Diagnostic, file: str, lines: list[str]) -> str:
    """One finding as a block of text, in colour (stripped where none is wanted)."""
    place = click.style(f"{file}:{found.line}:{found.column}", bold=True)
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
    line, column = _window(lines[found.line - 1].replace("\t", " "), found.column - 1)
    token = _TOKEN.match(line, column)
    width = max(1, min(len(line), token.end() if token else column + 1) - column)
    shown = mask(line)
    if found.code == "WARN-05" or shown != line:
        shown, width = _hide_value(line, column, shown), 3
    caret = click.style("^" * width, fg=_COLOURS[found.severity], bold=True)
    return [
        f" {found.line:>4} {click.style('|', dim=True)} {_printable(shown)}",
        f"      {click.style('|', dim=True)} {' ' * column}{caret}",
    ]


def _hide_value(line: str, column: int, masked: str) -> str:
    """Hide a suspected secret from its column on; elsewhere trust the mask."""
    return line[:column] + "***" if masked == line else masked


def _window(line: str, column: int) -> tuple[str, int]:
    """The part of a long line around the column, and the column in it."""
    if len(line) <= _WIDTH:
        return line, min(column, len(line))
    start = max(0, column - _WIDTH // 2)
    return line[start : start + _WIDTH], column - start


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def count_words(diagnostics: Iterable[Diagnostic]) -> str:
    """``2 errors, 1 warning``; empty if there are none."""
    counts = Counter(found.severity for found in diagnostics)
    words = [
        f"{counts[name]} {name}{'s' if counts[name] > 1 else ''}"
        for name in ("error", "warning", "hint")
        if counts[name]
    ]
    return ", ".join(words)
