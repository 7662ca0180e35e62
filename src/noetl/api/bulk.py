"""``/api/executions/bulk``: one order to all executions that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import sha256

import msgspec

from noetl.access.initiator import initiator_of
from noetl.api.control import CONTROL
from noetl.api.executions import moment
from noetl.api.http.problems import Problem
from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import BulkAnswer, BulkRequest
from noetl.engine.events import Caller
from noetl.engine.state import ExecutionStatus
from noetl.ports import Summary
from noetl.runtime.forks.plan import Edits
from noetl.service.errors import RequestRefused
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.queries import Filter
from noetl.types import JSON

routes = Routes()

PAGE = 500
MAX_SEEN = 10_000
"""Executions that one request looks at."""

Bulk = Call[BulkRequest, Nothing]
Order = Callable[[ExecutionControl, str, Caller], Awaitable[ExecutionStatus]]
ORDERS: Mapping[str, Order] = {
    "cancel": ExecutionControl.cancel,
    "pause": ExecutionControl.pause,
    "resume": ExecutionControl.resume,
}
FITTING: Mapping[str, tuple[ExecutionStatus, ...]] = {
    "cancel": ("running", "waiting", "paused"),
    "pause": ("running", "waiting"),
    "resume": ("paused", "quarantined"),
    "retry": ("failed",),
}
FILTERS = ("status", "path", "trigger", "labels", "since", "until")


@routes.route(
    "POST",
    "/api/executions/bulk",
    permission=CONTROL,
    body=BulkRequest,
    answers={200: BulkAnswer},
)
async def steer_many(call: Bulk) -> Reply:
    """Cancel, pause, resume or retry all executions that match the filters.

    At most `limit` of them, the newest first; `more` is true if others match. With
    `dry_run` nothing changes, and `done` are those that match. What was retried before,
    or was run again with its slot or key, is not retried.
    """
    body = call.body
    call.trail.add(order=body.action, status=body.status, path=body.path)
    if not any(getattr(body, name) for name in FILTERS):
        message = f"at least one of {', '.join(FILTERS[:-1])} and until is required"
        raise Problem("request.invalid", message)
    done: list[JSON] = []
    refused: list[JSON] = []
    more = False
    async for each in _matching(call):
        if len(done) + len(refused) == body.limit:
            more = True
            break
        line: dict[str, JSON] = {
            "execution_id": each.execution_id,
            "status": each.status,
        }
        try:
            line |= await _order(call, each)
            done.append(line)
        except RequestRefused as refusal:
            status = refusal.more.get("state", each.status)
            refused.append({**line, "status": status, "reason": refusal.message})
    return Reply(200, {"done": done, "refused": refused, "more": more})


async def _order(call: Bulk, each: Summary) -> dict[str, JSON]:
    """Apply the order; return what has changed. Raises ``RequestRefused``."""
    body, name = call.body, each.execution_id
    if body.action != "retry":
        if body.dry_run:
            return {}
        order = ORDERS[body.action]
        return {"status": await order(call.site.steering, name, call.caller)}
    plan = await call.site.forking.plan(each, Edits({}, {}), newer=None)
    if body.dry_run:
        return {}
    digest = sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()
    asked = {**(call.caller or {}), "idempotency_key": None, "sha256": digest}
    made = await call.site.forking.begin(plan, asked, initiator_of(call.principal))
    return {"retried_as": made.started.execution_id}


async def _matching(call: Bulk) -> AsyncIterator[Summary]:
    """Yield the executions that match, the newest first."""
    body, cursor, seen = call.body, None, 0
    statuses = FITTING[body.action] if body.status is None else (body.status,)
    until = moment(body.until)
    wanted = Filter(path=body.path, since=moment(body.since), labels=body.labels)
    retried: set[str] = set()  # a retry is newer than what it repeats
    while seen < MAX_SEEN:
        page = await call.site.looking.find(
            wanted,
            visible=lambda each: call.allows(CONTROL, each.playbook.get("path")),
            limit=PAGE,
            cursor=cursor,
        )
        for each in page.executions:
            if each.forked_from is not None:
                retried.add(each.forked_from["execution_id"])
            if each.status not in statuses or (until and each.started_at >= until):
                continue
            if body.action == "retry" and each.execution_id in retried:
                continue
            if await _fits(call, each):
                yield each
        seen += PAGE
        cursor = page.cursor
        if cursor is None:
            return


async def _fits(call: Bulk, each: Summary) -> bool:
    """Check what only the request of an execution tells: its trigger, and whether its
    key was run again."""
    body = call.body
    if body.trigger is None and body.action != "retry":
        return True
    caller = await call.site.looking.caller(each.execution_id)
    if body.trigger is not None:
        trigger = caller.get("trigger") or {}
        if trigger.get("name") != body.trigger:
            return False
    key = caller.get("idempotency_key")
    if body.action != "retry" or key is None:
        return True
    latest = await call.site.starting.latest(caller["principal"], key)
    return latest in (None, each.execution_id)
