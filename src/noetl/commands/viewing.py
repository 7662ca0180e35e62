"""Views of a log for the command line: other dialects, and questions by ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping

import click

from noetl.commands import remote
from noetl.commands.logs import find_execution, read_pages
from noetl.commands.targets import server_of
from noetl.dialects.views import make_view
from noetl.dialects.views.correlation import IDS, NAMED, fits
from noetl.dsl.diagnostics import did_you_mean
from noetl.home import Home
from noetl.types import JSON

PLAIN = "001"


def read_where(asked: Iterable[str]) -> dict[str, str]:
    """``ID=VALUE`` pairs. Raises ``click.UsageError``."""
    wanted: dict[str, str] = {}
    for each in asked:
        name, sign, value = each.partition("=")
        if not sign or not value:
            raise click.UsageError(f"--where takes ID=VALUE, found '{each}'")
        if name not in (*IDS, *NAMED):
            hint = did_you_mean(name, (*IDS, *NAMED)) or f"known: {', '.join(IDS)}"
            raise click.UsageError(f"events have no id '{name}'; {hint}")
        wanted[name] = value
    return wanted


def print_view(
    execution: str,
    server: str | None,
    dialect: str,
    wanted: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    client = asyncio.run(server_of(server, execution))
    if client is None:
        asyncio.run(_print(execution, dialect, wanted, as_json=as_json))
        return
    execution_id = remote.whole_id(client, execution)
    query = {**wanted, "dialect": dialect}
    _echo(remote.events_of(client, execution_id, **query), as_json=as_json)


async def _print(
    execution: str, dialect: str, wanted: Mapping[str, str], *, as_json: bool
) -> None:
    view = make_view(dialect)
    async for page in read_pages(await find_execution(Home.of(), execution)):
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
    """Position, time, what it is called and where; the rest is in the JSON."""
    called = document.get("event_type") or document["name"]
    payload = document.get("payload") or document.get("data") or {}
    task = document.get("task_label") or payload.get("task")
    attempt = document.get("attempt")
    where = [document.get("step"), task, f"#{attempt}" if attempt else None]
    text = " ".join([str(called), *(str(each) for each in where if each)])
    return f"{document['seq']:>6} {document['timestamp']} {text}"
