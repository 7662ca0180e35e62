"""``noetl sql``: SQL queries on the log."""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.adapters.analytics.duckdb_copy import Warehouse, require_duckdb
from noetl.adapters.analytics.tables import TABLES
from noetl.commands.files.playbook_files import read_file
from noetl.commands.local.logs import each_log, find_execution, reading
from noetl.commands.output.diagnostics import count_of
from noetl.commands.remote.choose_server import named_server, own_cluster, server_option
from noetl.commands.remote.download import MAX_COPIED, mirrored
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.dsl.node import printable
from noetl.local.home import Home
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.adapters.analytics.query import Answer


MAX_WIDTH = 60
MIN_WIDTH = 8
_GAP = "  "


def tabulate(columns: Sequence[str], rows: Sequence[Sequence[JSON]]) -> list[str]:
    """Format the lines of a table; numbers are aligned to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    titles = [printable(name) for name in columns]
    widths = [
        min(MAX_WIDTH, max(map(len, (title, *(row[at] for row in cells)))))
        for at, title in enumerate(titles)
    ]
    widths = _fitted(widths)
    right = [
        bool(rows) and all(_is_number(row[at]) for row in rows)
        for at in range(len(titles))
    ]

    def line(parts: Sequence[str]) -> str:
        fitted = (
            part.rjust(width) if is_right else _cut(part, width).ljust(width)
            for part, width, is_right in zip(parts, widths, right, strict=True)
        )
        return _GAP.join(fitted).rstrip()

    rule = _GAP.join("─" * width for width in widths)
    return [line(titles), rule, *map(line, cells)]


def plain_text(value: JSON) -> str:
    """Convert a value to text: strings unchanged, empty for null, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _cell(value: JSON) -> str:
    words = plain_text(value)
    return printable(_cut(" ".join(words.split()), MAX_WIDTH))


def _is_number(value: JSON) -> bool:
    return value is None or (isinstance(value, int | float) and value is not True)


def _fitted(widths: list[int]) -> list[int]:
    """Narrow the widest columns until the table fits into the terminal."""
    if not sys.stdout.isatty():
        return widths
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > MIN_WIDTH:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"


MAX_ROWS = 1_000
"""Maximum rows of a text table, which is measured before it is printed."""


@click.command("sql")
@click.argument("query", metavar="SQL")
@click.option(
    "--execution",
    "executions",
    multiple=True,
    metavar="ID",
    help="Only this execution; may be given several times.",
)
@click.option(
    "--archive",
    is_flag=True,
    help="Read the archive of NOETL_ARCHIVE_URL instead.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document per row.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated, with a header.")
@pass_settings
def command(
    settings: Settings,
    query: str,
    executions: tuple[str, ...],
    archive: bool,
    server: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Query the log in SQL: executions, events, results.

    SQL is one SELECT in DuckDB's dialect, or - for standard input. It reads the three
    tables as they are now, in all logs of the home, also while executions are running;
    it changes nothing and reads no other file. `describe events` shows the columns.
    payload, result and error are JSON: payload->>'$.on'. With a server, the executions
    of --execution are copied first, or else the newest 100. With --archive it reads
    what servers have archived, all of it.

    \b
    Examples:
      noetl sql "select status, count(*) from executions group by all"
      noetl sql "from results where status = 'failed'" --json
    """
    if as_json and as_csv:
        raise click.UsageError("--json contradicts --csv")
    if archive and (executions or server):
        raise click.UsageError("--archive contradicts --execution and --server")
    require_duckdb()
    from noetl.adapters.analytics.query import ask, check

    if query == "-":
        query = read_file("-").content.decode("utf-8", "replace")
    if not query.strip():
        raise click.UsageError(f"empty query; the tables are {', '.join(TABLES)}")
    check(query)
    home = Home.of(settings)
    home.make()
    try:
        with Warehouse(home.folder) as warehouse:
            if archive:
                asyncio.run(_fill_archived(settings, warehouse, query))
            else:
                asyncio.run(_fill(settings, warehouse, query, executions, server))
            answer = ask(warehouse, query)
            if as_json:
                _print_json(answer)
            elif as_csv:
                _print_csv(answer)
            else:
                _print_table(answer)
    except KeyboardInterrupt:
        sys.exit(130)


async def _fill(
    settings: Settings,
    warehouse: Warehouse,
    query: str,
    executions: Sequence[str],
    server: str | None,
) -> None:
    """Copy the tables that the query reads."""
    from noetl.adapters.analytics.query import needs_events, needs_results

    events = needs_events(query)
    client = named_server(settings, server) or own_cluster(settings)
    if client is not None:
        async with mirrored(client, executions) as home:
            async for store in each_log(home):
                await warehouse.add(store, events=events)
        if not executions:
            text = (
                f"at most the newest {MAX_COPIED} executions of {client.url} are read"
            )
            click.echo(f"{text}; others with --execution ID", err=True)
    elif executions:
        for each in dict.fromkeys(executions):
            place = await find_execution(Home.of(settings), each)
            async with reading(place.log) as store:
                await warehouse.add(store, place.execution_id, events=events)
    else:
        async for store in each_log(Home.of(settings)):
            await warehouse.add(store, events=events)
    warehouse.seal(results=needs_results(query))


async def _fill_archived(settings: Settings, warehouse: Warehouse, query: str) -> None:
    """Copy the tables that the query reads from the archive."""
    from noetl.adapters.analytics.query import needs_events, needs_results
    from noetl.commands.archive import opened

    names = ["executions", *(["events"] if needs_events(query) else [])]
    with opened(settings) as reader:
        for name in names:
            async for file in reader.tables(name):
                warehouse.add_parquet(name, file)
    warehouse.seal(results=needs_results(query))


def _print_json(answer: Answer) -> None:
    encode = msgspec.json.Encoder().encode
    for batch in answer.batches:
        lines = (encode(dict(zip(answer.columns, row, strict=True))) for row in batch)
        click.echo(b"\n".join(lines))


def _print_csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.columns)
    for batch in answer.batches:
        writer.writerows([plain_text(value) for value in row] for row in batch)


def _print_table(answer: Answer) -> None:
    rows = chain.from_iterable(answer.batches)
    shown = list(_first(rows, MAX_ROWS))
    for line in tabulate(answer.columns, shown):
        click.echo(line)
    if next(rows, None) is not None:
        text = f"the first {MAX_ROWS:,} rows; --json and --csv print them all"
        click.echo(text, err=True)
    else:
        click.echo(count_of(len(shown), "row"), err=True)


def _first(rows: Iterator[list[JSON]], most: int) -> Iterator[list[JSON]]:
    """Yield the first ``most`` rows; ``islice`` would read one row more."""
    for _ in range(most):
        row = next(rows, None)
        if row is None:
            return
        yield row
