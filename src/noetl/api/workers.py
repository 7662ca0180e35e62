"""``/api/worker`` and ``POST /api/events``: what workers ask and report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from starlette.responses import Response

from noetl.adapters.secrets.worker_seal import WorkerSeal
from noetl.api.bodies import STREAMED, read_parts
from noetl.api.files import BYTES, send_file
from noetl.api.problems import Problem
from noetl.api.protocol import gone_check
from noetl.api.quotas import keep
from noetl.api.routing import CLAIM, Call, Nothing, Reply, Routes
from noetl.engine.report_shapes import Malformed, check_shape
from noetl.engine.reports import FACTS, Fact, check_facts
from noetl.errors import LeaseLost, SecretError
from noetl.ports import Lease
from noetl.runtime import wire

routes = Routes()

_NOT_THEIRS = ("lease.not_owner",)
_LOST = ("lease.lost", *_NOT_THEIRS)
_SECRETS = ("secret.missing", "secret.denied", "secret.unreachable", "secret.wrong")
_REFS = ("ref.not_owner", "ref.gone", "ref.corrupt")
_REFUSED = 422


class UploadQuery(Lease, frozen=True, kw_only=True):
    """The lease, and what is announced."""

    key: wire.Key
    size: Annotated[int, msgspec.Meta(ge=0, le=wire.LARGEST)]


@routes.route(
    "POST",
    "/api/worker/claim",
    permission=CLAIM,
    body=wire.Claim,
    answers={200: wire.Orders},
    problems=("request.rate",),
    recorded="never",
)
async def claim_work(call: Call[wire.Claim, Nothing]) -> Reply:
    """Lease up to `slots` pipelines of a pool; if there are none, wait for some."""
    call.require(CLAIM, call.body.pool)
    owner = _owner(call, call.body.worker)
    wait = call.site.claims.take(owner, time.monotonic())
    if wait is not None:
        headers = {"Retry-After": str(max(1, round(wait)))}
        message = "this worker asks for work too often: it may wait for an answer"
        raise Problem("request.rate", message, headers=headers)
    keep(call.request.scope, call.site.quotas.claims.take(call.principal.user_id))
    asked = msgspec.structs.replace(call.body, worker=owner)
    await call.site.roll.claims(owner, asked.pool, asked.slots, call.address)
    is_gone = gone_check(call.request.scope)
    return Reply(200, await call.site.desk.claim(asked, _seal(call), is_gone))


@routes.route(
    "POST",
    "/api/worker/heartbeat",
    permission=CLAIM,
    body=wire.Beat,
    answers={200: wire.Pulse},
    problems=_NOT_THEIRS,
    recorded="never",
)
async def beat(call: Call[wire.Beat, Nothing]) -> Reply:
    """Keep leases; the answer says which are lost, and which must be stopped."""
    call.require(CLAIM, call.body.pool)
    body = call.body
    _check_owner(call, body.leases, body.worker)
    owner = _owner(call, body.worker)
    running = len(body.leases)
    await call.site.roll.beats(owner, body.pool, body.slots, running, call.address)
    return Reply(200, await call.site.desk.beat(call.body))


@routes.route(
    "POST",
    "/api/events",
    permission=CLAIM,
    body=wire.Reports,
    answers={200: wire.Replies},
    problems=(
        *("event.too_large", "event.not_allowed", "outcome.shape"),
        *_NOT_THEIRS,
    ),
    recorded="never",
)
async def report_events(call: Call[wire.Reports, Nothing]) -> Reply:
    """Report what tasks have done, in order for each lease; each is answered."""
    body = call.body
    call.require(CLAIM, body.pool)
    if len(body.reports) > wire.MOST_REPORTS:
        message = f"at most {wire.MOST_REPORTS} reports in one call"
        raise Problem("event.too_large", message)
    _check_owner(call, [each.lease for each in body.reports], body.worker)
    for each in body.reports:
        check_facts(each.facts)
        for fact in each.facts:
            _check_fact(fact)
    asked = msgspec.structs.replace(body, worker=_owner(call, body.worker))
    return Reply(200, await call.site.desk.report(asked, _seal(call)))


@routes.route(
    "POST",
    "/api/worker/source",
    permission=CLAIM,
    body=wire.Source,
    answers={200: str},
    problems=_LOST,
    media=("application/yaml",),
    recorded="never",
)
async def show_source(call: Call[wire.Source, Nothing]) -> Response:
    """The text of the playbook that a leased pipeline belongs to."""
    _check_owner(call, [call.body.lease])
    return await _bytes(call.site.desk.source(call.body), "application/yaml")


@routes.route(
    "POST",
    "/api/worker/value",
    permission=CLAIM,
    body=wire.Value,
    answers={200: Any},
    problems=(*_LOST, *_REFS, "ref.format"),
    recorded="never",
)
async def show_value(call: Call[wire.Value, Nothing]) -> Response:
    """What a reference of a leased pipeline stands for."""
    _check_owner(call, [call.body.lease])
    return await _bytes(call.site.desk.value(call.body), "application/json")


@routes.route(
    "POST",
    "/api/worker/result",
    permission=CLAIM,
    body=wire.Result,
    answers={200: None},
    problems=(*_LOST, *_REFS),
    media=(BYTES,),
)
async def fetch_result(call: Call[wire.Result, Nothing]) -> Response:
    """The bytes of a stored value that belongs to the execution of the lease.

    With `only_look` none of them: whether the worker may read it by itself.
    """
    _check_owner(call, [call.body.lease])
    try:
        blobs = await call.site.desk.look(call.body)
    except LeaseLost as error:
        raise Problem("lease.lost", str(error)) from None
    if call.body.only_look:
        return Response(media_type=BYTES)
    return await send_file(blobs.file(call.body.key), BYTES)


@routes.route(
    "PUT",
    "/api/worker/results",
    permission=CLAIM,
    query=UploadQuery,
    answers={200: wire.Kept},
    problems=(*_LOST, "ref.corrupt", *STREAMED),
    takes=BYTES,
)
async def keep_result(call: Call[Nothing, UploadQuery]) -> Reply:
    """Store a value of a leased pipeline; its size and hash are announced.

    The store is the one that the playbook chooses, or the server's own.
    """
    query = call.query
    names = [field.name for field in msgspec.structs.fields(Lease)]
    lease = Lease(**{name: getattr(query, name) for name in names})
    _check_owner(call, [lease])
    parts = read_parts(call.request, query.size)
    try:
        asked = wire.Upload(lease, query.key, query.size)
        return Reply(200, await call.site.desk.keep(asked, parts))
    except LeaseLost as error:
        raise Problem("lease.lost", str(error)) from None


@routes.route(
    "POST",
    "/api/worker/secret",
    permission=CLAIM,
    body=wire.Fetch,
    answers={200: wire.Fetched},
    problems=(*_LOST, *_SECRETS),
    recorded="never",
)
async def fetch_secret(call: Call[wire.Fetch, Nothing]) -> Reply:
    """Look a secret up for a task; its handle, and itself, sealed for this worker."""
    _check_owner(call, [call.body.lease])
    return await _secret(call.site.desk.fetch(call.body, _seal(call)))


@routes.route(
    "POST",
    "/api/worker/token",
    permission=CLAIM,
    body=wire.Authorize,
    answers={200: wire.Authorized},
    problems=(*_LOST, *_SECRETS),
    recorded="never",
)
async def fetch_token(call: Call[wire.Authorize, Nothing]) -> Reply:
    """A token for a task that asks for OAuth2, sealed for this worker."""
    _check_owner(call, [call.body.lease])
    return await _secret(call.site.desk.authorize(call.body, _seal(call)))


def _check_fact(fact: Fact) -> None:
    """What only the server decides, and what is no outcome, goes no further."""
    if fact.name not in FACTS:
        message = f"a worker may not say '{fact.name[:80]}'"
        hint = f"it may say {', '.join(FACTS)}"
        raise Problem("event.not_allowed", message, hint=hint)
    try:
        check_shape(fact)
    except Malformed as error:
        message = f"the payload of {fact.name} does not fit: {error}"
        raise Problem("outcome.shape", message) from None


def _owner(call: Call[Any, Any], worker: str) -> str:
    """A lease belongs to a worker of an account: no other one can use it."""
    return f"{call.principal.name}/{worker}"


def _check_owner(
    call: Call[Any, Any], leases: Sequence[Lease], worker: str | None = None
) -> None:
    """Without a ``worker``, one of this account must hold them (row 70)."""
    for lease in leases:
        start, _, name = lease.owner.partition("/")
        if start != call.principal.name or worker not in (None, name):
            message = f"{lease.command_id} is not leased to this worker"
            raise Problem("lease.not_owner", message)


def _seal(call: Call[Any, Any]) -> WorkerSeal:
    return WorkerSeal(call.request.headers["authorization"].partition(" ")[2].strip())


async def _bytes(asked: Any, media: str) -> Response:
    try:
        return Response(await asked, media_type=media)
    except LeaseLost as error:
        raise Problem("lease.lost", str(error)) from None


async def _secret(asked: Any) -> Reply:
    try:
        return Reply(200, await asked)
    except LeaseLost as error:
        raise Problem("lease.lost", str(error)) from None
    except SecretError as error:
        raise Problem(error.kind, error.message, status=_REFUSED) from None
