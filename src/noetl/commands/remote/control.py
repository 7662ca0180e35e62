"""Orders to one execution, or to all that match: cancel, pause, resume, retry.

An order goes to a server, to the process that runs the execution, or to its log.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_args

import click
import msgspec

from noetl.adapters.stores.sqlite.connection import Holder
from noetl.client.http import Client
from noetl.commands.list import Since
from noetl.commands.local.logs import (
    find_execution,
    find_executions,
    find_listener,
    open_alone,
    read_summary,
)
from noetl.commands.remote.choose_server import (
    named_server,
    need_own_server,
    own_server,
    server_of,
)
from noetl.commands.remote.executions import whole_id
from noetl.commands.settings import label_option
from noetl.config import Settings
from noetl.dsl.labels import read_labels
from noetl.embedded import Embedded
from noetl.engine.state import ExecutionStatus, status_of
from noetl.errors import ConfigError
from noetl.local.control_socket import ask
from noetl.local.home import Home
from noetl.ports import Summary
from noetl.service.executions.filters import Filter
from noetl.types import JSON

Act = Callable[[Embedded], Awaitable[None]]
MAX_FOUND = 1_000
"""Executions that one command looks at in a home."""

F = TypeVar("F", bound=Callable[..., Any])
Order = Callable[[str], dict[str, JSON]]
"""Carries out the order for one execution of a home; returns what has changed."""


async def steer(
    settings: Settings,
    execution: str,
    order: dict[str, JSON],
    act: Act,
    server: str | None = None,
) -> dict[str, JSON]:
    """Send ``order`` to the server or process that runs the execution.

    ``act`` applies it to the log if no process runs the execution.
    """
    client = await server_of(settings, server, execution)
    if client is not None:
        return send(client, whole_id(client, execution), order)
    home = Home.of(settings)
    place = await find_execution(home, execution)
    path, summary = place.log, await read_summary(place)
    if path == home.server_log:
        return send(need_own_server(settings), summary.execution_id, order)
    if summary.finished_at is not None:
        raise ConfigError(f"{summary.execution_id} has already ended: {summary.status}")
    holder = await find_listener(path)
    request = {"execution_id": summary.execution_id, **order}
    if holder is not None:
        status = await _order(path, holder, request)
    else:
        status = await _act(settings, home, path, summary, act)
    return {"execution_id": summary.execution_id, "status": status}


def send(client: Client, execution_id: str, order: dict[str, JSON]) -> dict[str, JSON]:
    body = {name: value for name, value in order.items() if name != "do"}
    path = f"/api/executions/{execution_id}/{order['do']}"
    answer: dict[str, JSON] = client.post(path, body or None)
    return answer


async def _order(path: Path, holder: Holder, request: dict[str, JSON]) -> JSON:
    if holder.socket is None:
        raise ConfigError(f"{holder} uses {path} and takes no requests")
    try:
        return await ask(Path(holder.socket), request)
    except OSError as error:
        message = f"{holder} uses {path} and cannot be reached: {error}"
        raise ConfigError(message) from None


async def _act(
    settings: Settings, home: Home, path: Path, summary: Summary, act: Act
) -> JSON:
    """Open the log as its only writer and apply ``act``."""
    runtime = await Embedded.reopen(
        home,
        await open_alone(path),
        summary.playbook.get("folder"),
        settings,
        summary.execution_id,
    )
    try:
        await runtime.resume_from_log(resume=False)
        await act(runtime)
        return status_of(runtime.orchestrator.cache[summary.execution_id].state)
    finally:
        await runtime.close()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of an order to many executions."""

    status: ExecutionStatus | None = None
    path: str | None = None
    trigger: str | None = None
    since: str | None = None
    until: str | None = None
    labels: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return self == Wanted()


