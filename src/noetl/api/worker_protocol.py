"""``/api/worker`` and ``POST /api/events``: the protocol of workers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.responses import Response

from noetl.access.permissions import allows
from noetl.adapters.secrets.aes_gcm import WorkerSeal
from noetl.api.http.problems import Problem
from noetl.api.http.protocol import gone_check
from noetl.api.http.quotas import keep
from noetl.api.http.request_body import STREAMED, read_parts
from noetl.api.http.responses import BYTES, send_file
from noetl.api.http.routes import CLAIM, Call, Nothing, Reply, Routes
from noetl.engine.reports.accept import FACTS, Fact, check_facts
from noetl.engine.reports.checks import Malformed, check_shapes
from noetl.errors import (
    AccessError,
    LeaseLost,
    LeaseNotOwned,
    ProtocolError,
    SecretError,
)
from noetl.ports import Name
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.leases import Caller

routes = Routes()

T = TypeVar("T")

_NOT_THEIRS = ("lease.not_owner",)
_LOST = ("lease.lost", *_NOT_THEIRS)
_SECRETS = ("secret.missing", "secret.denied", "secret.unreachable", "secret.wrong")
_REFS = ("ref.not_owner", "ref.gone", "ref.corrupt")
_REFUSED = 422


class UploadQuery(messages.LeaseKey, frozen=True, kw_only=True):
    """Lease, worker, size and hash of an upload."""

    worker: Name
    key: messages.Key
    size: Annotated[int, msgspec.Meta(ge=0, le=messages.MAX_UPLOAD_BYTES)]


@routes.route(
    "POST",
    "/api/worker/claim",
    permission=CLAIM,
    body=messages.ClaimRequest,
    answers={200: messages.ClaimReply},
    problems=("request.rate", "worker.version"),
    recorded="never",
)
async def claim_work(call: Call[messages.ClaimRequest, Nothing]) -> Reply:
    """Lease up to `slots` pipelines of a pool; wait for work if there is none."""
    caller, asked = _caller(call, call.body.worker), call.body
    caller.require(asked.pool)
    wait = call.site.claims.take(caller.owner, time.monotonic())
    if wait is not None:
        headers = {"Retry-After": str(max(1, round(wait)))}
        message = "this worker claims too often: use long polling"
        raise Problem("request.rate", message, headers=headers)
    keep(call.request.scope, call.site.quotas.claims.take(call.principal.user_id))
    await call.site.roll.claims(caller.owner, asked.pool, asked.slots, call.address)
    is_gone = gone_check(call.request.scope)
    try:
        found = await call.site.gateway.claim(caller, asked, is_gone)
    except ProtocolError as error:
        raise Problem(error.kind, str(error)) from None
    if found.work:
        await _check_again(call, caller, found)
    return Reply(200, found)


@routes.route(
    "POST",
    "/api/worker/heartbeat",
    permission=CLAIM,
    body=messages.Heartbeat,
    answers={200: messages.HeartbeatReply},
    recorded="never",
)
async def heartbeat(call: Call[messages.Heartbeat, Nothing]) -> Reply:
    """Renew leases; the answer lists the lost leases and those to stop."""
    body, caller = call.body, _caller(call, call.body.worker)
    caller.require(body.pool)
    running, roll = len(body.leases), call.site.roll
    await roll.beats(caller.owner, body.pool, body.slots, running, call.address)
    return Reply(200, await call.site.gateway.heartbeat(caller, body))


@routes.route(
    "POST",
    "/api/events",
    permission=CLAIM,
    body=messages.ReportBatch,
    answers={200: messages.ReportBatchReply},
    problems=("event.too_large", "event.not_allowed", "outcome.shape"),
    recorded="never",
)
async def report_events(call: Call[messages.ReportBatch, Nothing]) -> Reply:
    """Report outcomes of tasks, in order for each lease; each gets an answer."""
    body = call.body
    if len(body.reports) > messages.MAX_REPORTS:
        message = f"a call may hold at most {messages.MAX_REPORTS} reports"
        raise Problem("event.too_large", message)
    for each in body.reports:
        check_facts(each.facts)
        _check_shapes(each.facts)
    caller = _caller(call, body.worker)
    return Reply(200, await call.site.gateway.report(caller, body))


@routes.route(
    "POST",
    "/api/worker/logs",
    permission=CLAIM,
    body=messages.LogBatch,
    answers={200: messages.LogBatchReply},
    recorded="never",
)
async def append_logs(call: Call[messages.LogBatch, Nothing]) -> Reply:
    """Append what tasks of leased pipelines print; the answer lists the commands whose
    leases the worker does not hold."""
    caller = _caller(call, call.body.worker)
    return Reply(200, await call.site.gateway.log(caller, call.body))


@routes.route(
    "POST",
    "/api/worker/source",
    permission=CLAIM,
    body=messages.PlaybookRequest,
    answers={200: str},
    problems=_LOST,
    media=("application/yaml",),
    recorded="never",
)
async def show_source(call: Call[messages.PlaybookRequest, Nothing]) -> Response:
    """Return the source of a leased pipeline's playbook."""
    text = await _held(call.site.gateway.playbook(*_asked(call)))
    return Response(text, media_type="application/yaml")


