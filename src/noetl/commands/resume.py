"""``noetl resume``: continue an execution."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from noetl.client.http import Client
from noetl.commands.local.logs import find_execution, open_alone, read_pages
from noetl.commands.output.progress import Progress, choose_progress
from noetl.commands.remote.choose_server import (
    need_own_server,
    server_of,
    server_option,
)
from noetl.commands.remote.control import send
from noetl.commands.remote.executions import show, watch, whole_id
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
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Print no progress.")
@pass_settings
def command(
    settings: Settings,
    execution: str,
    playbooks: tuple[str, ...],
    server: str | None,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Continue an execution that was paused, killed or interrupted.

    If it has finished, its document is printed. The start or end of ID is enough.

    \b
    Example:
      noetl resume 019a8f
    """
    progress = choose_progress(quiet=no_progress, as_json=as_json)
    client = asyncio.run(server_of(settings, server, execution))
    if client is not None:
        execution_id = whole_id(client, execution)
        document = asyncio.run(_resume_there(client, execution_id, progress))
    else:
        document = asyncio.run(_resume(settings, execution, progress, playbooks))
    finish(document, as_json=as_json)


async def _resume_there(
    client: Client, execution_id: str, progress: Progress
) -> dict[str, JSON]:
    """Let the server continue the execution, and follow it here."""
    document = show(client, execution_id)
    if document["status"] in ("paused", "quarantined"):
        send(client, execution_id, {"do": "resume"})
    elif document["status"] in EXIT_CODES:
        return document
    return await watch(client, execution_id, progress)


async def _resume(
    settings: Settings, execution: str, progress: Progress, playbooks: Sequence[str]
) -> dict[str, JSON]:
    home = Home.of(settings)
    place = await find_execution(home, execution)
    document = Document()
    async for page in read_pages(place):
        document.take(page)
        progress.recall(page)
    if document.state.finished:
        return document.as_json()
    if place.log == home.server_log:
        return await _resume_there(
            need_own_server(settings), place.execution_id, progress
        )
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
        with progress, interruptible(runtime):
            await runtime.resume_from_log()
            return await drive(runtime)
    finally:
        await runtime.close()
