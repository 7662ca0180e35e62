"""``noetl list``: the executions of this home, newest first."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import get_args

import click
import msgspec

from noetl.client import Client
from noetl.commands.live.words import waiting_words
from noetl.commands.logs import find_execution, list_executions, list_waiting
from noetl.commands.printing import origin_words, queue_words
from noetl.commands.remote import whole_id
from noetl.commands.targets import named_server, own_cluster, server_option
from noetl.dsl.node import printable
from noetl.engine.ids import EXECUTION_ID
from noetl.engine.state import ExecutionStatus
from noetl.engine.waits import WaitLine
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.ports import Summary, summary_document

_COLOURS = {
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "quarantined": "red",
}
_STATUSES = click.Choice(get_args(ExecutionStatus))
_LIMIT = click.IntRange(1, 1000)


@click.command("list")
@click.option("--status", type=_STATUSES, help="Only those with this status.")
@click.option(
    "--limit", type=_LIMIT, default=20, show_default=True, help="At most so many."
)
@click.option("--cursor", metavar="ID", help="Go on after this one.")
@click.option("--waiting", is_flag=True, help="Only those that wait, and for what.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    status: ExecutionStatus | None,
    limit: int,
    cursor: str | None,
    waiting: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """List executions, the newest first.

    If there are more, the document's cursor is what --cursor takes for the next page.

    \b
    Examples:
      noetl list --limit 5
      noetl list --status failed --json
      noetl list --waiting
    """
    client = named_server(server) or own_cluster()
    if cursor is not None and re.fullmatch(EXECUTION_ID, cursor) is None:
        cursor = _whole(client, cursor)
    if waiting:
        if status is not None:
            raise click.UsageError("--status contradicts --waiting")
        _list_waiting(client, limit, cursor, as_json=as_json)
        return
    if client is None:
        more = asyncio.run(list_executions(Home.of(), limit + 1, status, cursor))
        found = more[:limit]
        following = found[-1].execution_id if len(more) > limit else None
    else:
        query = {"status": status, "limit": limit, "cursor": cursor}
        page = client.get("/api/executions", **query)
        found = msgspec.convert(page["executions"], list[Summary])
        following = page["cursor"]
    if as_json:
        executions = [summary_document(each) for each in found]
        document = {"executions": executions, "cursor": following}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if not found:
        _say_none(filtered=status is not None or cursor is not None)
    for each in found:
        click.echo(_line(each))
    _say_more(f" --status {status}" if status is not None else "", following)


def _list_waiting(
    client: Client | None, limit: int, cursor: str | None, *, as_json: bool
) -> None:
    if client is None:
        lines, following = asyncio.run(list_waiting(Home.of(), limit, cursor))
    else:
        query = {"waiting": "true", "limit": limit, "cursor": cursor}
        page = client.get("/api/executions", **query)
        lines, following = page["executions"], page["cursor"]
    if as_json:
        document = {"executions": lines, "cursor": following}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if not lines:
        click.echo("nothing waits")
    now = time.time()
    for line in lines:
        click.echo(_line(msgspec.convert(line, Summary)))
        for wait in msgspec.convert(line["waits"], list[WaitLine]):
            click.echo(f"  {waiting_words(wait, now)}")
    _say_more(" --waiting", following)


def _say_more(same: str, following: str | None) -> None:
    if following is not None:
        more_of_it = f"noetl list{same} --cursor {following}"
        click.echo(f"there are more: {more_of_it}", err=True)


def _whole(client: Client | None, cursor: str) -> str:
    """What is no whole id may be the prefix of one. Raises ``ConfigError``."""
    try:
        if client is not None:
            return whole_id(client, cursor)
        return asyncio.run(find_execution(Home.of(), cursor)).execution_id
    except ConfigError as error:
        hint = "it is the id of the last execution on the page before"
        raise ConfigError(f"--cursor: {error}; {hint}") from None


def _say_none(*, filtered: bool) -> None:
    if filtered:
        click.echo("no such executions")
    else:
        click.echo("no executions yet; start one with: noetl run playbook.yaml")


def _line(each: Summary) -> str:
    status = click.style(f"{each.status:<11}", fg=_COLOURS.get(each.status))
    name = each.playbook.get("path") or each.playbook.get("name")
    problem = f"  {printable(each.error['message'])}" if each.error else ""
    if each.forked_from is not None:
        name = f"{name}  (forked from {origin_words(each.forked_from)})"
    if each.concurrency is not None and each.concurrency["queued"]:
        name = f"{name}  ({queue_words(each.concurrency)})"
    return f"{each.execution_id}  {status} {each.started_at}  {name}{problem}"
