"""``/api/executions/{id}/events``: the log in pages, or as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from noetl.api.executions import named
from noetl.api.http.problems import Problem
from noetl.api.http.quotas import keep
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import EventList, EventsQuery, VarsDocument
from noetl.engine.event_codec import event_line
from noetl.errors import AccessError, StoreError
from noetl.ports import Summary
from noetl.runtime.subscriptions import EVENTS_PER_PAGE
from noetl.service.executions.views.search import Wanted
from noetl.types import JSON

routes = Routes()

PLAIN = "001"
STREAM = "text/event-stream"
_HEARTBEAT = b": still here\n\n"


@routes.route(
    "GET",
    "/api/executions/{execution_id}/vars",
    permission=READ,
    answers={200: VarsDocument},
    problems=("execution.unknown",),
)
async def list_vars(call: Call[Nothing, Nothing]) -> Reply:
    """List the transient variables that the steps of a `legacy` playbook share."""
    name = named(call).execution_id
    found = await call.site.looking.vars(name)
    return Reply(200, {"execution_id": name, "vars": found})


@routes.route(
    "GET",
    "/api/executions/{execution_id}/events",
    permission=READ,
    query=EventsQuery,
    answers={200: EventList, 204: None},
    problems=("execution.unknown", "request.rate", "server.busy"),
    media=(STREAM,),
)
async def list_events(call: Call[Nothing, EventsQuery]) -> Reply | Response:
    """List the events after a position, in log order.

    With `Accept: text/event-stream` events are sent as they are committed, until the
    last; the header `Last-Event-ID` continues after that event. A stream without
    further events gets 204; so does that of a quarantined execution. A stream ends when
    its reader loses the right to it.

    `dialect` is a view of the log: `001` (the log itself), `000` or `003`. With
    `before` the events before that position, the latest first; with `find` those that
    contain a text, in upper or lower case. Every other parameter is an id that the
    events must have. All of these work on pages, not on streams, and `before` and
    `find` on dialect `001` only. A page of large events ends after 4 MiB, and a search
    after 20,000 events: `cursor` is the start of the next one.
    """
    execution, query = named(call), call.query
    is_plain = query.dialect == PLAIN
    turned = [name for name in ("before", "find") if getattr(query, name) is not None]
    if is_stream(call):
        if query.wanted() or not is_plain or turned:
            message = "a stream has no views; request pages to use a dialect or filter"
            raise Problem("query.invalid", message, more={"parameter": "dialect"})
        return await _answer_stream(call, execution)
    if turned and not is_plain:
        message = f"'{turned[0]}' works on dialect {PLAIN} only"
        raise Problem("query.invalid", message, more={"parameter": turned[0]})
    return Reply(200, await _page(call, execution))


async def _answer_stream(
    call: Call[Nothing, EventsQuery], execution: Summary
) -> Response:
    after = _position(call)
    keep(call.request.scope, call.site.quotas.streams.take(call.principal.user_id))
    if not await _has_more(call, execution, after):
        return Response(status_code=204)
    return StreamingResponse(_stream(call, execution, after), media_type=STREAM)


async def _page(
    call: Call[Nothing, EventsQuery], execution: Summary
) -> dict[str, JSON]:
    query, name = call.query, execution.execution_id
    wanted = query.wanted()
    if query.dialect != PLAIN:
        documents, cursor = await call.site.looking.view(
            name, query.dialect, wanted, after=query.after, limit=query.limit
        )
        return {"events": documents, "cursor": cursor}
    if wanted or query.find is not None or query.before is not None:
        lines, cursor = await call.site.event_search.page(
            name,
            Wanted(wanted, query.find),
            after=query.after,
            before=query.before,
            limit=query.limit,
        )
    else:
        lines, cursor = await call.site.looking.lines(
            name, after=query.after, limit=query.limit
        )
    return {"events": [msgspec.Raw(line) for line in lines], "cursor": cursor}


async def _has_more(
    call: Call[Nothing, EventsQuery], execution: Summary, after: int
) -> bool:
    """Return False if a finished or quarantined execution has no event after
    ``after``."""
    aside = execution.status == "quarantined"
    if execution.finished_at is None and not aside:
        return True
    try:  # the size of the stream's own reads: it may break off within one
        looking, limit = call.site.looking, EVENTS_PER_PAGE
        return bool(
            await looking.events(execution.execution_id, after=after, limit=limit)
        )
    except StoreError:
        if aside:
            return False
        raise


def is_stream(call: Call[Any, Any]) -> bool:
    """Return whether the caller asks for a stream; a HEAD request cannot read one."""
    accepted = call.request.headers.get("accept", "")
    return STREAM in accepted and call.request.method == "GET"


def _position(call: Call[Nothing, EventsQuery]) -> int:
    seen = call.request.headers.get("last-event-id")
    if seen is None:
        return call.query.after
    if not (seen.isascii() and seen.isdigit() and len(seen) <= 9):
        message = f"Last-Event-ID must be the number of an event, found '{seen[:40]}'"
        raise Problem("query.invalid", message, more={"parameter": "Last-Event-ID"})
    return int(seen)


async def _stream(
    call: Call[Nothing, EventsQuery], execution: Summary, after: int
) -> AsyncIterator[bytes]:
    execution_id = execution.execution_id
    trace = await call.site.looking.trace(execution_id)
    yield b"retry: 1000\n\n"
    async for page in call.site.streams.follow(execution_id, after):
        if not await _still_sees(call, execution):
            return
        if not page:
            yield _HEARTBEAT
        else:
            yield b"".join(
                b"id: %d\ndata: %s\n\n" % (event.seq, event_line(event, trace))
                for event in page
            )


async def _still_sees(call: Call[Nothing, EventsQuery], execution: Summary) -> bool:
    """Check the rights again: tokens expire, and roles change."""
    try:
        renewed = await call.renewed()
    except AccessError:
        return False
    return renewed.sees_data(execution)
