"""``/api/backfills``: start, stop, resume and show backfills of a schedule."""

from __future__ import annotations

from noetl.api.http.routes import Call, Nothing, Reply, Routes
from noetl.api.schemas.triggers import (
    BackfillLine,
    BackfillList,
    MakeBackfill,
    TriggerFilter,
)
from noetl.api.triggers import READ, RUN, WRITE
from noetl.engine.times import rfc3339
from noetl.ports import Backfill
from noetl.service.errors import RequestRefused
from noetl.service.triggers.backfills import no_backfill, no_trigger
from noetl.triggers.slots import slot_name
from noetl.types import JSON

routes = Routes()


@routes.route(
    "POST",
    "/api/backfills",
    permission=WRITE,
    body=MakeBackfill,
    answers={201: BackfillLine},
    problems=("trigger.unknown", "trigger.kind", "backfill.range"),
)
async def begin_backfill(call: Call[MakeBackfill, Nothing]) -> Reply:
    """Run the slots of a schedule from `since` until `until` that have no execution,
    with `failed` also those whose latest execution failed.

    At most `at_once` of them run at the same time.
    """
    body = call.body
    trigger = await call.site.arranging.get(body.trigger)
    path = trigger.definition.path
    if not call.allows(READ, path):
        raise no_trigger(trigger.name)
    call.require(WRITE, path)
    call.require(RUN, path)
    backfill = await call.site.backfills.begin(
        trigger,
        body.since,
        body.until,
        body.at_once,
        call.principal.name,
        failed=body.failed,
    )
    return Reply(201, _line(backfill))


@routes.route(
    "GET",
    "/api/backfills",
    permission=READ,
    query=TriggerFilter,
    answers={200: BackfillList},
)
async def list_backfills(call: Call[Nothing, TriggerFilter]) -> Reply:
    """List backfills, the newest first; with `trigger`, those of one trigger."""
    paths = {
        each.name: each.definition.path for each in await call.site.arranging.list_all()
    }
    found = await call.site.backfills.list_all(call.query.trigger)
    lines = [
        _line(each)
        for each in found
        if each.trigger in paths and call.allows(READ, paths[each.trigger])
    ]
    return Reply(200, {"backfills": lines})


@routes.route(
    "GET",
    "/api/backfills/{backfill_id}",
    permission=READ,
    answers={200: BackfillLine},
    problems=("backfill.unknown",),
)
async def show_backfill(call: Call[Nothing, Nothing]) -> Reply:
    """Show the progress of a backfill."""
    return Reply(200, _line(await _named(call, READ)))


@routes.route(
    "POST",
    "/api/backfills/{backfill_id}/stop",
    permission=WRITE,
    answers={200: BackfillLine},
    problems=("backfill.unknown", "backfill.state"),
)
async def stop_backfill(call: Call[Nothing, Nothing]) -> Reply:
    """Stop a backfill: running executions finish, no new one starts."""
    backfill_id = (await _named(call, WRITE)).backfill_id
    return Reply(200, _line(await call.site.backfills.stop(backfill_id)))


@routes.route(
    "POST",
    "/api/backfills/{backfill_id}/resume",
    permission=WRITE,
    answers={200: BackfillLine},
    problems=("backfill.unknown", "backfill.state"),
)
async def resume_backfill(call: Call[Nothing, Nothing]) -> Reply:
    """Continue a stopped backfill."""
    backfill_id = (await _named(call, WRITE)).backfill_id
    return Reply(200, _line(await call.site.backfills.resume(backfill_id)))


async def _named(call: Call[object, object], permission: str) -> Backfill:
    backfill = await call.site.backfills.get(call.params["backfill_id"])
    try:
        path = (await call.site.arranging.get(backfill.trigger)).definition.path
    except RequestRefused:  # the trigger is being deleted, and its backfills with it
        raise no_backfill() from None
    if not call.allows(READ, path):
        raise no_backfill()
    call.require(permission, path)
    return backfill


def _line(backfill: Backfill) -> dict[str, JSON]:
    progress = backfill.progress
    return {
        "backfill_id": backfill.backfill_id,
        "trigger": backfill.trigger,
        "state": backfill.state,
        "since": slot_name(backfill.since),
        "until": slot_name(backfill.until),
        "at_once": backfill.at_once,
        "total": backfill.total,
        "present": progress.present,
        "started": progress.started,
        "running": len(progress.flights),
        "completed": progress.completed,
        "failed": progress.failed,
        "left": max(0, backfill.total - progress.present - progress.started),
        "created_at": rfc3339(backfill.created_at),
        "created_by": backfill.created_by,
    }
