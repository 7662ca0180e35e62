"""``noetl clean``: old executions and unneeded results are removed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

import click

from noetl.commands.garbage import Removal, collect
from noetl.commands.printing import bytes_of, count_of
from noetl.config import read_plugins
from noetl.dsl.durations import parse_duration
from noetl.home import Home
from noetl.ports import Blob
from noetl.results import make_blobs
from noetl.types import JSON


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value.strip().replace(".", "").isdigit():  # days? what is removed is gone
            self.fail(f"'{value}' has no unit; write {value.strip()}d", param, ctx)
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{error}; write 30d, 12h or 90m", param, ctx)


@click.command("clean")
@click.option(
    "--older-than",
    type=Duration(),
    metavar="DURATION",
    help="Remove executions that ended so long ago, such as 30d.",
)
@click.option("--dry-run", is_flag=True, help="Remove nothing; say what would be.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(older_than: float | None, dry_run: bool, as_json: bool) -> None:
    """Remove results that no execution names, and old executions if you say so.

    A result that no log names was left by a task that never ended, or by an execution
    that was removed. It goes after a day. With --older-than, executions that ended
    before go, too, each with its children; those that run or wait stay, and so does
    every result that a log which stays names, whoever made it.

    \b
    Examples:
      noetl clean --dry-run
      noetl clean --older-than 30d
    """
    home = Home.of()
    removal = asyncio.run(
        collect(
            home,
            make_blobs(home, read_plugins()),
            time.time(),
            older_than,
            dry_run=dry_run,
        )
    )
    if as_json:
        click.echo(json.dumps(_document(removal, dry_run)))
        return
    verb = "would remove" if dry_run else "removed"
    click.echo(
        f"{verb} {count_of(len(removal.executions), 'execution')}, "
        f"{count_of(len(removal.blobs), 'result')} ({_size(removal.blobs)}) and "
        f"{count_of(len(removal.drafts), 'draft')} ({_size(removal.drafts)})"
    )
    if removal.unlisted is not None:
        click.echo(f"kept all results: {removal.unlisted}", err=True)
    if removal.busy:
        many = count_of(len(removal.busy), "execution")
        click.echo(f"kept {many}: another process is using the log", err=True)


def _size(blobs: Sequence[Blob]) -> str:
    return bytes_of(sum(blob.size for blob in blobs))


def _document(removal: Removal, dry_run: bool) -> dict[str, JSON]:
    return {
        "dry_run": dry_run,
        "executions": list(removal.executions),
        "busy": list(removal.busy),
        "results": {
            "count": len(removal.blobs),
            "bytes": sum(blob.size for blob in removal.blobs),
            "keys": sorted(blob.key for blob in removal.blobs),
        },
        "drafts": {
            "count": len(removal.drafts),
            "bytes": sum(blob.size for blob in removal.drafts),
        },
    }
