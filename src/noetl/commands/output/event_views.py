"""Views of a log: other dialects, and selection by ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import BinaryIO

import click

from noetl.adapters.analytics.tables import event_lines
from noetl.commands.files.atomic_write import check_target, replacing, writing
from noetl.commands.local.logs import each_log, find_execution, read_pages, reading
from noetl.commands.output.diagnostics import count_of
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of
from noetl.config import Settings
from noetl.dialects.views import make_view
from noetl.dialects.views.formal import IDS, NAMED, fits
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.ports import LocalStore
from noetl.types import JSON

PLAIN = "001"


def read_where(asked: Iterable[str]) -> dict[str, str]:
    """Parse ``ID=VALUE`` pairs. Raises ``click.UsageError``."""
    wanted: dict[str, str] = {}
    for each in asked:
        name, sign, value = each.partition("=")
        if not sign or not value:
            raise click.UsageError(f"--where takes ID=VALUE, found '{each}'")
        if name not in (*IDS, *NAMED):
            hint = did_you_mean(name, (*IDS, *NAMED)) or f"known: {', '.join(IDS)}"
            raise click.UsageError(f"unknown id '{name}'; {hint}")
        wanted[name] = value
    return wanted


def print_view(
    settings: Settings,
    execution: str,
    server: str | None,
    dialect: str,
    wanted: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    client = asyncio.run(server_of(settings, server, execution))
    if client is None:
        asyncio.run(_print(settings, execution, dialect, wanted, as_json=as_json))
        return
    execution_id = executions.whole_id(client, execution)
    query = {**wanted, "dialect": dialect}
    _echo(executions.events_of(client, execution_id, **query), as_json=as_json)


async def _print(
    settings: Settings,
    execution: str,
    dialect: str,
    wanted: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    view = make_view(dialect)
    async for page in read_pages(await find_execution(Home.of(settings), execution)):
        for event in page:
            documents = list(view.take(event))
            found = (each for each in documents if fits(event, each, wanted))
            _echo(found, as_json=as_json)


def _echo(documents: Iterable[dict[str, JSON]], *, as_json: bool) -> None:
    for document in documents:
        if as_json:
            click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
        else:
            click.echo(_line(document))


def _line(document: dict[str, JSON]) -> str:
    """Format position, time, name and place; other members are in the JSON."""
    called = document.get("event_type") or document["name"]
    payload = document.get("payload") or document.get("data") or {}
    task = document.get("task_label") or payload.get("task")
    attempt = document.get("attempt")
    where = [document.get("step"), task, f"#{attempt}" if attempt else None]
    text = " ".join([str(called), *(str(each) for each in where if each)])
    return f"{document['seq']:>6} {document['timestamp']} {text}"


FORMATS = ("parquet", "jsonl")


async def export_events(home: Home, execution: str, form: str, file: str) -> None:
    """Write the events of one execution, or of ``all``, to ``file``."""
    check_export(form, file)
    if form == "parquet":
        count = await _write_parquet(home, execution, file)
    else:
        with writing(file) as stream:
            count = await _write_lines(home, execution, stream)
    if file != "-":
        click.echo(f"{count_of(count, 'event')} written to {file}", err=True)


def check_export(form: str, file: str) -> None:
    """Check the target before reading. Raises ``ConfigError``."""
    if form == "parquet" and file == "-":
        raise ConfigError("--export parquet -: name a file; only jsonl can be streamed")
    check_target(f"--export {form}", file)


async def _sources(
    home: Home, execution: str
) -> AsyncIterator[tuple[LocalStore, str | None]]:
    """Yield the logs to read, each with one execution id, or None for all."""
    if execution != "all":
        place = await find_execution(home, execution)
        async with reading(place.log) as store:
            yield store, place.execution_id
        return
    async for store in each_log(home):
        yield store, None


async def _write_lines(home: Home, execution: str, stream: BinaryIO) -> int:
    count = 0
    async for store, execution_id in _sources(home, execution):
        after = 0
        while heads := await store.heads(after=after):
            for head in heads:
                found = head.summary.execution_id
                if execution_id in (None, found):
                    async for lines in event_lines(store, found, head.last_seq):
                        stream.write(lines)
                    count += head.last_seq
            after = heads[-1].number
    return count


async def _write_parquet(home: Home, execution: str, file: str) -> int:
    from noetl.adapters.analytics.duckdb_copy import Warehouse, write_parquet

    home.make()
    with replacing(file) as part, Warehouse(home.folder) as warehouse:
        async for store, execution_id in _sources(home, execution):
            await warehouse.add(store, execution_id, events=True)
        return write_parquet(warehouse, part, file)
