"""Executions of a server: found by a prefix, followed to their end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import click
import msgspec

from noetl.client.http import Client, Refused
from noetl.commands.output.progress import Progress
from noetl.commands.run import finish
from noetl.engine.events import Event
from noetl.errors import ConfigError, Unreachable
from noetl.ports import Summary
from noetl.service.executions.task_logs import LogLine
from noetl.types import JSON

ID_LENGTH = 36
"""Length of a complete id; a shorter text is a prefix."""
MAX_SEARCHED = 1_000
LAST_LOGS_S = 5.0
"""Seconds that a finished execution waits for the last lines of its tasks."""
_EXPLAINED = frozenset({"execution_id", "diagnostics"})


def whole_id(client: Client, wanted: str) -> str:
    """Complete an id, its beginning or end, unique among the newest, or ``last``."""
    if len(wanted) >= ID_LENGTH:
        return wanted
    lines = client.get("/api/executions", limit=MAX_SEARCHED)["executions"]
    if wanted == "last":
        lines = [line for line in lines if line["parent_id"] is None][:1]
    else:
        begin = [line for line in lines if line["execution_id"].startswith(wanted)]
        lines = begin or [x for x in lines if x["execution_id"].endswith(wanted)]
    if not wanted or not lines:
        message = f"no execution '{wanted}' at {client.url}"
        raise ConfigError(f"{message}; see noetl list --server {client.url}")
    if len(lines) > 1:
        some = ", ".join(line["execution_id"] for line in lines[:3])
        raise ConfigError(f"'{wanted}' is not unique: {some}, …")
    found: str = lines[0]["execution_id"]
    return found


def show(client: Client, wanted: str) -> dict[str, JSON]:
    """Return the document of an execution."""
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
    """Request a new execution and return the answer; exit if the server refuses.

    ``order`` is the part of the path after ``/api/executions``.
    """
    path = f"/api/executions/{order}".rstrip("/")
    try:
        answer: dict[str, JSON] = client.post(path, body)
    except Refused as error:
        if error.status == 409 or not error.problem.keys() & _EXPLAINED:
            raise
        if as_json and "execution_id" in error.problem:
            # The refusal is recorded: print the same document as `run`.
            finish(show(client, error.problem["execution_id"]), as_json=True)
        click.echo(f"noetl: {error}", err=True)
        for found in error.problem.get("diagnostics", []):
            place = f"{found['line']}:{found['column']}"
            click.echo(f"  {place}: {found['message']} [{found['code']}]", err=True)
        sys.exit(2)
    return answer


def summary_of(client: Client, execution_id: str) -> Summary:
    """Return the line of an execution in the listing."""
    following = str(UUID(int=UUID(execution_id).int + 1))
    [line] = client.get("/api/executions", cursor=following, limit=1)["executions"]
    return msgspec.convert(line, Summary)


def events_of(client: Client, execution_id: str, **query: JSON) -> Iterator[JSON]:
    """Yield all recorded events page by page; ``query`` selects a view or ids."""
    after: int | None = 0
    while after is not None:
        page = client.get(f"{_path(execution_id)}/events", after=after, **query)
        yield from page["events"]
        after = page["cursor"]


def follow(client: Client, execution_id: str) -> Iterator[JSON]:
    """Yield all events until the last one, as they are committed."""
    return client.follow(f"{_path(execution_id)}/events")


def logs_of(
    client: Client, execution_id: str, **query: JSON
) -> Iterator[list[dict[str, JSON]]]:
    """Yield the lines of task logs, page by page, as far as they are stored."""
    after: str | None = None
    while True:
        page = client.get(f"{_path(execution_id)}/logs", after=after, **query)
        yield page["lines"]
        if not page["lines"] or page["cursor"] is None:
            return
        after = page["cursor"]


def follow_logs(
    client: Client, execution_id: str, **query: JSON
) -> Iterator[list[dict[str, JSON]]]:
    """Yield the lines of task logs as they are stored, until the execution ends."""
    for line in client.follow_lines(f"{_path(execution_id)}/logs", query):
        yield [line]


async def watch(
    client: Client, execution_id: str, progress: Progress
) -> dict[str, JSON]:
    """Show the progress until the end; return the document of the execution."""
    stream = follow(client, execution_id)
    with progress:
        logs = None
        if progress.shows_logs:
            logs = asyncio.create_task(_show_logs(client, execution_id, progress))
        while (event := await asyncio.to_thread(next, stream, None)) is not None:
            progress.take([msgspec.convert(event, Event)])
        if logs is not None:
            await asyncio.wait({logs}, timeout=LAST_LOGS_S)
    return await asyncio.to_thread(show, client, execution_id)


async def _show_logs(client: Client, execution_id: str, progress: Progress) -> None:
    """Show the lines that tasks print, if the server has them and the caller may."""
    stream = follow_logs(client, execution_id)
    with suppress(Refused, Unreachable):
        while (lines := await asyncio.to_thread(next, stream, None)) is not None:
            progress.print_logs([msgspec.convert(line, LogLine) for line in lines])


def _path(execution_id: str) -> str:
    return f"/api/executions/{execution_id}"
