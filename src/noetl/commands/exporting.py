"""Events as files for other programs: JSON lines, or Parquet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import BinaryIO

import click

from noetl.adapters.analytics.lines import event_lines
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.commands.logs import each_log, find_execution, reading
from noetl.commands.printing import count_of
from noetl.commands.writing import check_target, replacing, writing
from noetl.errors import ConfigError
from noetl.home import Home

FORMATS = ("parquet", "jsonl")


async def export_events(home: Home, execution: str, form: str, file: str) -> None:
    """Write the events of one execution, or of ``all``."""
    check_export(form, file)
    if form == "parquet":
        count = await _write_parquet(home, execution, file)
    else:
        with writing(file) as stream:
            count = await _write_lines(home, execution, stream)
    if file != "-":
        click.echo(f"{count_of(count, 'event')} written to {file}", err=True)


def check_export(form: str, file: str) -> None:
    """Before anything is read. Raises ``ConfigError``."""
    if form == "parquet" and file == "-":
        raise ConfigError("--export parquet -: name a file; only jsonl can be streamed")
    check_target(f"--export {form}", file)


async def _sources(
    home: Home, execution: str
) -> AsyncIterator[tuple[SqliteStore, str | None]]:
    """The logs to read, and which execution of it; None: all."""
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
    from noetl.adapters.analytics.parquet import write_parquet
    from noetl.adapters.analytics.warehouse import Warehouse

    home.make()
    with replacing(file) as part, Warehouse(home.folder) as warehouse:
        async for store, execution_id in _sources(home, execution):
            await warehouse.add(store, execution_id, events=True)
        return write_parquet(warehouse, part, file)
