"""``noetl graph``: draw a playbook's net."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from noetl.commands.files.playbook_files import SourceFile, read_file
from noetl.commands.output.diagnostics import count_words, format_diagnostic
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.canonical import digest
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.errors import ConfigError
from noetl.net.draw import PLAIN, Paint
from noetl.net.net import Net, build_net

FORMATS = ("mermaid", "dot", "svg", "json")
_ENDINGS = {
    ".svg": "svg",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".md": "mermaid",
    ".json": "json",
}


@click.command("graph")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="The output format (default: by the ending of --output, or mermaid).",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("-o", "--output", metavar="FILE", help="Write to a file.")
@click.option("--execution", metavar="ID", help="Show the run of this execution.")
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@pass_settings
def command(
    settings: Settings,
    file: str,
    format_: str | None,
    as_json: bool,
    output: str | None,
    execution: str | None,
    extensions: str | None,
) -> None:
    """Draw a playbook's net as Mermaid, DOT, SVG or JSON.

    FILE is a playbook, or - for standard input. Steps are boxes, arcs are arrows:
    dashed if guarded, red if they fire on failure only, dotted if they never fire.
    The SVG needs no other program. Exit code: 0 drawn, 2 not a valid playbook.

    With --execution, steps show their status and duration, and arcs the number of
    tokens that passed. ID is an id, a prefix of one, or last.

    \b
    Examples:
      noetl graph playbook.yaml
      noetl graph playbook.yaml -o playbook.svg
      noetl graph playbook.yaml --format dot | dot -Tpdf > playbook.pdf
      noetl graph playbook.yaml --execution last -o run.svg
    """
    if as_json and format_ not in (None, "json"):
        raise click.UsageError(f"--json contradicts --format {format_}")
    pen = "json" if as_json else format_ or _guess_format(output)
    source = read_file(file)
    kinds = read_plugins(settings).kinds
    loaded = load(source.content, kinds, read_extensions(extensions, settings))
    if loaded.playbook is None:
        _refuse(source, loaded)
    draw = _find_pen(pen)
    playbook, paint = loaded.playbook, PLAIN
    if execution is not None:
        playbook, paint = asyncio.run(
            _find_paint(settings, source, playbook, execution)
        )
    _write(draw(build_net(playbook), paint), output)


async def _find_paint(
    settings: Settings, source: SourceFile, playbook: Playbook, execution: str
) -> tuple[Playbook, Paint]:
    """Fold an execution of this playbook; return the text that ran and its paint."""
    from noetl.commands.local.logs import find_execution
    from noetl.commands.output.html_report import fold_log, read_pinned
    from noetl.local.home import Home
    from noetl.report.sections.graph import paint_steps

    home = Home.of(settings)
    place = await find_execution(home, execution)
    record = await fold_log(place)
    ran = record.playbook.get("path")
    if ran != playbook.path:
        message = f"execution {place.execution_id} ran '{ran}', not '{playbook.path}'"
        raise ConfigError(f"{message}, the path of {source.name}")
    if record.playbook.get("sha256") != digest(playbook):
        pinned, _ = await read_pinned(settings, home, record.playbook)
        which = "the text that ran" if pinned is not None else "the file as it is now"
        click.echo(f"{source.name} has changed since; drawing {which}", err=True)
        playbook = pinned or playbook
    return playbook, paint_steps(record, playbook.steps)


def _refuse(source: SourceFile, loaded: Loaded) -> NoReturn:
    lines = source.lines
    for found in loaded.diagnostics:
        click.echo(format_diagnostic(found, source.name, lines) + "\n", err=True)
    words = count_words(loaded.diagnostics)
    click.echo(f"{source.name}: invalid: {words}; nothing is drawn", err=True)
    sys.exit(2)


def _guess_format(output: str | None) -> str:
    """Choose the format by the ending of the file. Raises ``click.UsageError``."""
    ending = Path(output or "").suffix.lower()
    if ending in ("", ".txt"):
        return "mermaid"
    if ending not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        cure = f"use one of {known}, or name the format with --format"
        raise click.UsageError(f"no format for files that end in {ending}; {cure}")
    return _ENDINGS[ending]


def _find_pen(format_: str) -> Callable[[Net, Paint], str]:
    module = import_module(f"noetl.net.draw.{format_}")
    pen: Callable[[Net, Paint], str] = getattr(module, f"draw_{format_}")
    return pen


def _write(text: str, output: str | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{output}: cannot be written: {reason}") from None
