"""Executions of a server: found by a prefix, followed to their end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from uuid import UUID

import click
import msgspec

from noetl.client import Client, Refused
from noetl.commands.progress import Progress
from noetl.commands.run import finish
from noetl.engine.events import Event
from noetl.errors import ConfigError
from noetl.ports import Summary
from noetl.types import JSON

WHOLE = 36
"""Characters of an id; fewer are a prefix."""
SEARCHED = 1_000
_EXPLAINED = frozenset({"execution_id", "diagnostics"})


def whole_id(client: Client, wanted: str) -> str:
    """By its id, a prefix that is unique among the newest, or as ``last``."""
    if len(wanted) >= WHOLE:
        return wanted
    lines = client.get("/api/executions", limit=SEARCHED)["executions"]
    if wanted == "last":
        lines = [line for line in lines if line["parent_id"] is None][:1]
    else:
        lines = [line for line in lines if line["execution_id"].startswith(wanted)]
    if not wanted or not lines:
        message = f"no execution '{wanted}' at {client.url}"
        raise ConfigError(f"{message}; see noetl list --server {client.url}")
    if len(lines) > 1:
        some = ", ".join(line["execution_id"] for line in lines[:3])
        raise ConfigError(f"'{wanted}' is not unique: {some}, …")
    found: str = lines[0]["execution_id"]
    return found


def show(client: Client, wanted: str) -> dict[str, JSON]:
    """The document of an execution."""
    path = _path(whole_id(client, wanted))
    try:
        document: dict[str, JSON] = client.get(path)
    except Refused as error:
        if error.kind == "execution.unknown":
            message = f"no execution '{wanted}' at {client.url}"
            raise ConfigError(f"{message}; see noetl list") from None
        raise
    return document


def ask(client: Client, order: str, body: JSON, *, as_json: bool) -> dict[str, JSON]:
    """Have an execution made; leaves if what was asked for cannot be done.

    ``order`` is what follows after ``/api/executions``.
    """
    path = f"/api/executions/{order}".rstrip("/")
    try:
        answer: dict[str, JSON] = client.post(path, body)
    except Refused as error:
        if error.status == 409 or not error.problem.keys() & _EXPLAINED:
            raise
        if as_json and "execution_id" in error.problem:
            # It is on record: the same document as that of `run`.
            finish(show(client, error.problem["execution_id"]), as_json=True)
        click.echo(f"noetl: {error}", err=True)
        for found in error.problem.get("diagnostics", []):
            place = f"{found['line']}:{found['column']}"
            click.echo(f"  {place}: {found['message']} [{found['code']}]", err=True)
        sys.exit(2)
    return answer


def summary_of(client: Client, execution_id: str) -> Summary:
    """Its line in the listing."""
    following = str(UUID(int=UUID(execution_id).int + 1))
    [line] = client.get("/api/executions", cursor=following, limit=1)["executions"]
    return msgspec.convert(line, Summary)


def events_of(client: Client, execution_id: str, **query: JSON) -> Iterator[JSON]:
    """All that are there, page by page; ``query`` asks for a view, or by ids."""
    after: int | None = 0
    while after is not None:
        page = client.get(f"{_path(execution_id)}/events", after=after, **query)
        yield from page["events"]
        after = page["cursor"]


def follow(client: Client, execution_id: str) -> Iterator[JSON]:
    """All events to the last, as they are committed."""
    return client.follow(f"{_path(execution_id)}/events")


async def watch(
    client: Client, execution_id: str, progress: Progress
) -> dict[str, JSON]:
    """Show how it goes on, to its end; its document."""
    stream = follow(client, execution_id)
    with progress:
        while (event := await asyncio.to_thread(next, stream, None)) is not None:
            progress.take([msgspec.convert(event, Event)])
    return await asyncio.to_thread(show, client, execution_id)


def _path(execution_id: str) -> str:
    return f"/api/executions/{execution_id}"
