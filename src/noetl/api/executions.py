"""``/api/executions``: start and show executions."""

from __future__ import annotations

import time

import msgspec
from starlette.responses import Response

from noetl.access.initiator import initiator_of
from noetl.access.permissions import require_somewhere
from noetl.api.http.problems import Problem
from noetl.api.http.quotas import keep
from noetl.api.http.routes import READ, Call, Nothing, Reply, Routes
from noetl.api.schemas.executions import (
    ExecutionDocument,
    Key,
    StartAnswer,
    StartQuery,
    StartRequest,
    StateDocument,
    StateQuery,
)
from noetl.dsl.source import MAX_BYTES
from noetl.engine.limits import CODE_KINDS
from noetl.engine.steps.concurrency import Concurrency, why_not_key
from noetl.ports import Summary
from noetl.service.executions.sensitive import hide_in_document
from noetl.service.executions.start import ResolvedPlaybook, StartInputs, missing
from noetl.service.executions.views.states import PARTS
from noetl.telemetry.trace_context import HEADER, read_traceparent
from noetl.types import JSON

routes = Routes()

YAML = "application/yaml"
INLINE = "playbooks:write"
"""The permission to run an inline playbook, whose author is the caller."""


@routes.route(
    "POST",
    "/api/executions",
    permission="executions:run",
    body=StartRequest,
    query=StartQuery,
    answers={201: StartAnswer},
    problems=(
        "playbook.invalid",
        "playbook.not_found",
        "inputs.invalid",
        "keychain.unresolved",
        "concurrency.key",
        "concurrency.taken",
        "request.key_reused",
        "again.impossible",
        "quota.executions",
        "request.rate",
    ),
    recorded="log",
)
async def start_execution(call: Call[StartRequest, StartQuery]) -> Reply:
    """Start an execution of a registered playbook, or of an inline playbook.

    A refused request is recorded, too: the problem names the execution. With an
    idempotency key (in the body, or as the header `Idempotency-Key`) a repeated request
    gets the same execution and the header `Idempotent-Replayed`. `concurrency` limits
    how many executions of the playbook with that key run: a further one is `waiting`
    until its turn, replaces an earlier one, or is refused. With `wait` the answer comes
    when the execution has ended, with its result or error, or after that number of
    seconds. With a header `traceparent` (W3C) the execution belongs to that trace.
    """
    body, key = call.body, _key(call)
    _check(body)
    if body.playbook is not None:
        require_somewhere(call.principal, INLINE)
    elif body.path is not None:
        call.require("executions:run", body.path)
    wait = call.site.pace.take(call.principal.user_id, time.monotonic())
    if wait is not None:
        headers = {"Retry-After": str(max(1, round(wait)))}
        message = "too many executions were started; slow down"
        raise Problem("request.rate", message, headers=headers)
    if call.query.wait:
        keep(call.request.scope, call.site.quotas.streams.take(call.principal.user_id))
    members = msgspec.structs.asdict(body)
    del members["idempotency_key"], members["again"]
    members["concurrency"] = _concurrency(body)
    asked = StartInputs(**members)
    caller, ignored = read_traceparent(call.headers.get(HEADER), f"header {HEADER}")
    found = await call.site.starting.resolve(asked)
    if body.playbook_id is not None and found.refusal is None:
        found = _theirs(call, asked, found)
    _check_rights(call, found)
    started = await call.site.starting.start(
        asked,
        found,
        call.principal.name,
        initiator_of(call.principal),
        key,
        call.address,
        again=body.again,
        trace=caller,
    )
    answer: dict[str, JSON] = {
        "execution_id": started.execution_id,
        "status": started.status,
    }
    if started.warnings or ignored:
        answer["warnings"] = [*started.warnings, *filter(None, [ignored])]
    if started.repeated:
        answer["repeated"] = True
    if started.superseded_by is not None:
        answer["superseded_by"] = started.superseded_by
    if call.query.wait:
        answer |= await _end(call, started.execution_id, call.query.wait)
        renewed = await call.renewed()  # the request may have waited for a long time
        renewed.require(READ, found.entry.about.get("path"))
    headers = {"Location": f"/api/executions/{started.execution_id}"}
    if started.repeated:
        headers["Idempotent-Replayed"] = "true"
    return Reply(201, answer, headers)


async def _end(
    call: Call[StartRequest, StartQuery], execution_id: str, seconds: float
) -> dict[str, JSON]:
    """Return the result or error; empty if the execution does not end in time."""
    if call.site.starting.is_loaded(execution_id):
        end = await call.site.streams.end(execution_id, seconds)
        if end is not None:
            return {name: end.payload[name] for name in ("status", "result", "error")}
    summary = await call.site.looking.summary(execution_id)
    if summary.finished_at is None:
        return {"status": summary.status}
    document = await call.site.looking.document(execution_id)
    return {name: document[name] for name in ("status", "result", "error")}


