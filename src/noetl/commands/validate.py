"""``noetl validate``: check playbooks and show how to fix them."""

from __future__ import annotations

import json
import sys

import click
from msgspec.structs import asdict

from noetl.adapters.processes.code_inspection import inspect_code
from noetl.commands.files.playbook_files import SourceFile, find_playbooks
from noetl.commands.output.diagnostics import count_words, format_diagnostic
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.canonical import canonical, digest, to_yaml
from noetl.dsl.load import Loaded
from noetl.dsl.node import printable
from noetl.types import JSON


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
    if as_json:
        _print_json(results, skipped, show=show)
    else:
        _print_people(results, skipped, show=show)
    sys.exit(0 if all(loaded.valid for _, loaded in results) else 1)


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
    if skipped:
        noun = "file is not a playbook" if skipped == 1 else "files are not playbooks"
        click.echo(f"{skipped} YAML {noun}: skipped", err=show)
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
