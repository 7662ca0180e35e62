"""``noetl archive``: list what a server has archived, and restore it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from noetl.adapters.analytics.duckdb_copy import require_duckdb
from noetl.adapters.archive.places import open_place
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.adapters.tools.duckdb.temp_dirs import Bench
from noetl.commands.local.logs import each_log
from noetl.commands.output.diagnostics import count_of
from noetl.commands.settings import pass_settings
from noetl.config import ARCHIVE_URL, Settings, read_plugins
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.ports import summary_document
from noetl.ports.retention import LogRow
from noetl.service.retention.archived import Archived, ArchiveReader
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs

LISTED = 100


@contextmanager
def opened(settings: Settings) -> Iterator[ArchiveReader]:
    """Open the archive of the settings. Raises ``ConfigError``."""
    url = settings[ARCHIVE_URL]
    if url is None:
        raise ConfigError(
            "no archive is set: NOETL_ARCHIVE_URL names the one of the server, such as "
            "s3://bucket/folder"
        )
    require_duckdb()
    home = Home.of(settings)
    home.make()
    bench = Bench(str(home.folder))
    try:
        scratch = bench.scratch()
        scratch.make()
        yield ArchiveReader(open_place(url), scratch.path)
    finally:
        bench.close()


@click.group("archive")
def command() -> None:
    """List what a server has archived before it removed it, and restore it.

    The archive is that of NOETL_ARCHIVE_URL. `noetl verify --archive` proves that it is
    whole, `noetl sql --archive` queries it. Each command prints one JSON document with
    --json.

    \b
    Examples:
      noetl archive list
      noetl archive restore 0192f3a1
    """


@command.command("list")
@click.option(
    "--limit", type=click.IntRange(1), default=LISTED, show_default=True, metavar="N"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def list_archived(settings: Settings, limit: int, as_json: bool) -> None:
    """List archived executions, the oldest first.

    \b
    Example:
      noetl archive list --limit 20
    """
    with opened(settings) as archive:
        found = asyncio.run(_first(archive, limit))
    if as_json:
        click.echo(json.dumps({"executions": [_line(each) for each in found]}))
        return
    for each in found:
        summary = each.execution.summary
        path = summary.playbook.get("path") or summary.playbook.get("name") or "-"
        ended = f"{summary.status:<9}  {summary.finished_at}"
        click.echo(f"{summary.execution_id}  {ended}  {path}")
    click.echo(count_of(len(found), "execution"), err=True)


async def _first(archive: ArchiveReader, limit: int) -> list[Archived]:
    found: list[Archived] = []
    async for each in archive.each():
        found.append(each)
        if len(found) == limit:
            break
    return found


def _line(found: Archived) -> dict[str, JSON]:
    return {
        **summary_document(found.execution.summary),
        "events": found.execution.events,
        "batch": found.manifest.name,
        "archived_at": found.manifest.written_at,
    }


@command.command("restore")
@click.argument("execution", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def restore(settings: Settings, execution: str, as_json: bool) -> None:
    """Restore an execution into this home, to look at it.

    Its log is the same, byte by byte, and checked before. It comes with its values and
    what its tasks printed, into a log of its own: `noetl show`, `noetl events` and all
    other readers find it. A server does not get it back. Exit code: 0, or 2 if the
    archive has no such execution or it is here already, 1 if its copy is damaged.

    \b
    Example:
      noetl archive restore 0192f3a1-7b2c-7def-8012-3456789abcde
    """
    with opened(settings) as archive:
        name, events = asyncio.run(_restore(settings, archive, execution))
    if as_json:
        click.echo(json.dumps({"execution_id": name, "events": events}))
    else:
        click.echo(
            f"restored {name} with {count_of(events, 'event')}: noetl show {name}"
        )


async def _restore(
    settings: Settings, archive: ArchiveReader, wanted: str
) -> tuple[str, int]:
    found = await archive.find(wanted)
    entry, home = found.execution, Home.of(settings)
    name = entry.execution_id
    async for log in each_log(home):
        if await log.length(name):
            raise ConfigError(f"execution {name} is in {log.path} already")
    rows = [LogRow(*row) for row in await archive.rows(found)]
    chunks = await archive.task_log(found)
    blobs = make_blobs(home, read_plugins(settings), settings)
    os.makedirs(blobs.drafts, mode=0o700, exist_ok=True)
    for key in entry.values:
        draft = os.path.join(blobs.drafts, f"restored-{key}")
        if await archive.value(key, draft):
            await blobs.adopt(draft)
        elif key not in entry.missing:
            raise ConfigError(f"the value {key} is missing in the archive")
    logs = TaskLogFiles(home.task_logs)
    await logs.append(chunks)
    logs.close()
    store = SqliteStore.open(home.folder / "log-restored.db")
    try:
        await store.retention.restore(entry.summary, rows, entry.request_key)
    finally:
        await store.close()
    return name, entry.events


def verify_archive(settings: Settings, *, as_json: bool) -> bool:
    """Check the archive and print the verdict; return whether it is whole."""
    with opened(settings) as archive:
        verdict = asyncio.run(archive.verify())
    if as_json:
        intact = {"intact": not verdict.faults}
        click.echo(json.dumps({**intact, **msgspec.to_builtins(verdict)}))
        return not verdict.faults
    for fault in verdict.faults:
        about = f" ({fault.execution_id})" if fault.execution_id else ""
        click.echo(f"{fault.path}{about}: {fault.message}")
    for path in verdict.incomplete:
        click.echo(f"{path}: no manifest names it", err=True)
    word = "intact" if not verdict.faults else count_of(len(verdict.faults), "fault")
    batches = "batch" if verdict.batches == 1 else "batches"
    click.echo(
        f"{verdict.batches} {batches}, {count_of(verdict.executions, 'execution')}, "
        f"{count_of(verdict.events, 'event')}, {count_of(verdict.values, 'value')}: "
        f"{word}"
    )
    return not verdict.faults
