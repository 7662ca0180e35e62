"""``/api/executions/{id}/logs``: what tasks printed, in pages or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response, StreamingResponse

from noetl.api.events import STREAM, is_stream
from noetl.api.executions import named
from noetl.api.http.quotas import keep
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import Name, Seq, Strict
from noetl.errors import AccessError
from noetl.ports import Summary
from noetl.ports.task_logs import Level, LogFilter
from noetl.service.executions.task_logs import (
    MAX_LINES,
    LineFilter,
    LineRange,
    LogLine,
    LogPage,
    Position,
)

routes = Routes()

_HEARTBEAT = b": still here\n\n"
_PAGES_PER_BEAT = 60  # empty pages of a stream without a sign of life

Iteration = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9]{1,9}(/[0-9]{1,9}){0,15}(?!\n)$")
]
Cursor = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}-[0-9]{1,9}(?!\n)$")]


class LogsQuery(Strict):
    """Every parameter but ``after``, ``limit`` and ``lines`` selects lines; ``level``
    selects records of this level or above, ``since`` and ``until`` a range of time."""

    after: Cursor | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LINES)] = 500
    step: Name | None = None
    task: Name | None = None
    iteration: Iteration | None = None
    attempt: Seq | None = None
    task_run_id: Name | None = None
    stream: Literal["stdout", "stderr", "log"] | None = None
    level: Level | None = None
    since: datetime | None = None
    until: datetime | None = None
    lines: Annotated[str, msgspec.Meta(max_length=40)] | None = None

    def wanted(self) -> LineFilter:
        attempts = LogFilter(
            self.step, self.task, self.iteration, self.attempt, self.task_run_id
        )
        since, until = (
            None if each is None else each.timestamp()
            for each in (self.since, self.until)
        )
        return LineFilter(attempts, self.stream, self.level, since, until)


class LogList(msgspec.Struct):
    """A page of lines; ``cursor`` is the next value of ``after``, null if the execution
    has finished and nothing follows."""

    lines: list[LogLine]
    cursor: str | None


@routes.route(
    "GET",
    "/api/executions/{execution_id}/logs",
    permission=READ,
    query=LogsQuery,
    answers={200: LogList, 204: None},
    problems=("execution.unknown", "request.rate", "server.busy"),
    media=(STREAM,),
)
async def list_logs(call: Call[Nothing, LogsQuery]) -> Reply | Response:
    """List the lines that tasks printed and logged, in the order in which they were
    stored. Secrets are masked.

    With `Accept: text/event-stream` lines are sent as they are stored, until the
    execution has finished; the header `Last-Event-ID` continues after that line. A
    stream without further lines gets 204. A stream ends when its reader loses the right
    to it. A page of long lines ends after 4 MiB: `cursor` is the start of the next one.
    `lines` is a range of at most 1,000 lines, counted from 0 among those that the other
    parameters select: `100-199`, or `-50` for the last 50.
    """
    execution, only = named(call), call.query.wanted()
    logs, name = call.site.task_logs, execution.execution_id
    if is_stream(call):
        start = _position(call)
        keep(call.request.scope, call.site.quotas.streams.take(call.principal.user_id))
        if execution.finished_at is not None:
            page = await logs.page(name, only, start, 1)
            if not page.lines:
                return Response(status_code=204)
        stream = _stream(call, execution, only, start)
        return StreamingResponse(stream, media_type=STREAM)
    if call.query.lines is not None:
        wanted = LineRange.read(call.query.lines)
        user = call.principal.user_id
        keep(call.request.scope, call.site.quotas.streams.take(user))
        page = await logs.lines(name, only, wanted)
    else:
        start = Position.read(call.query.after)
        page = await logs.page(name, only, start, call.query.limit)
    is_end = not page.lines and execution.finished_at is not None
    cursor = None if is_end else str(page.position)
    return Reply(200, LogList([line for line, _ in page.lines], cursor))


def _position(call: Call[Nothing, LogsQuery]) -> Position:
    return Position.read(call.request.headers.get("last-event-id", call.query.after))


async def _stream(
    call: Call[Nothing, LogsQuery],
    execution: Summary,
    only: LineFilter,
    start: Position,
) -> AsyncIterator[bytes]:
    name, silent = execution.execution_id, 0

    async def is_over() -> bool:
        summary = await call.site.looking.summary(name)
        return summary.finished_at is not None or summary.status == "quarantined"

    yield b"retry: 1000\n\n"
    async for page in call.site.task_logs.follow(name, only, start, is_over):
        silent = 0 if page.lines else silent + 1
        if page.lines or silent % _PAGES_PER_BEAT == 0:
            if not await _still_sees(call, execution):
                return
            yield _encoded(page) if page.lines else _HEARTBEAT


def _encoded(page: LogPage) -> bytes:
    encode = msgspec.json.encode
    return b"".join(
        b"id: %s\ndata: %s\n\n" % (at.encode(), encode(line)) for line, at in page.lines
    )


async def _still_sees(call: Call[Nothing, LogsQuery], execution: Summary) -> bool:
    """Check the rights again: tokens expire, and roles change."""
    try:
        renewed = await call.renewed()
    except AccessError:
        return False
    return renewed.sees_data(execution)
