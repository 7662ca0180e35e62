"""``/api/triggers``: create, list, show, pause, resume, delete and fire triggers."""

from __future__ import annotations

import msgspec

from noetl.access.initiator import initiator_of
from noetl.api.http.routes import READ as READ_EXECUTIONS
from noetl.api.http.routes import Call, Nothing, Reply, Routes, find_execution
from noetl.api.schemas.executions import StartAnswer
from noetl.api.schemas.triggers import (
    FireRequest,
    MakeTrigger,
    TriggerAnswer,
    TriggerLine,
    TriggerList,
)
from noetl.engine.times import rfc3339
from noetl.ports import Trigger
from noetl.service.triggers.admin import Fired, name_taken
from noetl.service.triggers.backfills import no_trigger
from noetl.triggers.definition import Definition
from noetl.triggers.slots import slot_name
from noetl.types import JSON

routes = Routes()

READ = "triggers:read"
WRITE = "triggers:write"
RUN = "executions:run"
_ANY = "0" * 64
"""A name below a path that stands for all of them: no grant names it alone."""


@routes.route(
    "POST",
    "/api/triggers",
    permission=WRITE,
    body=MakeTrigger,
    answers={201: TriggerAnswer, 200: TriggerAnswer},
    problems=(
        "trigger.invalid",
        "trigger.exists",
        "trigger.loop",
        "playbook.not_found",
        "playbook.invalid",
    ),
)
async def make_trigger(call: Call[MakeTrigger, Nothing]) -> Reply:
    """Create a trigger.

    It starts executions of its playbook until it is paused or deleted, with the current
    rights of its `owner`: the account that created or replaced it. An identical trigger
    gets 200, another one of the same name 409 unless `replace` is true: a replaced
    trigger keeps its token and the decided slots of its schedule.
    """
    body = call.body
    _check_rights(call, body.trigger)
    made = await call.site.arranging.make(
        body.trigger,
        initiator_of(call.principal),
        check_known=lambda known: _check_known(call, known),
        sees=lambda path: call.allows(READ, path),
        secret=body.secret,
        replace=body.replace,
    )
    answer = {**_line(made.trigger), "created": made.created, "token": made.token}
    if made.warnings:
        answer["warnings"] = list(made.warnings)
    return Reply(201 if made.created else 200, answer)


@routes.route("GET", "/api/triggers", permission=READ, answers={200: TriggerList})
async def list_triggers(call: Call[Nothing, Nothing]) -> Reply:
    """List all triggers by name."""
    found = await call.site.arranging.list_all()
    lines = [
        _line(await call.site.arranging.current(each))
        for each in found
        if call.allows(READ, each.definition.path)
    ]
    return Reply(200, {"triggers": lines})


@routes.route(
    "GET",
    "/api/triggers/{name}",
    permission=READ,
    answers={200: TriggerLine},
    problems=("trigger.unknown",),
)
async def show_trigger(call: Call[Nothing, Nothing]) -> Reply:
    """Show a trigger, with the next and last slot of a schedule."""
    trigger = await named(call, READ)
    return Reply(200, _line(await call.site.arranging.current(trigger)))


@routes.route(
    "POST",
    "/api/triggers/{name}/pause",
    permission=WRITE,
    answers={200: TriggerLine},
    problems=("trigger.unknown",),
)
async def pause_trigger(call: Call[Nothing, Nothing]) -> Reply:
    """Pause a trigger: it starts nothing until it is resumed; deliveries are
    refused."""
    name = (await named(call, WRITE)).name
    return Reply(200, _line(await call.site.arranging.pause(name)))


@routes.route(
    "POST",
    "/api/triggers/{name}/resume",
    permission=WRITE,
    answers={200: TriggerLine},
    problems=("trigger.unknown",),
)
async def resume_trigger(call: Call[Nothing, Nothing]) -> Reply:
    """Resume a trigger; slots that were due during the pause are skipped."""
    name = (await named(call, WRITE)).name
    return Reply(200, _line(await call.site.arranging.resume(name)))


