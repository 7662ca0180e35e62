"""``noetl bench``: the throughput of NoETL and of the disk on this machine."""

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
    from noetl.bench import Body, Figure


@click.command("bench")
@click.option("--quick", is_flag=True, help="Do a tenth of the work: a rough estimate.")
@click.option(
    "--body",
    type=click.Choice(["python", "noop", "both"]),
    default="both",
    help="The work of a step: python code in a process, or only a template.",
)
@click.option(
    "--folder",
    metavar="FOLDER",
    help="The folder to write to, on the disk to measure (default: temporary files).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(quick: bool, body: str, folder: str | None, as_json: bool) -> None:
    """Measure NoETL on this machine: steps, iterations and executions.

    The engine runs in this process, on its own SQLite log, which is removed at the end.
    Every commit is synced to the disk before it counts. Each figure is shown with the
    rate of the disk at the same time. Nothing under the home is changed.

    \b
    Examples:
      noetl bench --quick
      noetl bench --body noop --folder /var/lib/noetl
    """
    from noetl.bench import QUICK, WHOLE, measure

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
