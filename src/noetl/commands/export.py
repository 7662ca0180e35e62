"""``noetl export``: send executions of this home to OpenTelemetry or ClickHouse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence

import click

from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.commands.local.logs import each_log, find_execution, reading
from noetl.commands.settings import pass_settings
from noetl.config import CLICKHOUSE_URL, OTLP_ENDPOINT, Settings
from noetl.errors import ConfigError, Unreachable
from noetl.local.home import Home
from noetl.ports import Export, ExportFailed, Summary
from noetl.service.telemetry.exports import BATCH, StoredExecution
from noetl.types import JSON

_TARGETS = {"otlp": OTLP_ENDPOINT, "clickhouse": CLICKHOUSE_URL}
_PAGE = 500


@click.command("export")
@click.argument("executions", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that have finished.")
@click.option(
    "--to",
    "target",
    type=click.Choice(tuple(_TARGETS)),
    help="Only to this one of the configured receivers.",
)
@click.option(
    "--schema", is_flag=True, help="Print the statements for ClickHouse's table."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    executions: tuple[str, ...],
    everything: bool,
    target: str | None,
    schema: bool,
    as_json: bool,
) -> None:
    """Send executions of this home to an OpenTelemetry collector or to ClickHouse. The
    start or end of ID is enough, and `last` is the newest execution.

    The receivers are the settings otlp_endpoint and clickhouse_url. An execution that
    is sent again changes nothing there. A server with these settings sends what ends
    on it; use this command for executions of noetl run, and for earlier ones. Exit
    code: 0, 2 if nothing is configured or found, 3 if a receiver cannot be reached or
    refuses something.

    \b
    Examples:
      noetl export last
      noetl export --all --to otlp
      noetl export --schema | clickhouse-client
    """
    if schema:
        from noetl.adapters.exports.clickhouse import schema as read_schema

        click.echo(read_schema(), nl=False)
        return
    if everything == bool(executions):
        raise click.UsageError("name executions, or use --all")
    _check(settings, target)
    sent = asyncio.run(_send(settings, executions, target))
    if as_json:
        click.echo(json.dumps({"exports": sent}))
        return
    for each in sent:
        count = f"{each['executions']:,} executions, {each['events']:,} events"
        click.echo(f"{each['export']}: {count}")


def _check(settings: Settings, target: str | None) -> None:
    wanted = _TARGETS if target is None else {target: _TARGETS[target]}
    if all(settings[each] is None for each in wanted.values()):
        names = " or ".join(each.variable for each in wanted.values())
        raise ConfigError(f"there is no receiver to export to: set {names}")


async def _send(
    settings: Settings, executions: Sequence[str], target: str | None
) -> list[dict[str, JSON]]:
    from noetl.wiring.exports import make_exports

    home, sent = Home.of(settings), []
    exports = [each for each in make_exports(settings) if target in (None, each.name)]
    try:
        for export in exports:
            count = events = 0
            async for batch in _batches(home, executions):
                events += await _take(export, batch)
                count += len(batch)
            done = {"export": export.name, "executions": count, "events": events}
            sent.append(done)
    finally:
        for export in exports:
            await export.close()
    return sent


async def _take(export: Export, batch: Sequence[StoredExecution]) -> int:
    try:
        return await export.take(batch)
    except ExportFailed as error:
        raise Unreachable(str(error)) from None


async def _batches(
    home: Home, executions: Sequence[str]
) -> AsyncIterator[Sequence[StoredExecution]]:
    """Yield the named executions, or all that have finished; their log is open until
    the next batch."""
    logs = TaskLogFiles(home.task_logs)
    for wanted in executions:
        place = await find_execution(home, wanted)
        async with reading(place.log) as store:
            summary = await store.summary(place.execution_id)
            yield [StoredExecution(summary, store, logs)]
    if executions:
        return
    async for store in each_log(home):
        cursor = None
        while page := await store.find(before=cursor, limit=_PAGE):
            cursor = page[-1].execution_id
            for part in _parts([each for each in page if each.finished_at]):
                yield [StoredExecution(each, store, logs) for each in part]


def _parts(found: Sequence[Summary]) -> Iterator[Sequence[Summary]]:
    for start in range(0, len(found), BATCH):
        yield found[start : start + BATCH]