@routes.route(
    "DELETE",
    "/api/triggers/{name}",
    permission=WRITE,
    answers={200: Nothing},
    problems=("trigger.unknown",),
)
async def delete_trigger(call: Call[Nothing, Nothing]) -> Reply:
    """Delete a trigger and its backfills; its executions remain."""
    await call.site.arranging.remove((await named(call, WRITE)).name)
    return Reply(200, {})


@routes.route(
    "POST",
    "/api/triggers/{name}/fire",
    permission=WRITE,
    body=FireRequest,
    answers={201: StartAnswer},
    problems=(
        "trigger.unknown",
        "trigger.invalid",
        "trigger.inputs",
        "execution.unknown",
        "playbook.forbidden",
        "playbook.invalid",
        "playbook.not_found",
        "inputs.invalid",
        "keychain.unresolved",
        "request.key_reused",
        "again.impossible",
    ),
)
async def fire_trigger(call: Call[FireRequest, Nothing]) -> Reply:
    """Fire a trigger by hand with the rights of the caller, even if it is paused.

    A slot of a schedule, or the end of an execution, has one execution: an existing one
    is returned with `Idempotent-Replayed`. With `again` its latest execution, which
    failed, is repeated, once.
    """
    trigger, body = await named(call, WRITE), call.body
    call.require(RUN, trigger.definition.path)
    if body.execution_id is not None:
        await find_execution(
            call.site, call.principal, READ_EXECUTIONS, body.execution_id
        )
    fired = Fired(**msgspec.structs.asdict(body))
    initiator = initiator_of(call.principal)
    started = await call.site.arranging.fire(trigger, fired, initiator)
    replayed = {"Idempotent-Replayed": "true"} if started.repeated else {}
    answer: dict[str, JSON] = {
        "execution_id": started.execution_id,
        "status": started.status,
    }
    if started.warnings:
        answer["warnings"] = list(started.warnings)
    if started.repeated:
        answer["repeated"] = True
    if started.superseded_by is not None:
        answer["superseded_by"] = started.superseded_by
    return Reply(201, answer, replayed)


async def named(call: Call[object, object], permission: str) -> Trigger:
    """Return the trigger that the path names; refuse a hidden one like an absent
    one."""
    trigger = await call.site.arranging.get(call.params["name"])
    path = trigger.definition.path
    if not call.allows(READ, path):
        raise no_trigger(trigger.name)
    call.require(permission, path)
    return trigger


def _check_rights(call: Call[MakeTrigger, Nothing], definition: Definition) -> None:
    """Require the rights to do by hand what the trigger does."""
    call.require(WRITE, definition.path)
    call.require(RUN, definition.path)
    places = definition.concurrency
    if places is not None and places.on_limit == "cancel_previous":
        call.require("executions:control", definition.path)
    if definition.finished is not None:
        call.require(READ_EXECUTIONS, definition.finished.path.replace("*", _ANY))


def _check_known(call: Call[MakeTrigger, Nothing], known: Trigger) -> None:
    """Refuse the name of a trigger that the caller may not see."""
    if not call.allows(READ, known.definition.path):
        raise name_taken(known.name, "choose another name")
    call.require(WRITE, known.definition.path)


def _without_nulls(plain: dict[str, JSON]) -> dict[str, JSON]:
    """Remove members that are null, except in inputs."""
    return {
        name: _without_nulls(value)
        if isinstance(value, dict) and name != "workload"
        else value
        for name, value in plain.items()
        if value is not None
    }


def _line(trigger: Trigger) -> dict[str, JSON]:
    definition = trigger.definition
    last: dict[str, JSON] | None = None
    if trigger.last_slot is not None:
        slot = slot_name(trigger.last_slot)
        last = {"slot": slot, "execution_id": trigger.last_execution}
    plain: dict[str, JSON] = msgspec.to_builtins(definition)
    return {
        "name": trigger.name,
        "kind": definition.kind,
        "playbook": definition.playbook,
        "paused": trigger.paused,
        "definition": _without_nulls(plain),
        "hook": f"/hooks/{trigger.name}" if definition.webhook is not None else None,
        "next_at": None
        if trigger.next_at is None or trigger.paused
        else slot_name(trigger.next_at),
        "last": last,
        "created_at": rfc3339(trigger.created_at),
        "created_by": trigger.created_by,
        "owner": trigger.initiator.principal,
    }
