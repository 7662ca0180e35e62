"""``noetl sql``: questions to the log, in SQL."""

from __future__ import annotations

import asyncio
import csv
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click
import msgspec

from noetl.adapters.analytics.tables import TABLES
from noetl.adapters.analytics.warehouse import Warehouse, require_duckdb
from noetl.commands.logs import each_log, find_execution, reading
from noetl.commands.mirror import NEWEST, mirrored
from noetl.commands.printing import count_of
from noetl.commands.reading import read_file
from noetl.commands.tabulating import plain_text, tabulate
from noetl.commands.targets import named_server, own_cluster, server_option
from noetl.home import Home
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.adapters.analytics.query import Answer

SHOWN = 1_000
"""Rows of a table for people: their columns are measured before they are printed."""


@click.command("sql")
@click.argument("query", metavar="SQL")
@click.option(
    "--execution",
    "executions",
    multiple=True,
    metavar="ID",
    help="Only of this one; may be given several times.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document per row.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated, with a header.")
def command(
    query: str,
    executions: tuple[str, ...],
    server: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Ask the log in SQL: executions, events, results.

    SQL is one SELECT in DuckDB's dialect, or - for standard input. It sees the three
    tables as they are at this moment, in all logs of the home, whether something runs
    or not; it changes nothing and reads no other file. `describe events` shows the
    columns. payload, result and error are JSON: payload->>'$.on'. Of a server, the
    executions that --execution names are copied first, or else the newest 100.

    \b
    Examples:
      noetl sql "select status, count(*) from executions group by all"
      noetl sql "from results where status = 'failed'" --json
    """
    if as_json and as_csv:
        raise click.UsageError("--json contradicts --csv")
    require_duckdb()
    from noetl.adapters.analytics.query import ask, check

    if query == "-":
        query = read_file("-").content.decode("utf-8", "replace")
    if not query.strip():
        raise click.UsageError(f"ask something; the tables are {', '.join(TABLES)}")
    check(query)
    home = Home.of()
    home.make()
    try:
        with Warehouse(home.folder) as warehouse:
            asyncio.run(_fill(warehouse, query, executions, server))
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
    warehouse: Warehouse, query: str, executions: Sequence[str], server: str | None
) -> None:
    """What is not asked for need not be copied."""
    from noetl.adapters.analytics.query import needs_events, needs_results

    events = needs_events(query)
    client = named_server(server) or own_cluster()
    if client is not None:
        async with mirrored(client, executions) as home:
            async for store in each_log(home):
                await warehouse.add(store, events=events)
        if not executions:
            text = f"the newest {NEWEST} executions of {client.url}, at most"
            click.echo(f"{text}; others with --execution ID", err=True)
    elif executions:
        for each in dict.fromkeys(executions):
            place = await find_execution(Home.of(), each)
            async with reading(place.log) as store:
                await warehouse.add(store, place.execution_id, events=events)
    else:
        async for store in each_log(Home.of()):
            await warehouse.add(store, events=events)
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
    shown = list(_first(rows, SHOWN))
    for line in tabulate(answer.columns, shown):
        click.echo(line)
    if next(rows, None) is not None:
        text = f"the first {SHOWN:,} rows; --json and --csv print them all"
        click.echo(text, err=True)
    else:
        click.echo(count_of(len(shown), "row"), err=True)


def _first(rows: Iterator[list[JSON]], most: int) -> Iterator[list[JSON]]:
    """Not ``islice``, which would take one more than it gives."""
    for _ in range(most):
        row = next(rows, None)
        if row is None:
            return
        yield row
