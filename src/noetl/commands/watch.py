"""``noetl watch``: attach the live view to an execution."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click

from noetl.adapters.stores.sqlite.connection import find_holder
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.commands.events import LAST_EVENT, POLL_INTERVAL_S, print_json
from noetl.commands.local.logs import (
    PAGE,
    Place,
    find_execution,
    find_interrupted,
    read_summary,
    reading,
)
from noetl.commands.output.diagnostics import look_for_places
from noetl.commands.output.endings import fail_on_option
from noetl.commands.output.progress import Progress, choose_progress
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.run import exit_code, print_end
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.engine.events import Event
from noetl.engine.execution_document import Document
from noetl.local.home import Home
from noetl.service.executions.task_logs import LineFilter, Position, TaskLogQueries
from noetl.types import JSON


@click.command("watch")
@click.argument("execution", metavar="[ID]", default="last")
@fail_on_option
@server_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print the events as JSON, one per line."
)
@click.option("--no-logs", is_flag=True, help="Do not print what tasks print.")
@pass_settings
def command(
    settings: Settings,
    execution: str,
    fail_on: frozenset[str],
    server: str | None,
    as_json: bool,
    no_logs: bool,
) -> None:
    """Show an execution live until its end, whatever process or server runs it.

    It shows first what has happened so far, also of a finished execution. Ctrl-C
    detaches: the execution goes on. The start or end of ID is enough; without ID it is
    the newest execution. With --json, events are printed as they are committed.

    Exit code: 0 completed, 1 failed or cancelled, or completed with something that
    --fail-on names, 3 the server cannot be reached, 130 detached, or paused and run by
    no process.

    \b
    Examples:
      noetl watch
      noetl watch 019a8f --server http://127.0.0.1:8082
      noetl watch 019a8f --json
    """
    progress = _Events() if as_json else choose_progress(quiet=False, as_json=False)
    progress.shows_logs = progress.shows_logs and not no_logs
    client = asyncio.run(server_of(settings, server, execution))
    if client is not None:
        execution_id = executions.whole_id(client, execution)
        with executions.leaving(execution_id, f"at {client.url}", client.option):
            document = asyncio.run(executions.watch(client, execution_id, progress))
    else:
        home = Home.of(settings)
        place = asyncio.run(find_execution(home, execution))
        with executions.leaving(place.execution_id, f"in {find_holder(place.log)}"):
            document = asyncio.run(_watch(home, place, progress))
    if not as_json:
        look_for_places(document, client)
        print_end(document)
    sys.exit(exit_code(document, fail_on))


class _Events(Progress):
    """Prints each event as one line of JSON, as ``noetl events --json`` does."""

    def __init__(self) -> None:
        self._trace = ""

    def take(self, events: Sequence[Event]) -> None:
        self._trace = self._trace or events[0].payload["trace_id"]
        print_json(events, self._trace)


async def _watch(home: Home, place: Place, progress: Progress) -> dict[str, JSON]:
    """Follow the log until its last event, or until no process writes it."""
    document, over = Document(), asyncio.Event()
    with progress:
        logs = None
        if progress.shows_logs:
            logs = asyncio.create_task(_show_logs(home, place, progress, over))
        async with reading(place.log) as store:
            after, last, left = 0, "", False
            while last != LAST_EVENT:
                page = await store.read(place.execution_id, after=after, limit=PAGE)
                if page:
                    document.take(page)
                    progress.take(page)
                    after, last, left = page[-1].seq, page[-1].name, False
                elif left:  # read once more: the writer has committed before it left
                    break
                elif find_holder(place.log) is None:
                    left = True
                else:
                    await asyncio.sleep(POLL_INTERVAL_S)
        over.set()
        if logs is not None:
            await logs
    found = document.as_json()
    gone = await find_interrupted(home, [await read_summary(place)])
    if place.execution_id in gone:
        found["interrupted"] = gone[place.execution_id]
    return found


async def _show_logs(
    home: Home, place: Place, progress: Progress, over: asyncio.Event
) -> None:
    async def is_over() -> bool:
        return over.is_set()

    queries = TaskLogQueries(TaskLogFiles(home.task_logs))
    pages = queries.follow(place.execution_id, LineFilter(), Position(), is_over)
    async for page in pages:
        progress.print_logs([line for line, _ in page.lines])
