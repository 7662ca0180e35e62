"""``noetl status``: services of the local cluster."""

from __future__ import annotations

import json
import sys

import click

from noetl.commands.local.services import parts_of
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.local.home import Home


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(settings: Settings, as_json: bool) -> None:
    """Show which services of the local cluster are running.

    Exit code: 0, or 3 if one of them is not running.

    \b
    Example:
      noetl status
    """
    found = parts_of(Home.of(settings), settings)
    if as_json:
        click.echo(json.dumps(found))
    else:
        for part in found["parts"]:
            click.echo(f"{part['name']:<11} {_words(part)}")
        if not found["ready"]:
            click.echo("\nstart the missing services with: noetl up")
    sys.exit(0 if found["ready"] else 3)


def _words(part: dict[str, str | int | None]) -> str:
    words = str(part["state"])
    if part["place"] is not None:
        words += f": {part['place']}"
    return words if part["pid"] is None else f"{words} (process {part['pid']})"
