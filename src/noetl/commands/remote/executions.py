"""Executions of a server: found by a prefix, followed to their end."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import deque
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import click
import msgspec

from noetl.client.http import Client, Refused
from noetl.commands.output.diagnostics import look_for_places, print_warnings
from noetl.commands.output.progress import Progress
from noetl.commands.run import finish
from noetl.dsl.diagnostics import nearest
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
MAX_AHEAD = 1_000
"""Items of a stream that are read before they are shown."""
_EXPLAINED = frozenset({"execution_id", "diagnostics"})

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def wait_option(command: F) -> F:
    """Add ``--wait`` to a command that runs here or on a server."""
    return click.option(
        "--wait",
        is_flag=True,
        help="With a server: wait until the execution has finished.",
    )(command)


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


def ask(
    client: Client,
    order: str,
    body: JSON,
    *,
    as_json: bool,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, JSON]:
    """Request a new execution and return the answer; exit if the server refuses.

    ``order`` is the part of the path after ``/api/executions``.
    """
    path = f"/api/executions/{order}".rstrip("/")
    try:
        answer: dict[str, JSON] = client.post(path, body, **headers)
    except Refused as error:
        if error.status == 409 or not error.problem.keys() & _EXPLAINED:
            raise
        if as_json and "execution_id" in error.problem:
            # The refusal is recorded: print the same document as `run`.
            finish(show(client, error.problem["execution_id"]), as_json=True)
        click.echo(f"noetl: {error}{_similar(client, error, body)}", err=True)
        for found in error.problem.get("diagnostics", []):
            place = f"{found['line']}:{found['column']}"
            click.echo(f"  {place}: {found['message']} [{found['code']}]", err=True)
        sys.exit(2)
    return answer


def _similar(client: Client, refused: Refused, body: JSON) -> str:
    """Return a hint with the registered path that is most like the unknown one."""
    path = body.get("path")
    if refused.kind != "playbook.not_found" or not isinstance(path, str):
        return ""
    with suppress(Refused, Unreachable):
        listed = client.get("/api/catalog", limit=MAX_SEARCHED)["playbooks"]
        match = nearest(path, [line["path"] for line in listed])
        if match is not None and match != path:
            return f"; did you mean '{match}'?"
    return ""


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


def logs_page(client: Client, execution_id: str, **query: JSON) -> dict[str, JSON]:
    """Return one page of the lines of task logs."""
    page: dict[str, JSON] = client.get(f"{_path(execution_id)}/logs", **query)
    return page


def logs_of(
    client: Client, execution_id: str, **query: JSON
) -> Iterator[list[dict[str, JSON]]]:
    """Yield the lines of task logs, page by page, as far as they are stored."""
    after: str | None = None
    while True:
        page = logs_page(client, execution_id, after=after, **query)
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


def end(
    client: Client,
    answer: dict[str, JSON],
    progress: Progress,
    *,
    wait: bool,
    as_json: bool,
    fail_on: Collection[str] = (),
) -> NoReturn:
    """End a command whose execution the server continues: with ``wait`` when it has
    finished, else at once."""
    execution_id = answer["execution_id"]
    if wait:
        with leaving(execution_id, f"at {client.url}", client.option):
            document = asyncio.run(watch(client, execution_id, progress))
        said = answer.get("warnings", ())
        print_warnings(each for each in document["warnings"] if each not in said)
        look_for_places(document, client)
        finish(document, as_json=as_json, fail_on=fail_on)
    if as_json:
        click.echo(json.dumps(answer))
        sys.exit(0)
    click.echo(f"{answer['status']}: {execution_id}")
    if answer["status"] == "waiting":
        click.echo(f"  why it waits: noetl show {execution_id}{client.option}")
    click.echo(f"  watch it with: noetl watch {execution_id}{client.option}")
    sys.exit(0)


@contextmanager
def leaving(execution_id: str, where: str, option: str = "") -> Iterator[None]:
    """At Ctrl-C, say that the execution goes on and how to look or stop; exit with
    130."""
    try:
        yield
    except KeyboardInterrupt:
        watch_it = f"noetl watch {execution_id}{option}"
        stop_it = f"noetl cancel {execution_id}{option}"
        click.echo(f"left: the execution goes on {where}", err=True)
        click.echo(f"  watch: {watch_it}, stop: {stop_it}", err=True)
        sys.exit(130)


async def watch(
    client: Client, execution_id: str, progress: Progress
) -> dict[str, JSON]:
    """Show the progress until the end; return the document of the execution."""
    with progress:
        logs = None
        if progress.shows_logs:
            logs = asyncio.create_task(_show_logs(client, execution_id, progress))
        async for events in _ahead(follow(client, execution_id)):
            progress.take(msgspec.convert(events, list[Event]))
        if logs is not None:
            await asyncio.wait({logs}, timeout=LAST_LOGS_S)
    return await asyncio.to_thread(show, client, execution_id)


async def _show_logs(client: Client, execution_id: str, progress: Progress) -> None:
    """Show the lines that tasks print, if the server has them and the caller may."""
    with suppress(Refused, Unreachable):
        async for pages in _ahead(follow_logs(client, execution_id)):
            lines = [line for page in pages for line in page]
            progress.print_logs(msgspec.convert(lines, list[LogLine]))


async def _ahead(stream: Iterable[T]) -> AsyncIterator[list[T]]:
    """Yield what a blocking stream has, all that came meanwhile together.

    A thread of its own reads it: the end of the command does not wait for that thread.
    """
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    read: deque[T] = deque()
    room = threading.Semaphore(MAX_AHEAD)
    ended: list[Exception | None] = []

    def wake() -> None:
        with suppress(RuntimeError):  # the loop is closed: the command ends
            loop.call_soon_threadsafe(ready.set)

    def read_all() -> None:
        try:
            for item in stream:
                room.acquire()
                read.append(item)
                wake()
            ended.append(None)
        except Exception as error:
            ended.append(error)
        wake()

    threading.Thread(target=read_all, daemon=True).start()
    while True:
        await ready.wait()
        ready.clear()
        over = bool(ended)  # before the items: nothing is read after the end
        if items := [read.popleft() for _ in range(len(read))]:
            room.release(len(items))
            yield items
        if over:
            if ended[0] is not None:
                raise ended[0]
            return


def _path(execution_id: str) -> str:
    return f"/api/executions/{execution_id}"