@routes.route(
    "GET",
    "/api/executions/{execution_id}",
    permission=READ,
    answers={200: ExecutionDocument},
    problems=("execution.unknown",),
    hides=True,
)
async def show_execution(call: Call[Nothing, Nothing]) -> Reply:
    """Show an execution: status, steps, result and error.

    For a playbook with `metadata.sensitive: true` the data are shown to callers with
    `payloads:read` only; other calls about such an execution are refused.
    """
    document = await call.site.looking.document(named(call).execution_id)
    if not call.sees_data(named(call)):
        document = hide_in_document(document)
    return Reply(200, document)


@routes.route(
    "GET",
    "/api/executions/{execution_id}/state",
    permission=READ,
    query=StateQuery,
    answers={200: StateDocument},
    problems=("execution.unknown",),
)
async def show_state(call: Call[Nothing, StateQuery]) -> Reply:
    """Show the state at the end of the log, or after the event `at`.

    With `parts` (`ctx`, `tokens`, `runs`, `loops`, separated by commas) the answer has
    these members only, at most 500 items of each; a value above 4 KiB is
    `{$cut: bytes, head}`, and `totals` counts all items.
    """
    query, parts = call.query, None
    if query.parts is not None:
        parts = query.parts.split(",")
        unknown = [each for each in parts if each not in PARTS]
        if unknown:
            message = f"unknown part '{unknown[0]}'"
            hint, more = f"parts: {', '.join(PARTS)}", {"parameter": "parts"}
            raise Problem("query.invalid", message, hint=hint, more=more)
    name = named(call).execution_id
    return Reply(200, await call.site.states.show(name, query.at, parts))


@routes.route(
    "GET",
    "/api/executions/{execution_id}/playbook",
    permission="playbooks:read",
    answers={200: str},
    problems=("execution.unknown", "ref.gone", "ref.corrupt"),
    media=(YAML,),
    hides=True,
)
async def show_execution_playbook(call: Call[Nothing, Nothing]) -> Response:
    """Return the source of the executed playbook, as it was at the start."""
    text = await call.site.looking.source(named(call).execution_id)
    return Response(text, media_type=YAML)


def named(call: Call[object, object]) -> Summary:
    """Return the execution that the path names."""
    assert call.execution is not None
    return call.execution


def check_size(text: str) -> None:
    """Raise ``Problem`` if the playbook is too large (S-70)."""
    size = len(text.encode())
    if size > MAX_BYTES:
        message = f"the playbook has {size:,} bytes, the limit is {MAX_BYTES:,}"
        raise Problem("request.too_large", message)


def _check(body: StartRequest) -> None:
    given = [
        name
        for name in ("path", "playbook_id", "playbook")
        if getattr(body, name) is not None
    ]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        message = f"one of path, playbook_id and playbook is required, found {found}"
        raise Problem("request.invalid", message)
    if body.version is not None and body.path is None:
        raise Problem("request.invalid", "version requires path")
    if body.playbook is not None:
        check_size(body.playbook)


def _concurrency(body: StartRequest) -> Concurrency | None:
    asked = body.concurrency
    if asked is None:
        return None
    problem = why_not_key(asked.key)
    if problem is not None:
        raise Problem("request.invalid", f"concurrency.key: {problem}")
    return Concurrency(asked.key, asked.limit, asked.on_limit)


def _theirs(
    call: Call[StartRequest, StartQuery], asked: StartInputs, found: ResolvedPlaybook
) -> ResolvedPlaybook:
    """Refuse a playbook that the caller may not see like an absent one (row 64)."""
    path = found.entry.about.get("path")
    if not call.allows("playbooks:read", path):
        return missing(asked)
    call.require("executions:run", path)
    return found


def _check_rights(
    call: Call[StartRequest, StartQuery], found: ResolvedPlaybook
) -> None:
    """Check the rights for an inline playbook, whose path is known only now."""
    about = found.entry.about
    path = about.get("path")
    if call.body.playbook is not None:
        call.require(INLINE, path)
    places = call.body.concurrency
    if (
        places is not None
        and places.on_limit == "cancel_previous"
        and found.refusal is None
    ):
        call.require("executions:control", path)
    playbook = found.entry.playbook
    if call.body.playbook is not None and playbook is not None:
        require_code(call, playbook_kinds(found), path)


def playbook_kinds(found: ResolvedPlaybook) -> set[str]:
    playbook = found.entry.playbook
    steps = playbook.workflow if playbook is not None else ()
    return {task.kind for step in steps for task in step.tasks}


def require_code(call: Call[object, object], kinds: set[str], path: str | None) -> None:
    """Require the permission to run code (RELIABILITY 4.3)."""
    if kinds & CODE_KINDS:
        call.require("tools:code", path)


def _key(call: Call[StartRequest, StartQuery]) -> str | None:
    headers = call.request.headers.getlist("idempotency-key")
    given = {key for key in [*headers, call.body.idempotency_key] if key is not None}
    if len(given) > 1:
        message = "the idempotency keys of header and body differ"
        raise Problem("request.invalid", message)
    for key in given:
        try:
            return msgspec.convert(key, Key)
        except msgspec.ValidationError:
            message = "an idempotency key is 1 to 255 printable characters, no spaces"
            raise Problem("request.invalid", message) from None
    return None
