"""Diagnostics as text: the source line, a caret and a hint; places of errors."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.dsl.diagnostics import Diagnostic, nearest
from noetl.dsl.node import printable
from noetl.dsl.secret_patterns import mask
from noetl.engine.events import Event
from noetl.errors import NoetlError
from noetl.report.places import Place, Source
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.client.http import Client

_COLOURS = {"error": "red", "warning": "yellow", "hint": "cyan"}
_TOKEN = re.compile(r"[{\[]|\"[^\"]*\"?|'[^']*'?|(?:[^\s,\]}#:]|:(?=\S))+|\S")
_WIDTH = 110
OLDER_FORM = "S-01"
_SEARCH_WIDTH = 2_048
_LINE_OF_CODE = re.compile(r" \(line \d+ of the code\)")
_STEPS = 50  # failed steps of which the place is looked for


def format_diagnostic(found: Diagnostic, file: str, lines: list[str]) -> str:
    """Format a finding as a block of text, in colour (stripped where not supported)."""
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
        shown = line[:column] + "***"  # the key or the lines around it mark a secret
    elif shown != line:
        column = len(mask(line[:column]))  # masking before the column moves it
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
    """Cut the part to search for secrets; return it and the new column."""
    start = max(0, column - _SEARCH_WIDTH)
    near = line[start : column + _SEARCH_WIDTH].replace("\t", " ")
    return near, min(column - start, len(near))


def _window(line: str, column: int) -> tuple[str, int]:
    """Cut the part of a long line around the column; return it and the new column."""
    if len(line) <= _WIDTH:
        return line, column
    start = max(0, column - _WIDTH // 2)
    return line[start : start + _WIDTH], column - start


def count_of(number: int, noun: str) -> str:
    """Format ``1 step``, ``2,000 steps``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def origin_words(origin: Mapping[str, JSON]) -> str:
    """Format the origin of a fork: ``<id> at event <seq>``."""
    return f"{origin['execution_id']} at event {origin['seq']}"


def queue_words(places: Mapping[str, JSON]) -> str:
    """Describe the concurrency queue in which an execution waits."""
    key, limit = printable(str(places["key"])), places["limit"]
    return f"queued by concurrency key '{key}', limit {limit:,}"


def label_words(labels: Mapping[str, str]) -> str:
    """Format ``labels: env=test, team=sales``."""
    pairs = [f"{name}={value}" for name, value in sorted(labels.items())]
    return printable(f"labels: {', '.join(pairs)}")


def bytes_of(size: int) -> str:
    """Format ``512 bytes``, ``1.5 kB``, ``2.1 GB``."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{size:,} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"


def where_of(event: Event) -> str:
    """Format the step and its iteration: ``fetch``, ``fetch[3]``, ``fetch[3/0]``."""
    _, inside, path = (event.iteration_id or "").partition("/")
    return f"{event.step}[{path}]" if inside else event.step or ""


def count_words(diagnostics: Iterable[Diagnostic]) -> str:
    """Format ``2 errors, 1 warning``; empty if there are none."""
    counts = Counter(found.severity for found in diagnostics)
    words = [
        count_of(counts[name], name)
        for name in ("error", "warning", "hint")
        if counts[name]
    ]
    return ", ".join(words)


def print_warnings(warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(f"warning: {printable(warning)}", err=True)


hints_option = click.option(
    "--hints", is_flag=True, help="Print the hints of the validator, too."
)


def print_findings(
    diagnostics: Iterable[Diagnostic], file: str, lines: list[str], *, hints: bool
) -> None:
    """Print the warnings about a valid playbook to standard error.

    Forms of an older dialect, which its extension allows, are only counted.
    """
    shown = ("warning", "hint") if hints else ("warning",)
    older = 0
    for found in diagnostics:
        if found.code == OLDER_FORM:
            older += 1
        elif found.severity in shown:
            click.echo(format_diagnostic(found, file, lines), err=True)
    if older:
        text = f"{printable(file)}: {count_of(older, 'form')} of an older dialect"
        click.echo(f"{text}; noetl validate lists them", err=True)


def warn_of_new_names(
    names: Iterable[str], known: Iterable[str], option: str, what: str
) -> None:
    """Warn about a new name that resembles a known one; new names are allowed."""
    known = set(known)
    for name in names:
        top = name.split(".")[0]
        match = nearest(top, known) if top not in known else None
        if match is not None:
            text = f"{option} {name}: {what} has no '{top}', but it has '{match}'"
            click.echo(f"warning: {text}", err=True)


def add_places(document: dict[str, JSON], source: Source) -> None:
    """Add ``place`` to the errors whose place in the playbook is known."""
    failed = [step for step in document["steps"] if step["error"]][:_STEPS]
    errors = [
        (step["error"], {**step["error"], "step": step["step"]}) for step in failed
    ]
    if document["error"]:
        errors.append((document["error"], document["error"]))
    for error, located in errors:
        place = source.place_of(located)
        if place is not None:
            error["place"] = msgspec.to_builtins(place)


def look_for_places(document: dict[str, JSON], client: Client | None = None) -> None:
    """Add places from the stored text of the playbook, if there are errors.

    Without the text, as of a server that does not show it, there are no places.
    """
    failed = any(step["error"] for step in document["steps"])
    about = document["playbook"]
    if not (document["error"] or failed) or "sha256" not in about:
        return
    from noetl.commands.output.html_report import load_pinned, read_pinned
    from noetl.config import read_settings
    from noetl.local.home import Home

    settings = read_settings()
    playbook, text = None, None
    with suppress(NoetlError):
        if client is None:
            home = Home.of(settings)
            playbook, text = asyncio.run(read_pinned(settings, home, about))
        else:
            stored = BytesIO()
            execution_id = document["execution_id"]
            client.download(f"/api/executions/{execution_id}/playbook", stored)
            playbook, text = load_pinned(settings, stored.getvalue(), about)
    if text is not None:
        add_places(document, Source(playbook, text, about.get("path") or "playbook"))


def message_of(error: dict[str, JSON]) -> str:
    """Return the message, without the line of the code where the place is known."""
    message: str = error["message"]
    if "place" in error:
        return _LINE_OF_CODE.sub("", message)
    return message


def print_place(error: dict[str, JSON]) -> None:
    """Print the place of an error below its message."""
    if "place" in error:
        for line in msgspec.convert(error["place"], Place).as_text():
            click.echo(f"    {line}")
