"""``noetl bench``: how fast NoETL is here, beside what the machine allows."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.errors import ConfigError

if TYPE_CHECKING:
    from noetl.bench.measures import Figure
    from noetl.bench.playbooks import Body


@click.command("bench")
@click.option("--quick", is_flag=True, help="A tenth of the work, once: a rough idea.")
@click.option(
    "--body",
    type=click.Choice(["python", "noop", "both"]),
    default="both",
    help="What a step does: python code in a process, or nothing but a template.",
)
@click.option(
    "--folder",
    metavar="FOLDER",
    help="Where to write: the disk that is measured (the folder for temporary files).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(quick: bool, body: str, folder: str | None, as_json: bool) -> None:
    """Measure NoETL on this machine: steps, iterations and executions.

    The engine works in this process, on a SQLite log of its own that is removed at the
    end; every commit is on the disk before it counts. Beside each figure is what the
    disk allowed in the same minute. Nothing under the home is touched.

    \b
    Examples:
      noetl bench --quick
      noetl bench --body noop --folder /var/lib/noetl
    """
    from noetl.bench.measures import QUICK, WHOLE, measure

    bodies: list[Body] = ["python", "noop"]
    found: dict[str, object] = {}

    def tell(what: str) -> None:
        if sys.stderr.isatty():
            click.echo(f"  {what} …", err=True)

    try:
        place = tempfile.TemporaryDirectory(dir=folder, prefix="noetl-bench-")
    except OSError as error:
        raise ConfigError(f"--folder: {error.strerror}: {folder}") from None
    with place as name:
        for each in bodies:
            if body not in (each, "both"):
                continue
            size = QUICK if quick else WHOLE
            figures = asyncio.run(measure(Path(name), each, size, tell))
            if not as_json:
                _show(each, figures)
            found[each] = msgspec.to_builtins(figures)
    if as_json:
        click.echo(json.dumps(found))


def _show(body: str, figures: Sequence[Figure]) -> None:
    click.echo(f"steps of kind {body}")
    for each in figures:
        value = f"{each.value:,.2f}" if each.value < 100 else f"{each.value:,.0f}"
        limit = f"  (here: {each.limit})" if each.limit else ""
        click.echo(f"  {each.name:<20} {value:>9} {each.unit}{limit}")
