"""``/api/executions``: start, list, look."""

from __future__ import annotations

import time
from datetime import datetime

import msgspec
from starlette.responses import Response

from noetl.access.initiators import initiator_of
from noetl.api.problems import Problem
from noetl.api.quotas import keep
from noetl.api.routing import READ, Call, Nothing, Reply, Routes
from noetl.api.shapes import (
    ExecutionDocument,
    ExecutionList,
    Key,
    ListQuery,
    StartAnswer,
    StartQuery,
    StartRequest,
    StateDocument,
    StateQuery,
)
from noetl.dsl.source import MAX_BYTES
from noetl.engine.concurrency import Concurrency, why_not_key
from noetl.engine.times import rfc3339
from noetl.ports import Summary, summary_document
from noetl.service.looking import Filter, waiting_document
from noetl.service.sensitive import hide_in_document, hide_in_line
from noetl.service.starting import Asked, Found, missing
from noetl.types import JSON

routes = Routes()

YAML = "application/yaml"
INLINE = "playbooks:write"
"""Whoever runs a text of their own is its author."""


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
        "keychain.unresolved",
        "concurrency.key",
        "concurrency.taken",
        "request.key_reused",
        "request.rate",
    ),
    recorded="log",
)
async def start_execution(call: Call[StartRequest, StartQuery]) -> Reply:
    """Start an execution of a registered playbook, or of a text.

    A request that cannot be granted is on record, too: the problem names the
    execution. With an idempotency key (in the body, or as the header
    `Idempotency-Key`) a repeated request gets the same execution, and the header
    `Idempotent-Replayed`. With `concurrency` no more executions of the playbook with
    that key are under way than its limit: one more is `waiting` until its turn, takes
    the place of an earlier one, or is refused. With `wait` the answer comes when the
    execution has ended, with its result or error, or after so many seconds.
    """
    body, key = call.body, _key(call)
    _check(body)
    if body.playbook is not None:
        call.site.access.may(call.principal, INLINE)
    elif body.path is not None:
        call.require("executions:run", body.path)
    wait = call.site.pace.take(call.principal.user_id, time.monotonic())
    if wait is not None:
        headers = {"Retry-After": str(max(1, round(wait)))}
        message = "too many executions were started; go on more slowly"
        raise Problem("request.rate", message, headers=headers)
    if call.query.wait:
        keep(call.request.scope, call.site.quotas.streams.take(call.principal.user_id))
    members = msgspec.structs.asdict(body)
    del members["idempotency_key"]
    members["concurrency"] = _concurrency(body)
    asked = Asked(**members)
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
    )
    answer: dict[str, JSON] = {
        "execution_id": started.execution_id,
        "status": started.status,
    }
    if call.query.wait:
        answer |= await _end(call, started.execution_id, call.query.wait)
        renewed = await call.renewed()  # it may have waited for long
        renewed.require(READ, found.entry.about.get("path"))
    headers = {"Location": f"/api/executions/{started.execution_id}"}
    if started.repeated:
        headers["Idempotent-Replayed"] = "true"
    return Reply(201, answer, headers)


async def _end(
    call: Call[StartRequest, StartQuery], execution_id: str, seconds: float
) -> dict[str, JSON]:
    """How it ended; nothing if it has not, in this time."""
    if call.site.starting.is_under_way(execution_id):
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
    "/api/executions",
    permission=READ,
    query=ListQuery,
    answers={200: ExecutionList},
)
async def list_executions(call: Call[Nothing, ListQuery]) -> Reply:
    """List executions, the newest first.

    `path` is one playbook, or `sales/*` for all below; `since` is a time. Give the
    answer's `cursor` for the next page. With `waiting` there are only those that wait
    for something, and `waits` says for what; a page may have fewer than `limit`.
    """
    query = call.query
    wanted = Filter(status=query.status, path=query.path, since=moment(query.since))
    if query.waiting:
        page, waits = await call.site.looking.find_waiting(
            wanted, visible=call.sees, limit=query.limit, cursor=query.cursor
        )
        lines = [
            _shown(call, each, waiting_document(each, waits))
            for each in page.executions
        ]
        return Reply(200, {"executions": lines, "cursor": page.cursor})
    page = await call.site.looking.find(
        wanted, visible=call.sees, limit=query.limit, cursor=query.cursor
    )
    lines = [_shown(call, each, summary_document(each)) for each in page.executions]
    return Reply(200, {"executions": lines, "cursor": page.cursor})


@routes.route(
    "GET",
    "/api/executions/{execution_id}",
    permission=READ,
    answers={200: ExecutionDocument},
    problems=("execution.unknown",),
    hides=True,
)
async def show_execution(call: Call[Nothing, Nothing]) -> Reply:
    """The document of an execution: status, steps, result, error.

    Of a playbook with `metadata.sensitive: true` the data are there for callers with
    `payloads:read` only; every other call about such an execution is refused to others.
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
    """The state as the log adds up to it, at its end or at the event `at`."""
    execution_id = named(call).execution_id
    return Reply(200, await call.site.looking.state(execution_id, call.query.at))


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
    """The text of the playbook that is executed, as it was when it began."""
    text = await call.site.looking.source(named(call).execution_id)
    return Response(text, media_type=YAML)


def _shown(
    call: Call[Nothing, ListQuery], summary: Summary, line: dict[str, JSON]
) -> dict[str, JSON]:
    return line if call.sees_data(summary) else hide_in_line(line)


def named(call: Call[object, object]) -> Summary:
    """The execution that the path names."""
    assert call.execution is not None
    return call.execution


def moment(time: datetime | None) -> str | None:
    return None if time is None else rfc3339(time.timestamp())


def check_size(text: str) -> None:
    """A playbook has a limit of its own (S-70)."""
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
        message = f"one of path, playbook_id and playbook is needed, found {found}"
        raise Problem("request.invalid", message)
    if body.version is not None and body.path is None:
        raise Problem("request.invalid", "version goes with path")
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


def _theirs(call: Call[StartRequest, StartQuery], asked: Asked, found: Found) -> Found:
    """A playbook that they cannot see is not there, whatever its id (row 64)."""
    path = found.entry.about.get("path")
    if not call.allows("playbooks:read", path):
        return missing(asked)
    call.require("executions:run", path)
    return found


def _check_rights(call: Call[StartRequest, StartQuery], found: Found) -> None:
    """Of a text, the path is known only now."""
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


def playbook_kinds(found: Found) -> set[str]:
    playbook = found.entry.playbook
    steps = playbook.workflow if playbook is not None else ()
    return {task.kind for step in steps for task in step.tasks}


def require_code(call: Call[object, object], kinds: set[str], path: str | None) -> None:
    """Who brings code needs the right to (RELIABILITY 4.3)."""
    if kinds & {"python", "script", "shell"}:
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
            message = "an idempotency key has 1 to 255 printable characters, no spaces"
            raise Problem("request.invalid", message) from None
    return None
