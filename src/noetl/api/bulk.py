"""``/api/executions/bulk``: one order to all executions that match; and the removal of
old ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Annotated

import msgspec

from noetl.access.initiator import initiator_of
from noetl.api.control import CONTROL
from noetl.api.http.problems import Problem
from noetl.api.http.routes import Call, Nothing, Reply, Routes, find_execution
from noetl.api.listing import moment, shown_line, statuses_of
from noetl.api.schemas.executions import BulkAnswer, BulkRequest, Strict
from noetl.engine.events import Caller
from noetl.engine.state import ExecutionStatus
from noetl.ports import Summary
from noetl.runtime.forks.plan import Edits
from noetl.service.errors import RequestRefused
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.filters import Filter
from noetl.types import JSON

routes = Routes()

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
FILTERS = (
    *("ids", "status", "path", "text", "trigger", "caller", "parent", "roots"),
    *("labels", "since", "until"),
)
SHOWN = 20
"""Executions that a dry run describes."""


@routes.route(
    "POST",
    "/api/executions/bulk",
    permission=CONTROL,
    body=BulkRequest,
    answers={200: BulkAnswer},
    problems=("execution.unknown",),
)
async def steer_many(call: Bulk) -> Reply:
    """Cancel, pause, resume or retry executions: `ids`, or all that match the filters.

    At most `limit` of them, the newest first; `more` is true if others match. With
    `dry_run` nothing changes: `done` are those that match, `count` is their number, and
    `first` has the lines of the first 20. What was retried before, or was run again
    with its slot or key, is not retried.
    """
    body = call.body
    call.trail.add(order=body.action, **_recorded(body))
    if not any(getattr(body, name) for name in FILTERS):
        message = f"at least one of {', '.join(FILTERS[:-1])} and until is required"
        raise Problem("request.invalid", message)
    done: list[JSON] = []
    first: list[JSON] = []
    refused: list[JSON] = []
    more = False
    chosen = _matching(call) if body.ids is None else _chosen(call, body.ids)
    async for each in chosen:
        if len(done) + len(refused) == body.limit:
            more = True
            break
        line: dict[str, JSON] = {
            "execution_id": each.execution_id,
            "status": each.status,
        }
        try:
            _check_state(body, each)
            line |= await _order(call, each)
            done.append(line)
            if body.dry_run and len(first) < SHOWN:
                first.append(shown_line(call, each))
        except RequestRefused as refusal:
            status = refusal.more.get("state", each.status)
            refused.append({**line, "status": status, "reason": refusal.message})
    answer: JSON = {"done": done, "refused": refused, "more": more}
    return Reply(200, {**answer, "count": len(done), "first": first})


def _check_state(body: BulkRequest, each: Summary) -> None:
    """Raise ``RequestRefused`` if the order does not fit the status."""
    if body.ids is not None and each.status not in FITTING[body.action]:
        message = f"the execution is {each.status}: there is nothing to {body.action}"
        raise RequestRefused("execution.state", message, state=each.status)


def _recorded(body: BulkRequest) -> dict[str, JSON]:
    """Return the filters for the audit."""
    given = {name: getattr(body, name) for name in ("status", "path", "text")}
    if body.ids is not None:
        given["ids"] = len(body.ids)
    return given


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


def _filter(body: BulkRequest) -> Filter:
    """Return the filter, without its statuses: a retry of any status is looked at."""
    return Filter(
        path=body.path,
        since=moment(body.since),
        until=moment(body.until),
        text=body.text,
        trigger=body.trigger,
        parent=body.parent,
        roots=body.roots,
        labels=body.labels,
    )


def _scanned(wanted: Filter) -> Filter:
    return Filter(since=wanted.since, labels=wanted.labels)


async def _matching(call: Bulk) -> AsyncIterator[Summary]:
    """Yield the executions that match, the newest first."""
    body, wanted = call.body, _filter(call.body)
    statuses = statuses_of(body) or FITTING[body.action]
    retried: set[str] = set()  # a retry is newer than what it repeats
    async for each in call.site.looking.scan(_scanned(wanted)):
        if each is None:
            return
        if each.forked_from is not None:
            retried.add(each.forked_from["execution_id"])
        if each.status not in statuses or not _allowed(call, each):
            continue
        if not wanted.fits(each, readable=call.sees_data(each)):
            continue
        if body.action == "retry" and each.execution_id in retried:
            continue
        if await _fits(call, each):
            yield each


def _allowed(call: Bulk, each: Summary) -> bool:
    if call.site.history.is_local(each.execution_id):
        return False
    return call.sees(each) and call.allows(CONTROL, each.playbook.get("path"))


async def _chosen(call: Bulk, ids: Sequence[str]) -> AsyncIterator[Summary]:
    """Yield those of the executions that match. Raises ``RequestRefused`` or
    ``AccessError`` before the first one."""
    wanted = _filter(call.body)
    statuses = statuses_of(call.body)
    site, found = call.site, []
    for name in dict.fromkeys(ids):
        found.append(await find_execution(site, call.principal, CONTROL, name))
    for each in found:
        if statuses and each.status not in statuses:
            continue
        if wanted.fits(each) and await _fits(call, each):
            yield each


async def _fits(call: Bulk, each: Summary) -> bool:
    """Check what only the request of an execution tells: its caller, and whether its
    key was run again."""
    body = call.body
    if body.caller is None and body.action != "retry":
        return True
    caller = await call.site.looking.caller(each.execution_id)
    if body.caller not in (None, caller.get("principal")):
        return False
    key = caller.get("idempotency_key")
    if body.action != "retry" or key is None or body.ids is not None:
        return True
    latest = await call.site.starting.latest(caller["principal"], key)
    return latest in (None, each.execution_id)


REMOVE = "executions:remove"


class CleanRequest(Strict):
    """``older_than`` are seconds since the end of an execution."""

    older_than: Annotated[float, msgspec.Meta(ge=0, le=1e10)]
    dry_run: bool = False
    after: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0


class CleanAnswer(msgspec.Struct):
    """``after`` is where the next request continues; null at the end."""

    dry_run: bool
    executions: int
    events: int
    after: int | None


@routes.route(
    "POST",
    "/api/retention/clean",
    permission=REMOVE,
    body=CleanRequest,
    answers={200: CleanAnswer},
    problems=("retention.busy",),
)
async def remove_old(call: Call[CleanRequest, Nothing]) -> Reply:
    """Remove executions that ended more than `older_than` seconds ago.

    Families go together; what runs, waits, was forked, or has a longer time of its own
    in its playbook stays. One request takes some seconds: repeat it with the `after` of
    the answer until that is null. With `dry_run` nothing is removed.
    """
    call.require(REMOVE, None)
    body = call.body
    call.trail.add(older_than=body.older_than, dry_run=body.dry_run)
    done = await call.site.sweeper.clean(
        body.older_than, after=body.after, dry_run=body.dry_run
    )
    return Reply(200, {"dry_run": body.dry_run, **msgspec.to_builtins(done)})
