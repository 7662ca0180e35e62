"""``/api/audit``: who changed what."""

from __future__ import annotations

import msgspec

from noetl.access.audit import Entry
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.api.shapes import Limit, Moment, Name, Strict
from noetl.engine.times import rfc3339
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
    """``status`` is null of a call of which nobody knows how it ended."""

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
    """Who changed what on this server, the newest first.

    Accounts, tokens, sessions, playbooks and orders to executions, and what was
    refused. Who started or signalled an execution is in the execution's own log. Give
    the answer's `cursor` for the next page.
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