@routes.route(
    "POST",
    "/api/worker/value",
    permission=CLAIM,
    body=messages.ValueRequest,
    answers={200: Any},
    problems=(*_LOST, *_REFS, "ref.format"),
    recorded="never",
)
async def show_value(call: Call[messages.ValueRequest, Nothing]) -> Response:
    """Return the value of a reference of a leased pipeline."""
    value = await _held(call.site.gateway.value(*_asked(call)))
    return Response(value, media_type="application/json")


@routes.route(
    "POST",
    "/api/worker/result",
    permission=CLAIM,
    body=messages.BlobRequest,
    answers={200: None},
    problems=(*_LOST, *_REFS),
    media=(BYTES,),
)
async def fetch_result(call: Call[messages.BlobRequest, Nothing]) -> Response:
    """Return the bytes of a stored value that belongs to the execution of the lease.

    With `only_check` the body is empty: the answer tells if the worker may read the
    value itself.
    """
    blobs = await _held(call.site.gateway.blob(*_asked(call)))
    if call.body.only_check:
        return Response(media_type=BYTES)
    return await send_file(blobs.file(call.body.key), BYTES)


@routes.route(
    "PUT",
    "/api/worker/results",
    permission=CLAIM,
    query=UploadQuery,
    answers={200: messages.UploadReply},
    problems=(*_LOST, "ref.corrupt", *STREAMED),
    takes=BYTES,
)
async def keep_result(call: Call[Nothing, UploadQuery]) -> Reply:
    """Store a value of a leased pipeline; its size and hash are announced.

    The playbook may choose the store; the default is the server's own.
    """
    query = call.query
    lease = messages.LeaseKey(query.command_id, query.epoch)
    asked = messages.UploadRequest(query.worker, lease, query.key, query.size)
    parts = read_parts(call.request, query.size)
    caller = _caller(call, query.worker)
    return Reply(200, await _held(call.site.gateway.upload(caller, asked, parts)))


@routes.route(
    "POST",
    "/api/worker/secret",
    permission=CLAIM,
    body=messages.SecretRequest,
    answers={200: messages.SecretReply},
    problems=(*_LOST, *_SECRETS),
    recorded="never",
)
async def fetch_secret(call: Call[messages.SecretRequest, Nothing]) -> Reply:
    """Resolve the secret of a `secrets` task: its handle, and its value, sealed for
    this worker."""
    return Reply(200, await _held(call.site.gateway.secret(*_asked(call))))


@routes.route(
    "POST",
    "/api/worker/token",
    permission=CLAIM,
    body=messages.TokenRequest,
    answers={200: messages.TokenReply},
    problems=(*_LOST, *_SECRETS),
    recorded="never",
)
async def fetch_token(call: Call[messages.TokenRequest, Nothing]) -> Reply:
    """Return an `oauth2` token for a task of the leased step, sealed for this
    worker."""
    return Reply(200, await _held(call.site.gateway.token(*_asked(call))))


@routes.route(
    "POST",
    "/api/worker/permit",
    permission=CLAIM,
    body=messages.PermitRequest,
    answers={200: messages.PermitReply},
    problems=_LOST,
    recorded="never",
)
async def permit_call(call: Call[messages.PermitRequest, Nothing]) -> Reply:
    """Permit one call of a tool under its rate and slots, or return when the worker may
    ask again."""
    return Reply(200, await _held(call.site.gateway.permit(*_asked(call))))


async def _check_again(
    call: Call[messages.ClaimRequest, Nothing],
    caller: Caller,
    found: messages.ClaimReply,
) -> None:
    """Return the work if the worker lost its rights in the meantime. Raises
    ``AccessError``."""
    asked = call.body
    try:
        _caller(await call.renewed(), asked.worker).require(asked.pool)
    except AccessError:
        leases = [each.lease for each in found.work]
        leaving = messages.Heartbeat(
            asked.worker, asked.pool, asked.slots, leases, leaving=True
        )
        await call.site.gateway.heartbeat(caller, leaving)
        raise


def _check_shapes(facts: Sequence[Fact]) -> None:
    """Refuse events that only the server decides, and malformed outcomes."""
    for fact in facts:
        if fact.name not in FACTS:
            message = f"a worker may not report '{fact.name[:80]}'"
            hint = f"allowed events: {', '.join(FACTS)}"
            raise Problem("event.not_allowed", message, hint=hint)
    try:
        check_shapes(facts)
    except Malformed as error:
        raise Problem("outcome.shape", str(error)) from None


def _caller(call: Call[Any, Any], worker: str) -> Caller:
    """Return the owner of leases: account and worker. Account names have no ``/``, so
    that two workers never share a name."""
    [shown] = call.headers.get("authorization") or [""]
    token = shown.partition(" ")[2].strip()
    principal, known = call.principal, dict[str, bool]()

    def may_claim(pool: str) -> bool:
        found = known.get(pool)
        if found is None:
            found = known[pool] = allows(principal, CLAIM, pool)
        return found

    return Caller(f"{principal.name}/{worker}", may_claim, WorkerSeal(token))


def _asked(call: Call[Any, Any]) -> tuple[Caller, Any]:
    return _caller(call, call.body.worker), call.body


async def _held(asked: Awaitable[T]) -> T:
    """The gateway's answer under a lease; its refusal as a problem."""
    try:
        return await asked
    except (LeaseLost, LeaseNotOwned) as error:
        raise Problem(error.kind, str(error)) from None
    except SecretError as error:
        raise Problem(error.kind, error.message, status=_REFUSED) from None
