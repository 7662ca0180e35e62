"""``noetl list``: executions of a home or server, newest first."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from datetime import datetime
from typing import get_args

import click
import msgspec

from noetl.client.http import Client
from noetl.commands.local.logs import (
    find_execution,
    find_executions,
    find_interrupted,
    list_waiting,
)
from noetl.commands.output.execution_table import answer_words, print_table
from noetl.commands.output.live.rows import waiting_words
from noetl.commands.remote.choose_server import named_server, own_cluster, server_option
from noetl.commands.remote.executions import whole_id
from noetl.commands.settings import label_option, pass_settings
from noetl.config import Settings
from noetl.dsl.labels import read_labels
from noetl.dsl.times import parse_duration
from noetl.engine.ids import EXECUTION_ID
from noetl.engine.state import ExecutionStatus
from noetl.engine.times import rfc3339
from noetl.engine.waits.resume import WaitLine
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.ports import Summary, summary_document
from noetl.service.executions.filters import Filter
from noetl.types import JSON

_STATUSES = click.Choice(get_args(ExecutionStatus))
_LIMIT = click.IntRange(1, 1000)


class Since(click.ParamType[str]):
    """A time, or how long ago it was; becomes a timestamp as the log has it."""

    name = "time"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        try:
            return rfc3339(datetime.fromisoformat(value).astimezone().timestamp())
        except (ValueError, OverflowError, OSError):
            pass
        try:
            return rfc3339(time.time() - parse_duration(value))
        except (ValueError, OverflowError, OSError):
            cure = "write 2h, 7d, 2026-01-31 or 2026-01-31T08:00:00Z"
            self.fail(f"'{value}' is not a time; {cure}", param, ctx)


@click.command("list")
@click.option("--status", type=_STATUSES, help="Only executions with this status.")
@click.option("--path", help="Only of this playbook, or below a folder: sales/*.")
@click.option(
    "--since",
    type=Since(),
    metavar="TIME",
    help="Only those that began since then: 2h, 7d, 2026-01-31 (local time).",
)
@label_option("Only executions with this label.")
@click.option(
    "--limit", type=_LIMIT, default=20, show_default=True, help="The page size."
)
@click.option("--cursor", metavar="ID", help="Continue after this execution.")
@click.option("--waiting", is_flag=True, help="Only waiting executions; show why.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    status: ExecutionStatus | None,
    path: str | None,
    since: str | None,
    labels: tuple[str, ...],
    limit: int,
    cursor: str | None,
    waiting: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """List executions, the newest first.

    The ids are the last characters of the whole ids, which --json prints; every
    command takes them. Pass the printed cursor to --cursor for the next page.

    \b
    Examples:
      noetl list --limit 5
      noetl list --status failed --path 'sales/*' --since 2d
      noetl list --waiting
      noetl list --label team=sales --label env=test
    """
    client = named_server(settings, server) or own_cluster(settings)
    if cursor is not None and re.fullmatch(EXECUTION_ID, cursor) is None:
        cursor = _whole(settings, client, cursor)
    if waiting and status is not None:
        raise click.UsageError("--status contradicts --waiting")
    given = read_labels(labels)
    wanted = Filter(
        statuses=(status,) if status else (), path=path, since=since, labels=given
    )
    if waiting:
        _list_waiting(settings, client, wanted, limit, cursor, as_json=as_json)
        return
    gone: dict[str, dict[str, JSON]] = {}
    if client is None:
        home = Home.of(settings)
        page = asyncio.run(find_executions(home, settings, limit, wanted, cursor))
        found, following = list(page.executions), page.cursor
        gone = asyncio.run(find_interrupted(home, found))
    else:
        query = _query(wanted, limit, cursor)
        answer = client.call("GET", "/api/executions", query=query)
        found = msgspec.convert(answer["executions"], list[Summary])
        following = answer["cursor"]
    if as_json:
        executions = [summary_document(each) for each in found]
        for line in executions:
            if line["execution_id"] in gone:
                line["interrupted"] = gone[line["execution_id"]]
        document = {"executions": executions, "cursor": following}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if not found:
        _say_none(filtered=wanted != Filter() or cursor is not None)
    else:
        below = {
            name: [f"  continue with: {each['resume']}"] for name, each in gone.items()
        }
        print_table(found, below, interrupted=gone)
    _say_more(wanted, following)


def _query(wanted: Filter, limit: int, cursor: str | None) -> dict[str, JSON]:
    return {
        "status": ",".join(wanted.statuses) or None,
        "path": wanted.path,
        "since": wanted.since,
        "limit": limit,
        "cursor": cursor,
        "label": [f"{name}={value}" for name, value in wanted.labels.items()],
    }


def _list_waiting(
    settings: Settings,
    client: Client | None,
    wanted: Filter,
    limit: int,
    cursor: str | None,
    *,
    as_json: bool,
) -> None:
    if client is None:
        listing = list_waiting(Home.of(settings), settings, limit, wanted, cursor)
        lines, following = asyncio.run(listing)
    else:
        query = {**_query(wanted, limit, cursor), "waiting": "true"}
        page = client.call("GET", "/api/executions", query=query)
        lines, following = page["executions"], page["cursor"]
    if as_json:
        document = {"executions": lines, "cursor": following}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if not lines:
        click.echo("no execution is waiting")
    else:
        _print_waiting(lines)
    _say_more(wanted, following, "--waiting")


def _print_waiting(lines: list[dict[str, JSON]]) -> None:
    """Print each execution with its waits, and the command that answers each form."""
    now, below = time.time(), dict[str, list[str]]()
    for line in lines:
        execution_id = line["execution_id"]
        words = below[execution_id] = []
        for wait in msgspec.convert(line["waits"], list[WaitLine]):
            words.append(f"  {waiting_words(wait, now)}")
            if wait.on == "signal":
                words.append(f"    answer: {answer_words(execution_id, wait)}")
    print_table([msgspec.convert(line, Summary) for line in lines], below)


def _say_more(wanted: Filter, following: str | None, *flags: str) -> None:
    """Print the command of the next page."""
    if following is not None:
        asked = _query(wanted, 0, None)
        asked = {name: each for name, each in asked.items() if each}
        labels = asked.pop("label", ())
        pairs = [*asked.items(), *(("label", each) for each in labels)]
        given = [part for name, each in pairs for part in (f"--{name}", each)]
        again = shlex.join(["noetl", "list", *flags, *given, "--cursor", following])
        click.echo(f"there are more: {again}", err=True)


def _whole(settings: Settings, client: Client | None, cursor: str) -> str:
    """Complete a prefix of an id. Raises ``ConfigError``."""
    try:
        if client is not None:
            return whole_id(client, cursor)
        return asyncio.run(find_execution(Home.of(settings), cursor)).execution_id
    except ConfigError as error:
        hint = "give the id of the last execution on the previous page"
        raise ConfigError(f"--cursor: {error}; {hint}") from None


def _say_none(*, filtered: bool) -> None:
    if filtered:
        click.echo("no execution matches")
    else:
        click.echo("no executions yet; start one with: noetl run playbook.yaml")
