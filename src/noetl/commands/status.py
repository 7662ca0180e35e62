"""``noetl status``: which parts of the cluster of this home run."""

from __future__ import annotations

import json
import sys

import click

from noetl.commands.parts import parts_of
from noetl.home import Home


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Say which parts of the cluster of this home run.

    Exit code: 0, or 3 if one of them does not.

    \b
    Example:
      noetl status
    """
    found = parts_of(Home.of())
    if as_json:
        click.echo(json.dumps(found))
    else:
        for part in found["parts"]:
            click.echo(f"{part['name']:<11} {_words(part)}")
        if not found["ready"]:
            click.echo("\nnoetl up starts what is missing")
    sys.exit(0 if found["ready"] else 3)


def _words(part: dict[str, str | int | None]) -> str:
    words = str(part["state"])
    if part["place"] is not None:
        words += f": {part['place']}"
    return words if part["pid"] is None else f"{words} (process {part['pid']})"
