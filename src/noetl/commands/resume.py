"""``noetl resume``: an execution goes on where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from noetl.client import Client
from noetl.commands.logs import find_execution, open_alone, read_pages
from noetl.commands.progress import Progress, choose_progress
from noetl.commands.remote import show, watch, whole_id
from noetl.commands.run import EXIT_CODES, drive, finish, interruptible
from noetl.commands.steering import send
from noetl.commands.targets import need_own_server, server_of, server_option
from noetl.config import SLOTS, read_plugins, read_settings
from noetl.embedded import Embedded
from noetl.engine.document import Document
from noetl.home import Home
from noetl.types import JSON


@click.command("resume")
@click.argument("execution", metavar="ID")
@click.option(
    "--playbooks",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Where child playbooks are looked for (the playbook's folder).",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Say nothing while it runs.")
def command(
    execution: str,
    playbooks: tuple[str, ...],
    server: str | None,
    as_json: bool,
    no_progress: bool,
) -> None:
    """Go on with an execution that was paused, killed or interrupted.

    Of a finished one, the document is printed. A prefix of ID will do.

    \b
    Example:
      noetl resume 019a8f
    """
    progress = choose_progress(quiet=no_progress, as_json=as_json)
    client = asyncio.run(server_of(server, execution))
    if client is not None:
        execution_id = whole_id(client, execution)
        document = asyncio.run(_resume_there(client, execution_id, progress))
    else:
        document = asyncio.run(_resume(execution, progress, playbooks))
    finish(document, as_json=as_json)


async def _resume_there(
    client: Client, execution_id: str, progress: Progress
) -> dict[str, JSON]:
    """The server goes on with it; here it is only looked at."""
    document = show(client, execution_id)
    if document["status"] in ("paused", "quarantined"):
        send(client, execution_id, {"do": "resume"})
    elif document["status"] in EXIT_CODES:
        return document
    return await watch(client, execution_id, progress)


async def _resume(
    execution: str, progress: Progress, playbooks: Sequence[str]
) -> dict[str, JSON]:
    home = Home.of()
    place = await find_execution(home, execution)
    document = Document()
    async for page in read_pages(place):
        document.take(page)
        progress.recall(page)
    if document.state.finished:
        return document.as_json()
    if place.log == home.server_log:
        return await _resume_there(need_own_server(), place.execution_id, progress)
    settings = read_settings()
    runtime = Embedded(
        home,
        await open_alone(place.log),
        document.playbook.get("folder"),
        execution_id=place.execution_id,
        playbooks=playbooks,
        slots=settings[SLOTS],
        plugins=read_plugins(),
    )
    try:
        runtime.watch(progress.take)
        with progress, interruptible(runtime):
            await runtime.take_up()
            return await drive(runtime)
    finally:
        await runtime.close()
