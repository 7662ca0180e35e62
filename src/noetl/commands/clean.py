"""``noetl clean``: remove old executions and unreferenced results."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

import click

from noetl.commands.local.retention import Removal, collect
from noetl.commands.output.diagnostics import bytes_of, count_of
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_plugins
from noetl.dsl.times import parse_duration
from noetl.local.home import Home
from noetl.ports import Blob
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value.strip().replace(".", "").isdigit():  # days? removal cannot be undone
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
    help="Remove executions that ended longer ago than this, such as 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings, older_than: float | None, dry_run: bool, as_json: bool
) -> None:
    """Remove unreferenced results, and with --older-than old executions.

    A result that no log references was left by a task that never ended, or by an
    execution that was removed. It is removed after a day. With --older-than, executions
    that ended longer ago are removed with their children. Running and waiting
    executions stay, and so does every result that a remaining log references.

    \b
    Examples:
      noetl clean --dry-run
      noetl clean --older-than 30d
    """
    home = Home.of(settings)
    removal = asyncio.run(
        collect(
            home,
            make_blobs(home, read_plugins(settings), settings),
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
        click.echo(f"kept {many}: another process is using their log", err=True)


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
