"""``noetl validate``: check playbooks and show how to fix them."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from noetl.adapters.catalogs.files import paths_in
from noetl.adapters.processes.code_inspection import inspect_code
from noetl.commands.files.playbook_files import (
    SUFFIXES,
    SourceFile,
    find_playbooks,
    folder_of,
    read_file,
)
from noetl.commands.output.diagnostics import count_words, format_diagnostic
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.canonical import canonical, digest, to_yaml
from noetl.dsl.diagnostics import Report, nearest
from noetl.dsl.load import Loaded
from noetl.dsl.node import printable, shorten
from noetl.errors import ConfigError
from noetl.templates import is_template
from noetl.types import JSON

MAX_SEARCHED = 20_000
"""Entries of a folder among which paths of playbooks are looked for."""


@click.command("validate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@click.option("--canonical", "show", is_flag=True, help="Print the canonical YAML.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    paths: tuple[str, ...],
    strict: bool,
    extensions: str | None,
    show: bool,
    as_json: bool,
) -> None:
    """Check playbooks; show what is wrong and how to fix it.

    PATH is a file, a folder, or - for standard input. In a folder, the YAML files with
    apiVersion: noetl.io/… or kind: Playbook are checked. Exit code: 0 all valid, 1
    errors were found, 2 a path cannot be read.

    \b
    Examples:
      noetl validate playbook.yaml
      noetl validate --strict playbooks/
      noetl validate --canonical playbook.yaml
    """
    enabled, kinds = read_extensions(extensions, settings), read_plugins(settings).kinds
    files, skipped = find_playbooks(paths)
    if show and len(files) != 1:
        raise click.UsageError("--canonical prints one playbook: name one file")
    results = [
        (file, load(file.content, kinds, enabled, strict=strict, inspect=inspect_code))
        for file in files
    ]
    results = [(file, _with_hints(file, loaded)) for file, loaded in results]
    if as_json:
        _print_json(results, skipped, show=show)
    else:
        _print_people(results, skipped, show=show)
    sys.exit(0 if all(loaded.valid for _, loaded in results) else 1)


def _with_hints(file: SourceFile, loaded: Loaded) -> Loaded:
    """Add a hint for each child path that is unknown in the folder of the playbook,
    while a similar one is there. A server may know more paths than a folder."""
    folder = folder_of(file.name)
    if loaded.playbook is None or folder is None:
        return loaded
    calls = [
        (task.at.key("path"), task.body["path"])
        for step in loaded.playbook.workflow
        for task in step.tasks
        if task.kind == "playbook" and isinstance(task.body.get("path"), str)
    ]
    if not calls:
        return loaded
    known, report = _paths_below(folder), Report()
    for at, path in calls:
        match = None if path in known or is_template(path) else nearest(path, known)
        if match is not None:
            message = f"no playbook in this folder has the path '{shorten(path)}'"
            hint = f"did you mean '{match}'?"
            report.advise("PIPE-17", "child-path", at, message, hint)
    return replace(loaded, diagnostics=(*loaded.diagnostics, *report))


@cache
def _paths_below(folder: str) -> frozenset[str]:
    """Return the paths of playbooks below a folder; of a very large one, of a part."""
    found: set[str] = set()
    for file in islice(Path(folder).rglob("*"), MAX_SEARCHED):
        with suppress(ConfigError):
            if file.suffix in SUFFIXES and file.is_file():
                found.update(paths_in(read_file(str(file)).content))
    return frozenset(found)


def _print_json(
    results: list[tuple[SourceFile, Loaded]], skipped: int, *, show: bool
) -> None:
    files: list[JSON] = []
    for file, loaded in results:
        entry: dict[str, JSON] = {
            "file": file.name.encode("utf-8", "replace").decode(),
            "valid": loaded.valid,
            "diagnostics": [asdict(found) for found in loaded.diagnostics],
        }
        if loaded.playbook is not None:
            entry["sha256"] = digest(loaded.playbook)
            if show:
                entry["canonical"] = canonical(loaded.playbook)
        files.append(entry)
    click.echo(json.dumps({"files": files, "skipped": skipped}, ensure_ascii=False))


def _print_people(
    results: list[tuple[SourceFile, Loaded]], skipped: int, *, show: bool
) -> None:
    for file, loaded in results:
        lines = file.lines if loaded.diagnostics else []
        for found in loaded.diagnostics:
            click.echo(format_diagnostic(found, file.name, lines) + "\n", err=show)
        click.echo(_summary(file, loaded), err=show)
        if show and loaded.playbook is not None:
            click.echo(to_yaml(canonical(loaded.playbook)), nl=False)
    if skipped == 1:
        click.echo("skipped 1 YAML file that is not a playbook", err=show)
    elif skipped:
        text = f"skipped {skipped} YAML files that are not playbooks"
        click.echo(text, err=show)
    if not results:
        click.echo("no playbooks found", err=True)


def _summary(file: SourceFile, loaded: Loaded) -> str:
    words, name = count_words(loaded.diagnostics), printable(file.name)
    if loaded.playbook is None:
        return f"{name}: {click.style('invalid', fg='red', bold=True)}: {words}"
    steps = len(loaded.playbook.workflow)
    size = f"{steps} step{'s' if steps != 1 else ''}"
    extra = f", {words}" if words else ""
    return f"{name}: {click.style('valid', fg='green', bold=True)}: {size}{extra}"
