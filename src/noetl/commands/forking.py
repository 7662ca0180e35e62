"""What ``fork`` and ``retry`` share: their options, and the run that follows."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import click

from noetl.commands.logs import PAGE
from noetl.commands.origins import Origin, Plan, Wishes, make_plan, open_origin
from noetl.commands.outlook import Outlook, print_outlook
from noetl.commands.progress import Progress, choose_progress
from noetl.commands.run import drive, finish, interruptible
from noetl.config import SLOTS, read_plugins, read_settings
from noetl.embedded import Embedded, open_free_log
from noetl.home import Home
from noetl.runtime.origins import Start
from noetl.types import JSON

Command = TypeVar("Command", bound=Callable[..., Any])
Choose = Callable[[Origin], Awaitable[Start]]
"""Where it shall begin. Raises ``ConfigError``."""

_OPTIONS = (
    click.option(
        "--set", "settings", multiple=True, metavar="A.B=V", help="Change an input."
    ),
    click.option("--workload", metavar="FILE", help="Other inputs, as YAML or JSON."),
    click.option(
        "--set-ctx", multiple=True, metavar="A.B=V", help="Change a value of ctx."
    ),
    click.option("--playbook", metavar="FILE", help="Go on with this playbook."),
    click.option(
        "--playbooks",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help="Where child playbooks are looked for (the playbook's folder).",
    ),
    click.option("--extensions", metavar="NAMES", help="Dialects of --playbook."),
    click.option("--timeout", metavar="D", help="Cancel it after so long: 30s, 5m."),
    click.option("--dry-run", is_flag=True, help="Only say what would happen."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    click.option("--no-progress", is_flag=True, help="Say nothing while it runs."),
)


def edit_options(command: Command) -> Command:
    """The options that both verbs have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fork_execution(
    execution: str,
    choose: Choose,
    *,
    dry_run: bool,
    as_json: bool,
    no_progress: bool,
    **wishes: Any,
) -> NoReturn:
    """Fork, run to the end, print, and leave with the exit code of ``run``."""
    asked = Wishes(**wishes)
    if not dry_run:
        progress = choose_progress(quiet=no_progress, as_json=as_json)
        document = asyncio.run(_run(execution, choose, asked, progress))
        finish(document, as_json=as_json)
    outlook = asyncio.run(_look(execution, choose, asked))
    if as_json:
        click.echo(json.dumps(outlook, ensure_ascii=False))
    else:
        print_outlook(outlook)
    sys.exit(0)


async def _look(execution: str, choose: Choose, wishes: Wishes) -> dict[str, JSON]:
    async with open_origin(Home.of(), execution) as origin:
        plan = await make_plan(origin, await choose(origin), wishes)
        outlook = Outlook(plan.fork, plan.point.state)
        async for page in origin.log.pages(origin.execution_id, size=PAGE):
            outlook.recall(page)
        return outlook.as_json()


async def _run(
    execution: str, choose: Choose, wishes: Wishes, progress: Progress
) -> dict[str, JSON]:
    home, settings = Home.of(), read_settings()
    async with open_origin(home, execution) as origin:
        plan = await make_plan(origin, await choose(origin), wishes)
        runtime = Embedded(
            home,
            open_free_log(home),
            plan.fork.playbook.get("folder"),
            execution_id=plan.fork.execution_id,
            playbooks=wishes.playbooks,
            extensions=plan.playbook.extensions,
            slots=settings[SLOTS],
            plugins=read_plugins(),
        )
        try:
            runtime.watch(progress.take)
            with interruptible(runtime):
                return await _go_on(runtime, plan, origin, progress)
        finally:
            await runtime.close()


async def _go_on(
    runtime: Embedded, plan: Plan, origin: Origin, progress: Progress
) -> dict[str, JSON]:
    if not await runtime.fork(plan.playbook, plan.fork, plan.point, origin.log):
        return runtime.document()
    with progress:
        async for page in runtime.history():
            kept = [event for event in page if event.seq <= plan.fork.seq]
            progress.recall(kept)
            progress.take(page[len(kept) :])
        return await drive(runtime)
