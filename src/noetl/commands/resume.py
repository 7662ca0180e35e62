"""``noetl resume``: an execution goes on where it stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.commands.logs import find_execution
from noetl.commands.progress import PlainProgress
from noetl.commands.run import drive, finish
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-progress", is_flag=True, help="Say nothing while it runs.")
def command(
    execution: str, playbooks: tuple[str, ...], as_json: bool, no_progress: bool
) -> None:
    """Go on with an execution that was paused, killed or interrupted.

    Of a finished one, the document is printed. A prefix of ID will do.

    \b
    Example:
      noetl resume 019a8f
    """
    progress = None if no_progress or as_json else PlainProgress()
    finish(asyncio.run(_resume(execution, progress, playbooks)), as_json=as_json)


async def _resume(
    execution: str, progress: PlainProgress | None, playbooks: Sequence[str]
) -> dict[str, JSON]:
    home = Home.of()
    path, events = await find_execution(home, execution)
    document = Document().take(events)
    if document.state.finished:
        return document.as_json()
    folder = document.playbook.get("folder")
    execution_id = events[0].execution_id
    runtime = Embedded(
        home,
        SqliteStore.open(path),
        folder,
        execution_id=execution_id,
        playbooks=playbooks,
    )
    try:
        if progress is not None:
            runtime.orchestrator.watch(progress.take)
        await runtime.take_up()
        return await drive(runtime)
    finally:
        await runtime.close()
