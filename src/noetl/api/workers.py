"""``/api/worker`` and ``POST /api/events``: what workers ask and report."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from noetl.adapters.secrets.worker_seal import WorkerSeal
from noetl.api.problems import Problem
from noetl.api.routing import Call, Nothing, Reply, Routes
from noetl.errors import LeaseLost, SecretError
from noetl.runtime import wire

routes = Routes()

CLAIM = "work:claim"
_LOST = ("lease.lost",)
_SECRETS = ("secret.missing", "secret.denied", "secret.unreachable", "secret.wrong")
_REFUSED = 422


@routes.route(
    "POST",
    "/api/worker/claim",
    permission=CLAIM,
    body=wire.Claim,
    answers={200: wire.Orders},
)
async def claim_work(call: Call[wire.Claim, Nothing]) -> Reply:
    """Lease up to `slots` pipelines of a pool; if there are none, wait for some."""
    call.require(CLAIM, call.body.pool)
    return Reply(200, await _claim(call))


@routes.route(
    "POST",
    "/api/worker/heartbeat",
    permission=CLAIM,
    body=wire.Beat,
    answers={200: wire.Pulse},
)
async def beat(call: Call[wire.Beat, Nothing]) -> Reply:
    """Keep leases; the answer says which are lost, and which must be stopped."""
    call.require(CLAIM, call.body.pool)
    return Reply(200, await call.site.desk.beat(call.body))


@routes.route(
    "POST",
    "/api/events",
    permission=CLAIM,
    body=wire.Reports,
    answers={200: wire.Replies},
    problems=("event.too_large",),
)
async def report_events(call: Call[wire.Reports, Nothing]) -> Reply:
    """Report what tasks have done, in order for each lease; each is answered."""
    call.require(CLAIM, call.body.pool)
    if len(call.body.reports) > wire.MOST_REPORTS:
        message = f"at most {wire.MOST_REPORTS} reports in one call"
        raise Problem("event.too_large", message)
    return Reply(200, await call.site.desk.report(call.body, _seal(call)))


@routes.route(
    "POST",
    "/api/worker/source",
    permission=CLAIM,
    body=wire.Source,
    answers={200: str},
    problems=_LOST,
    media=("application/yaml",),
)
async def show_source(call: Call[wire.Source, Nothing]) -> Response:
    """The text of the playbook that a leased pipeline belongs to."""
    return await _bytes(call.site.desk.source(call.body), "application/yaml")


@routes.route(
    "POST",
    "/api/worker/value",
    permission=CLAIM,
    body=wire.Value,
    answers={200: Any},
    problems=(*_LOST, "ref.gone", "ref.corrupt"),
)
async def show_value(call: Call[wire.Value, Nothing]) -> Response:
    """What a reference of a leased pipeline stands for."""
    return await _bytes(call.site.desk.value(call.body), "application/json")


@routes.route(
    "POST",
    "/api/worker/secret",
    permission=CLAIM,
    body=wire.Fetch,
    answers={200: wire.Fetched},
    problems=(*_LOST, *_SECRETS),
)
async def fetch_secret(call: Call[wire.Fetch, Nothing]) -> Reply:
    """Look a secret up for a task; its handle, and itself, sealed for this worker."""
    return await _secret(call.site.desk.fetch(call.body, _seal(call)))


@routes.route(
    "POST",
    "/api/worker/token",
    permission=CLAIM,
    body=wire.Authorize,
    answers={200: wire.Authorized},
    problems=(*_LOST, *_SECRETS),
)
async def fetch_token(call: Call[wire.Authorize, Nothing]) -> Reply:
    """A token for a task that asks for OAuth2, sealed for this worker."""
    return await _secret(call.site.desk.authorize(call.body, _seal(call)))


async def _claim(call: Call[wire.Claim, Nothing]) -> wire.Orders:
    is_gone = call.request.is_disconnected
    return await call.site.desk.claim(call.body, _seal(call), is_gone)


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
