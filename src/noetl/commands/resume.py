"""``noetl resume``: continue an execution."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from noetl.commands.local.logs import Place, find_execution, open_alone, read_pages
from noetl.commands.output.diagnostics import look_for_places
from noetl.commands.output.progress import Progress, choose_progress
from noetl.commands.remote.choose_server import (
    need_own_server,
    server_of,
    server_option,
)
from noetl.commands.remote.control import send
from noetl.commands.remote.executions import end, show, wait_option, whole_id
from noetl.commands.run import EXIT_CODES, drive, finish, interruptible, show_logs
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_plugins
from noetl.embedded import Embedded
from noetl.engine.execution_document import Document
from noetl.local.home import Home
from noetl.types import JSON


@click.command("resume")
@click.argument("execution", metavar="ID")
@click.option(
    "--playbooks",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The folder of child playbooks (default: the playbook's folder).",
)
@wait_option
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Print no progress.")
@pass_settings
def command(
    settings: Settings,
    execution: str,
    playbooks: tuple[str, ...],
    wait: bool,
    server: str | None,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Continue an execution that was paused, killed or interrupted.

    An execution of this home runs to its end here. A server continues its execution,
    and the command returns at once, or with --wait at the end. If the execution has
    finished, its document is printed. The start or end of ID is enough.

    \b
    Examples:
      noetl resume 019a8f
      noetl resume 019a8f --server http://127.0.0.1:8082 --wait
    """
    progress = choose_progress(quiet=no_progress, as_json=as_json)
    client = asyncio.run(server_of(settings, server, execution))
    home = Home.of(settings)
    if client is None:
        place = asyncio.run(find_execution(home, execution))
        found = asyncio.run(_resume(settings, home, place, progress, playbooks))
        if found is not None:
            look_for_places(found)
            finish(found, as_json=as_json)
        client, execution = need_own_server(settings), place.execution_id
    execution_id = whole_id(client, execution)
    document = show(client, execution_id)
    status = document["status"]
    if status in ("paused", "quarantined"):
        status = send(client, execution_id, {"do": "resume"})["status"]
    elif status in EXIT_CODES:
        look_for_places(document, client)
        finish(document, as_json=as_json)
    answer = {"execution_id": execution_id, "status": status}
    end(client, answer, progress, wait=wait, as_json=as_json)


async def _resume(
    settings: Settings,
    home: Home,
    place: Place,
    progress: Progress,
    playbooks: Sequence[str],
) -> dict[str, JSON] | None:
    """Run the execution to its end in this process; None if the server of this home
    has to continue it."""
    document = Document()
    async for page in read_pages(place):
        document.take(page)
        progress.recall(page)
    if document.state.finished:
        return document.as_json()
    if place.log == home.server_log:
        return None
    runtime = await Embedded.reopen(
        home,
        await open_alone(place.log),
        document.playbook.get("folder"),
        settings,
        place.execution_id,
        playbooks=playbooks,
        plugins=read_plugins(settings),
    )
    try:
        runtime.watch(progress.take)
        show_logs(runtime, progress)
        with progress, interruptible(runtime, progress):
            await runtime.resume_from_log()
            return await drive(runtime)
    finally:
        await runtime.close()
