"""``/api/audit``, ``/healthz``, ``/readyz`` and ``/metrics``: what operators watch."""

from __future__ import annotations

from contextlib import suppress

import msgspec
from starlette.responses import Response

from noetl.access.audit import Entry
from noetl.api.http.routes import PUBLIC, READ, Call, Nothing, Reply, Routes
from noetl.api.metrics import MEDIA_TYPE
from noetl.api.schemas.executions import Health, Limit, Moment, Name, Strict
from noetl.engine.times import rfc3339
from noetl.errors import StoreError
from noetl.types import JSON

routes = Routes()

EXPORT = "log:export"


class AuditQuery(Strict):
    user: Name | None = None
    action: Name | None = None
    since: Moment | None = None
    limit: Limit = 100
    cursor: Name | None = None


class AuditLine(msgspec.Struct):
    """``status`` is null if the outcome of the call is unknown."""

    audit_id: str
    at: str
    action: str
    principal: str | None
    user_id: str | None
    means: str | None
    credential: str | None
    address: str | None
    target: dict[str, JSON]
    status: int | None
    problem: str | None


class AuditList(msgspec.Struct):
    entries: list[AuditLine]
    cursor: str | None


@routes.route(
    "GET", "/api/audit", permission=EXPORT, query=AuditQuery, answers={200: AuditList}
)
async def list_audit(call: Call[Nothing, AuditQuery]) -> Reply:
    """List changes on this server, the newest first.

    Covers accounts, tokens, sessions, playbooks and orders to executions, and refused
    calls. Starts and signals of an execution are in the execution's own log. Pass the
    answer's `cursor` for the next page.
    """
    call.require(EXPORT, None)
    query = call.query
    found = await call.site.audit.entries(
        user=query.user,
        action=query.action,
        since=None if query.since is None else query.since.timestamp(),
        before=query.cursor,
        limit=query.limit,
    )
    cursor = found[-1].audit_id if len(found) == query.limit else None
    return Reply(200, {"entries": [_line(each) for each in found], "cursor": cursor})


def _line(entry: Entry) -> JSON:
    return {**msgspec.to_builtins(entry), "at": rfc3339(entry.at)}


@routes.route("GET", "/healthz", permission=PUBLIC, answers={200: Health})
async def show_health(call: Call[Nothing, Nothing]) -> Reply:
    """Answer that the process is alive."""
    return Reply(200, {"status": "ok", "reason": None})


@routes.route("GET", "/readyz", permission=PUBLIC, answers={200: Health, 503: Health})
async def show_readiness(call: Call[Nothing, Nothing]) -> Reply:
    """Answer 200 if the store takes writes; otherwise name what is wrong.

    `isolation` is `sandbox` if code of playbooks runs in one, `refused` if it must and
    cannot, `off` while the server has no accounts, `none` if an operator switched it
    off.
    """
    reason, isolation = await call.site.ready(), await call.site.isolation()
    status = "ready" if reason is None else "unavailable"
    about = {"status": status, "reason": reason, "isolation": isolation}
    return Reply(200 if reason is None else 503, about)


@routes.route(
    "GET",
    "/metrics",
    permission="workers:read",
    answers={200: None},
    media=("text/plain",),
)
async def show_metrics(call: Call[Nothing, Nothing]) -> Response:
    """Return the metrics for Prometheus.

    Those with the path of a playbook are for callers who may read all executions.
    """
    metrics = call.site.metrics
    with suppress(StoreError):  # the other metrics are needed most while it is away
        await call.site.pools.measure(metrics.note_backlog)
        await metrics.note_exports(call.site.exports)
    text = metrics.text(with_paths=call.allows(READ, None))
    return Response(text, media_type=MEDIA_TYPE)
