"""What ``fork`` and ``retry`` share: their options, and the run that follows."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypeVar

import click

from noetl.commands import remote
from noetl.commands.origins import Wishes, open_origin, plan_fork, read_edits
from noetl.commands.outlook import print_outlook
from noetl.commands.progress import Progress, choose_progress
from noetl.commands.reading import read_file
from noetl.commands.run import drive, finish, interruptible
from noetl.commands.targets import server_of, server_option
from noetl.config import SLOTS, read_plugins, read_settings
from noetl.embedded import Embedded, open_free_log
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.runtime.fork_plans import Origin, Plan
from noetl.runtime.origins import Start
from noetl.service.outlook import look_ahead
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
    server_option,
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
    verb: str,
    where: Mapping[str, JSON],
    *,
    server: str | None,
    dry_run: bool,
    as_json: bool,
    no_progress: bool,
    **wishes: Any,
) -> NoReturn:
    """Fork, run to the end, print, and leave with the exit code of ``run``.

    ``choose`` says where it begins; ``where`` says the same to a server.
    """
    asked = Wishes(**wishes)
    progress = choose_progress(quiet=no_progress, as_json=as_json)
    client = asyncio.run(server_of(server, execution))
    if client is not None:
        name = remote.whole_id(client, execution)
        body = {**_body(asked), **where, "dry_run": dry_run}
        answer = remote.ask(client, f"{name}/{verb}", body, as_json=as_json)
    if dry_run:
        outlook = answer if client else asyncio.run(_look(execution, choose, asked))
        if as_json:
            click.echo(json.dumps(outlook, ensure_ascii=False))
        else:
            print_outlook(outlook)
        sys.exit(0)
    if client is not None:
        made = remote.watch(client, answer["execution_id"], progress)
        finish(asyncio.run(made), as_json=as_json)
    document = asyncio.run(_run(execution, choose, asked, progress))
    finish(document, as_json=as_json)


def _body(wishes: Wishes) -> dict[str, JSON]:
    """What a server is asked for. Raises ``ConfigError`` for what only a home can."""
    for option, given in (
        ("--playbooks", wishes.playbooks),
        ("--extensions", wishes.extensions),
    ):
        if given:
            hint = "a server has its own catalog and its own dialects"
            raise ConfigError(f"{option} does not go with a server: {hint}")
    edits = read_edits(wishes)
    body: dict[str, JSON] = {
        "workload": edits.workload,
        "ctx": edits.set_ctx,
        "timeout": edits.timeout,
    }
    if wishes.playbook is not None:
        body["playbook"] = read_file(wishes.playbook).content.decode("utf-8", "replace")
    return body


async def _look(execution: str, choose: Choose, wishes: Wishes) -> dict[str, JSON]:
    async with open_origin(Home.of(), execution) as origin:
        plan = await plan_fork(origin, await choose(origin), wishes)
        return await look_ahead(plan, origin.log)


async def _run(
    execution: str, choose: Choose, wishes: Wishes, progress: Progress
) -> dict[str, JSON]:
    home, settings = Home.of(), read_settings()
    async with open_origin(home, execution) as origin:
        plan = await plan_fork(origin, await choose(origin), wishes)
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
