"""``noetl migrate``: rewrite a playbook of an older dialect."""

from __future__ import annotations

import sys
from typing import NoReturn

import click
import msgspec

from noetl.commands.files.atomic_write import writing
from noetl.commands.files.playbook_files import SourceFile, read_file
from noetl.commands.output.diagnostics import count_of, format_diagnostic
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects.migration import Migrated, migrate, spoken


@click.command("migrate")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Change the file itself.")
@click.option("--check", is_flag=True, help="Only report whether a rewrite is needed.")
@click.option(
    "--extensions", metavar="NAMES", help="Dialects: legacy,classic (detected)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@pass_settings
def command(
    settings: Settings,
    file: str,
    write: bool,
    check: bool,
    extensions: str | None,
    as_json: bool,
) -> None:
    """Rewrite a playbook of an older dialect into the current language.

    FILE is a playbook, or - for standard input. Comments and layout stay where nothing
    is changed; comments of rewritten parts are put above their step. The new text is
    printed, or written to the file; it has the same meaning as the old one. Forms
    without an exact equivalent stay, and are listed with a replacement to write by
    hand. When no form of a dialect is left, the playbook no longer names its extension.

    The dialect is the one that --extensions, the settings or the playbook name; else it
    is detected from the forms in the playbook.

    Exit code: 0 done, 1 with --check if a rewrite is needed, 2 not a valid playbook.

    \b
    Examples:
      noetl migrate old.yaml > new.yaml
      noetl migrate old.yaml --write
      noetl migrate old.yaml --check
    """
    if write and (check or file == "-"):
        raise click.UsageError("--write needs a file, and contradicts --check")
    source = read_file(file)
    given, kinds = read_extensions(extensions, settings), read_plugins(settings).kinds
    text = source.content.decode("utf-8-sig", "replace")
    found = migrate(text, kinds, spoken(text, kinds, given))
    if found.text is None:
        _refuse(source, found)
    changed = found.text != text
    if as_json:
        left = [msgspec.to_builtins(each) for each in found.left]
        document = {"file": source.name, "changed": changed, "left": left}
        document["text"] = found.text
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    elif not check and not write:
        click.echo(found.text, nl=False)  # before what stderr says
    if write and changed:
        with writing(file) as stream:
            stream.write(found.text.encode())
    if not as_json:
        done = "to be rewritten" if check else "rewritten"
        _tell(source.name, found, done if changed else "nothing to rewrite")
    if check and (changed or found.left):
        sys.exit(1)


def _tell(name: str, found: Migrated, done: str) -> None:
    """Print the changes to standard error, beside the new text."""
    lines = (found.text or "").splitlines()
    for each in found.left:
        click.echo(format_diagnostic(each, name, lines) + "\n", err=True)
    left = f"; {count_of(len(found.left), 'form')} left to do by hand"
    click.echo(f"{name}: {done}{left if found.left else ''}", err=True)


def _refuse(source: SourceFile, found: Migrated) -> NoReturn:
    for each in found.left:
        click.echo(format_diagnostic(each, source.name, source.lines) + "\n", err=True)
    click.echo(f"{source.name}: not a valid playbook in any dialect", err=True)
    sys.exit(2)
