"""``/api/worker`` and ``POST /api/events``: what workers ask and report."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from functools import cache
from typing import Annotated, Any, TypeVar

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
from noetl.errors import (
    AccessError,
    LeaseLost,
    LeaseNotOwned,
    ProtocolError,
    SecretError,
)
from noetl.ports import Name
from noetl.runtime import wire
from noetl.runtime.worker_leases import Caller

routes = Routes()

T = TypeVar("T")

_NOT_THEIRS = ("lease.not_owner",)
_LOST = ("lease.lost", *_NOT_THEIRS)
_SECRETS = ("secret.missing", "secret.denied", "secret.unreachable", "secret.wrong")
_REFS = ("ref.not_owner", "ref.gone", "ref.corrupt")
_REFUSED = 422


class UploadQuery(wire.LeaseKey, frozen=True, kw_only=True):
    """The lease, the worker that it was claimed by, and what is announced."""

    worker: Name
    key: wire.Key
    size: Annotated[int, msgspec.Meta(ge=0, le=wire.LARGEST)]


@routes.route(
    "POST",
    "/api/worker/claim",
    permission=CLAIM,
    body=wire.Claim,
    answers={200: wire.Orders},
    problems=("request.rate", "worker.version"),
    recorded="never",
)
async def claim_work(call: Call[wire.Claim, Nothing]) -> Reply:
    """Lease up to `slots` pipelines of a pool; if there are none, wait for some."""
    caller, asked = _caller(call, call.body.worker), call.body
    caller.require(asked.pool)
    wait = call.site.claims.take(caller.owner, time.monotonic())
    if wait is not None:
        headers = {"Retry-After": str(max(1, round(wait)))}
        message = "this worker asks for work too often: it may wait for an answer"
        raise Problem("request.rate", message, headers=headers)
    keep(call.request.scope, call.site.quotas.claims.take(call.principal.user_id))
    await call.site.roll.claims(caller.owner, asked.pool, asked.slots, call.address)
    is_gone = gone_check(call.request.scope)
    try:
        found = await call.site.desk.claim(caller, asked, is_gone)
    except ProtocolError as error:
        raise Problem(error.kind, str(error)) from None
    if found.orders:
        await _check_again(call, caller, found)
    return Reply(200, found)


@routes.route(
    "POST",
    "/api/worker/heartbeat",
    permission=CLAIM,
    body=wire.Beat,
    answers={200: wire.Pulse},
    recorded="never",
)
async def beat(call: Call[wire.Beat, Nothing]) -> Reply:
    """Keep leases; the answer says which are lost, and which must be stopped."""
    body, caller = call.body, _caller(call, call.body.worker)
    caller.require(body.pool)
    running, roll = len(body.leases), call.site.roll
    await roll.beats(caller.owner, body.pool, body.slots, running, call.address)
    return Reply(200, await call.site.desk.beat(caller, body))


@routes.route(
    "POST",
    "/api/events",
    permission=CLAIM,
    body=wire.Reports,
    answers={200: wire.Replies},
    problems=("event.too_large", "event.not_allowed", "outcome.shape"),
    recorded="never",
)
async def report_events(call: Call[wire.Reports, Nothing]) -> Reply:
    """Report what tasks have done, in order for each lease; each is answered."""
    body, caller = call.body, _caller(call, call.body.worker)
    caller.require(body.pool)
    if len(body.reports) > wire.MOST_REPORTS:
        message = f"at most {wire.MOST_REPORTS} reports in one call"
        raise Problem("event.too_large", message)
    for each in body.reports:
        check_facts(each.facts)
        for fact in each.facts:
            _check_fact(fact)
    return Reply(200, await call.site.desk.report(caller, body))


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
    text = await _held(call.site.desk.source(*_asked(call)))
    return Response(text, media_type="application/yaml")


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
    value = await _held(call.site.desk.value(*_asked(call)))
    return Response(value, media_type="application/json")


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
    blobs = await _held(call.site.desk.look(*_asked(call)))
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
    lease = wire.LeaseKey(query.command_id, query.epoch)
    asked = wire.Upload(query.worker, lease, query.key, query.size)
    parts = read_parts(call.request, query.size)
    caller = _caller(call, query.worker)
    return Reply(200, await _held(call.site.desk.keep(caller, asked, parts)))


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
    """Look up what a `secrets` task of the leased step names: its handle, and the
    secret, sealed for this worker."""
    return Reply(200, await _held(call.site.desk.fetch(*_asked(call))))


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
    """A token for a task of the leased step that has `auth` of the type `oauth2`,
    sealed for this worker."""
    return Reply(200, await _held(call.site.desk.authorize(*_asked(call))))


async def _check_again(
    call: Call[wire.Claim, Nothing], caller: Caller, found: wire.Orders
) -> None:
    """Give work back that came when the worker's right to it had ended. Raises
    ``AccessError``."""
    asked = call.body
    try:
        _caller(await call.renewed(), asked.worker).require(asked.pool)
    except AccessError:
        leases = [each.lease for each in found.orders]
        leaving = wire.Beat(asked.worker, asked.pool, asked.slots, leases, leaving=True)
        await call.site.desk.beat(caller, leaving)
        raise


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


def _caller(call: Call[Any, Any], worker: str) -> Caller:
    """The owner of leases: a worker of this account. Names of accounts have no ``/`` in
    them, so those of two workers never come out the same."""
    token = call.request.headers.get("authorization", "").partition(" ")[2].strip()
    allows = cache(lambda pool: call.allows(CLAIM, pool))
    return Caller(f"{call.principal.name}/{worker}", allows, WorkerSeal(token))


def _asked(call: Call[Any, Any]) -> tuple[Caller, Any]:
    return _caller(call, call.body.worker), call.body


async def _held(asked: Awaitable[T]) -> T:
    """What the desk answers under a lease; what it refuses, as a problem."""
    try:
        return await asked
    except (LeaseLost, LeaseNotOwned) as error:
        raise Problem(error.kind, str(error)) from None
    except SecretError as error:
        raise Problem(error.kind, error.message, status=_REFUSED) from None
