"""``…/head`` and ``…/track``: the state of an execution and how it got there."""

from __future__ import annotations

import hashlib

import msgspec
from starlette.responses import Response

from noetl.api.executions import named
from noetl.api.http.responses import ASK_AGAIN, FOR_EVER, answer_tagged, tag_of
from noetl.api.http.routes import READ, Call, Nothing, Routes
from noetl.api.listing import shown_line
from noetl.api.schemas.views import Head, Track, TrackQuery
from noetl.ports import Summary
from noetl.report.tally import VERSION

routes = Routes()

CONTROL = "executions:control"
_OPEN = frozenset({"running", "waiting", "paused"})
_FITS = {
    "cancel": _OPEN,
    "pause": frozenset({"running", "waiting"}),
    "resume": frozenset({"paused", "quarantined"}),
    "signal": _OPEN,
    "retry": frozenset({"completed", "failed", "cancelled"}),
    "fork": _OPEN | {"completed", "failed", "cancelled"},
}
"""Statuses of an execution that an order fits."""


@routes.route(
    "GET",
    "/api/executions/{execution_id}/head",
    permission=READ,
    answers={200: Head, 304: None},
    problems=("execution.unknown",),
    hides=True,
)
async def show_head(call: Call[Nothing, Nothing]) -> Response:
    """Show what a page about an execution shows first: counts by step, the first
    failure that no arc handled, 20 waits, its relatives, and what the caller may do.

    The counts are kept in the store, so that a long log is not read from its beginning.
    `forks` are those among the newest 1,000 executions. The header `If-None-Match` with
    the tag of an earlier answer gets 304 if nothing has changed.
    """
    summary = named(call)
    hides = not call.sees_data(summary)
    found = await call.site.heads.show(summary, call.sees, hides=hides)
    found["line"] = shown_line(call, summary)
    found["may"] = _rights(call, summary)
    body = msgspec.json.encode(found)
    return answer_tagged(call, tag_of(hashlib.sha256(body).hexdigest()), body)


def _rights(call: Call[Nothing, Nothing], summary: Summary) -> list[str]:
    """Return what the caller can do with the execution now."""
    rights = []
    is_local = call.site.history.is_local(summary.execution_id)
    if not is_local and call.allows(CONTROL, summary.playbook.get("path")):
        rights += [name for name, fits in _FITS.items() if summary.status in fits]
    if call.sees_data(summary):
        rights += ["logs", "payloads"]
    return rights


@routes.route(
    "GET",
    "/api/executions/{execution_id}/track",
    permission=READ,
    query=TrackQuery,
    answers={200: Track, 304: None},
    problems=("execution.unknown",),
    hides=True,
)
async def show_track(call: Call[Nothing, TrackQuery]) -> Response:
    """Show how the counters of the steps changed, 10,000 events a page, without values.

    Sum up the changes from `opening` to see every step as it was at an event. `page`
    counts from 0. A complete page never changes and may be kept.
    """
    summary, number = named(call), call.query.page
    last = await call.site.looking.length(summary.execution_id)
    hides = not call.sees_data(summary)
    found = await call.site.tracks.page(summary, number, last, hides=hides)
    tag = tag_of("track", VERSION, summary.execution_id, number, found["to"], hides)
    keep = FOR_EVER if found["complete"] else ASK_AGAIN
    return answer_tagged(call, tag, found, keep)
