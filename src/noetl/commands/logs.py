"""``noetl logs``: print what the tasks of an execution printed and logged."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.client.http import Client
from noetl.commands.local.logs import Place, find_execution, reading
from noetl.commands.output.log_lines import format_line
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.engine.times import seconds_of
from noetl.local.home import Home
from noetl.ports.task_logs import LEVELS, Level, LogFilter, Stream
from noetl.service.errors import RequestRefused
from noetl.service.executions.task_logs import (
    LineFilter,
    LineRange,
    LogLine,
    Position,
    TaskLogQueries,
)


class RangeType(click.ParamType[LineRange]):
    """A range of lines: ``0-99``, or ``-50``."""

    name = "range"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> LineRange:
        try:
            return LineRange.read(value)
        except RequestRefused as error:
            hint = f"; {error.hint}" if error.hint else ""
            self.fail(f"{error.message}{hint}", param, ctx)


@click.command("logs")
@click.argument("execution", metavar="ID")
@click.option("--step", metavar="STEP", help="Only tasks of this step.")
@click.option("--task", metavar="TASK", help="Only the task with this name.")
@click.option(
    "--iteration",
    metavar="N",
    help="Only this iteration: 3, or 3/0 in nested loops.",
)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only attempt N.")
@click.option(
    "--stream",
    type=click.Choice(("stdout", "stderr", "log")),
    help="Only this stream; log is what was logged with a level.",
)
@click.option(
    "--level", type=click.Choice(LEVELS), help="Only records of this level or above."
)
@click.option(
    "--lines",
    "part",
    type=RangeType(),
    metavar="RANGE",
    help="Only a part of these lines: 0-99, or -50 for the last 50.",
)
@click.option(
    "--follow", "-f", is_flag=True, help="Continue until the execution has finished."
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line.")
@pass_settings
def command(
    settings: Settings,
    execution: str,
    step: str | None,
    task: str | None,
    iteration: str | None,
    attempt: int | None,
    stream: Stream | None,
    level: Level | None,
    part: LineRange | None,
    follow: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """Print what the tasks of an execution printed and logged. The start or
    end of ID is enough, and `last` is the newest execution.

    Each line has the time since the execution began, and step, iteration and task. With
    --follow, later lines are printed as they come, until the execution has finished.
    Exit code: 0, or 130 if it was interrupted before.

    \b
    Examples:
      noetl logs last
      noetl logs 019a8f --step load --iteration 3
      noetl logs 019a8f --level warning --json
      noetl logs 019a8f --lines -50 --follow
    """
    if follow and part is not None and not part.tail:
        message = f"--lines {part} contradicts --follow; -50 begins at the last 50"
        raise click.UsageError(message)
    attempts = LogFilter(step, task, iteration, attempt)
    only = LineFilter(attempts, stream, level)
    try:
        client = asyncio.run(server_of(settings, server, execution))
        if client is not None:
            _print_remote(client, execution, only, part, follow=follow, as_json=as_json)
            return
        asyncio.run(
            _print(settings, execution, only, part, follow=follow, as_json=as_json)
        )
    except KeyboardInterrupt:
        sys.exit(130)


async def _print(
    settings: Settings,
    execution: str,
    only: LineFilter,
    part: LineRange | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    home = Home.of(settings)
    place = await find_execution(home, execution)
    printer = _Printer(await _started(place), as_json=as_json)
    queries = TaskLogQueries(TaskLogFiles(home.task_logs))

    async def is_over() -> bool:
        if not follow:
            return True
        async with reading(place.log) as store:
            return (await store.summary(place.execution_id)).finished_at is not None

    start = Position()
    if part is not None:
        page = await queries.lines(place.execution_id, only, part)
        printer.echo(line for line, _ in page.lines)
        start = page.position
        if not follow:
            return
    pages = queries.follow(place.execution_id, only, start, is_over)
    async for page in pages:
        printer.echo(line for line, _ in page.lines)


async def _started(place: Place) -> str:
    async with reading(place.log) as store:
        return (await store.summary(place.execution_id)).started_at


def _print_remote(
    client: Client,
    execution: str,
    only: LineFilter,
    part: LineRange | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    execution_id = executions.whole_id(client, execution)
    started = executions.summary_of(client, execution_id).started_at
    printer = _Printer(started, as_json=as_json)
    wanted: dict[str, Any] = msgspec.to_builtins(only.attempts)
    query = {**wanted, "stream": only.stream, "level": only.level}
    if part is not None:
        page = executions.logs_page(client, execution_id, lines=str(part), **query)
        printer.echo(msgspec.convert(page["lines"], list[LogLine]))
        query["after"] = page["cursor"]
        if not follow:
            return
    find = executions.follow_logs if follow else executions.logs_of
    for lines in find(client, execution_id, **query):
        printer.echo(msgspec.convert(line, LogLine) for line in lines)


class _Printer:
    """Prints lines, with the seconds since the start of the execution."""

    def __init__(self, started: str, *, as_json: bool) -> None:
        self._started = seconds_of(started)
        self._as_json = as_json

    def echo(self, lines: Iterable[LogLine]) -> None:
        """Print a page in one write."""
        if self._as_json:
            found = [msgspec.json.encode(line).decode() for line in lines]
        else:
            found = [format_line(line, self._time(line)) for line in lines]
        if found:
            click.echo("\n".join(found))

    def _time(self, line: LogLine) -> str:
        return f"{max(0.0, seconds_of(line.time) - self._started):8.3f} "