_OPTIONS = (
    click.option(
        "--status",
        type=click.Choice(get_args(ExecutionStatus)),
        help="All executions with this status, instead of ID.",
    ),
    click.option("--path", help="All of this playbook, or below a folder: sales/*."),
    click.option("--trigger", metavar="NAME", help="All that this trigger started."),
    click.option(
        "--since", type=Since(), metavar="TIME", help="All that began since: 2h, 7d."
    ),
    click.option(
        "--until", type=Since(), metavar="TIME", help="All that began before: 2h, 7d."
    ),
    label_option("All with this label."),
)


def filter_options(command: F) -> F:
    """Add the options that choose many executions instead of one."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def check_target(execution: str | None, wanted: Wanted) -> None:
    """Raise ``UsageError`` unless there is either an ID or a filter."""
    if execution is None and wanted.is_empty:
        raise click.UsageError("give an ID, or a filter such as --status or --path")
    if execution is not None and not wanted.is_empty:
        raise click.UsageError("give an ID or filters, not both")


def order_many(
    settings: Settings,
    server: str | None,
    action: str,
    statuses: Sequence[ExecutionStatus],
    wanted: Wanted,
    order: Order,
    *,
    dry_run: bool,
    as_json: bool,
) -> NoReturn:
    """Send the order to a server, or carry it out in a home; print what has changed and
    exit with 1 if an execution refused it, or failed again."""
    client = named_server(settings, server) or own_server(settings)
    if client is not None:
        answer = _send(client, action, wanted, dry_run=dry_run)
    else:
        found = asyncio.run(_find(settings, action, statuses, wanted))
        lines = [_line(each, order, dry_run=dry_run) for each in found]
        answer = {
            "done": [line for line in lines if "reason" not in line],
            "refused": [line for line in lines if "reason" in line],
            "more": False,
        }
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        _print(action, answer, dry_run=dry_run)
    again = [line for line in answer["done"] if line.get("again") == "failed"]
    sys.exit(1 if answer["refused"] or again else 0)


def _send(
    client: Client, action: str, wanted: Wanted, *, dry_run: bool
) -> dict[str, JSON]:
    body = {**msgspec.to_builtins(wanted), "labels": read_labels(wanted.labels)}
    request = {**body, "action": action, "dry_run": dry_run}
    answer: dict[str, JSON] = client.post("/api/executions/bulk", request)
    return {name: answer[name] for name in ("done", "refused", "more")}


async def _find(
    settings: Settings,
    action: str,
    statuses: Sequence[ExecutionStatus],
    wanted: Wanted,
) -> list[Summary]:
    if wanted.trigger is not None:
        raise ConfigError("--trigger needs a server: a home has no triggers")
    labels = read_labels(wanted.labels)
    plain = Filter(path=wanted.path, since=wanted.since, labels=labels)
    page = await find_executions(Home.of(settings), settings, MAX_FOUND, plain)
    retried = {
        each.forked_from["execution_id"]
        for each in page.executions
        if each.forked_from is not None and action == "retry"
    }
    return [
        each
        for each in page.executions
        if each.status in ((wanted.status,) if wanted.status else statuses)
        and each.execution_id not in retried
        and (wanted.until is None or each.started_at < wanted.until)
    ]


def _line(each: Summary, order: Order, *, dry_run: bool) -> dict[str, JSON]:
    line: dict[str, JSON] = {"execution_id": each.execution_id, "status": each.status}
    if dry_run:
        return line
    try:
        return {**line, **order(each.execution_id)}
    except ConfigError as error:
        return {**line, "reason": str(error)}


def _print(action: str, answer: dict[str, JSON], *, dry_run: bool) -> None:
    word = f"would {action}" if dry_run else action
    for line in answer["done"]:
        new = line.get("retried_as")
        after = f" → {new}" if new else ""
        click.echo(f"{word} {line['execution_id']}: {line['status']}{after}")
    for line in answer["refused"]:
        reason = line.get("reason") or line["status"]
        click.echo(f"cannot {action} {line['execution_id']}: {reason}", err=True)
    if not answer["done"] and not answer["refused"]:
        click.echo("no execution matches")
    if answer["more"]:
        click.echo("more match: repeat the command", err=True)
    if dry_run:
        click.echo("nothing was changed")
