"""The application: every request is timed, guarded, and answered with care."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from math import ceil
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noetl.access.principal import Principal
from noetl.api import (
    audit,
    backfills,
    catalog,
    control,
    events,
    executions,
    forks,
    health,
    hooks,
    keychain,
    oidc,
    results,
    roster,
    sessions,
    tokens,
    triggers,
    users,
    validation,
    workers,
)
from noetl.api.access import Headers
from noetl.api.bodies import read_body
from noetl.api.events import STREAM
from noetl.api.health import show_health
from noetl.api.openapi import document
from noetl.api.problems import MEDIA_TYPE, Problem, problem_of
from noetl.api.quotas import release
from noetl.api.routing import (
    PUBLIC,
    SIGNED_IN,
    WEBHOOK,
    Call,
    Endpoint,
    Nothing,
    Reply,
    Routes,
    counting,
    find_execution,
    headers_of,
    local_of,
    read_query,
)
from noetl.api.site import Site
from noetl.api.trail import Trail
from noetl.errors import AccessError

log = logging.getLogger("noetl.api")

NOUNS = (
    *(executions, control, forks, events, results, catalog, validation),
    *(triggers, backfills, hooks),
    *(keychain, workers, roster, users, tokens, sessions, oidc, audit, health),
)
Answering = Callable[[Request], Awaitable[Response]]

STRANGER = Principal(user_id="", name="stranger", grants=(), means="open")
HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}
_GUARDS = tuple(HEADERS.items())


def endpoints() -> list[Endpoint]:
    """All routes of the API."""
    return [*_described, *(each for noun in NOUNS for each in noun.routes)]


def make_app(site: Site) -> ASGIApp:
    answers = [(each, _endpoint(site, each)) for each in endpoints()]
    app = Starlette(
        routes=[
            Route(each.path, answer, methods=[each.method], name=each.name)
            for each, answer in answers
        ],
        exception_handlers={HTTPException: partial(_no_route, site)},
    )
    # A path is what it says: /x/ is not /x, and nobody is sent elsewhere.
    app.router.redirect_slashes = False
    direct = {(each.method, each.path): answer for each, answer in answers}
    return Guarded(app, direct, site.mark)


class Guarded:
    """Puts the headers that browsers obey on every answer.

    ``direct`` are answers by method and path: what workers say a thousand times a
    second is found without a look at each route. A path with places in it is none.
    They say by its ``mark`` which server has answered.
    """

    def __init__(
        self, app: ASGIApp, direct: Mapping[tuple[str, str], Answering], mark: str
    ) -> None:
        self._app = app
        self._direct = direct
        self._head = (*_GUARDS, (b"noetl-server", mark.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                said = {name for name, _ in headers}  # in small letters (ASGI)
                headers += [each for each in _GUARDS if each[0] not in said]
            await send(message)

        answer = self._direct.get((scope.get("method", ""), scope.get("path", "")))
        try:
            if answer is None:
                await self._app(scope, receive, sent)
            else:
                response = await answer(Request(scope, receive, send))
                said = {name for name, _ in response.raw_headers}
                more = [each for each in self._head if each[0] not in said]
                response.raw_headers += more
                await response(scope, receive, send)
        finally:
            release(scope)


_described = Routes()


@_described.route("GET", "/openapi.json", permission=PUBLIC, answers={200: dict})
async def show_openapi(call: Call[Nothing, Nothing]) -> Reply:
    """This API, as an OpenAPI document."""
    return Reply(200, _document())


@cache
def _document() -> msgspec.Raw:
    """The routes do not change, and it takes some time to describe them."""
    return msgspec.Raw(msgspec.json.encode(document(endpoints())))


def _endpoint(site: Site, endpoint: Endpoint) -> Answering:
    route = endpoint.plain_path
    seconds = site.metrics.seconds.labels(route)
    counts: dict[tuple[str, int], Any] = {}

    async def answer(request: Request) -> Response:
        began = time.perf_counter()
        try:
            response = await _answer(site, endpoint, request)
        except Exception as error:
            response = _refused(_problem(error, request))
        method, status = request.method, response.status_code
        count = counts.get((method, status))
        if count is None:
            count = site.metrics.requests.labels(method, route, str(status))
            counts[method, status] = count
        count.inc()
        seconds.observe(time.perf_counter() - began)
        return response

    return answer


async def _answer(site: Site, endpoint: Endpoint, request: Request) -> Response:
    """What is answered is in the audit before that."""
    headers, peer = headers_of(request), request.client
    where = site.access.address("" if peer is None else peer.host, headers)
    trail = Trail(site.audit, endpoint.name, endpoint.recorded, where)
    try:
        response = _response(await _handle(site, endpoint, request, trail, headers))
    except Exception as error:
        problem = _problem(error, request)
        await trail.end(problem.status, problem.kind)
        return _refused(problem)
    await trail.end(response.status_code)
    return response


async def _handle(
    site: Site, endpoint: Endpoint, request: Request, trail: Trail, headers: Headers
) -> Reply | Response:
    """Who asks comes first: before that, nothing of the request is read."""
    params: dict[str, str] = request.path_params
    trail.add(**params)
    principal = await _admit(site, endpoint, request, trail, headers)
    execution = None
    if "execution_id" in params:
        execution = await find_execution(
            site,
            principal,
            endpoint.permission,
            params["execution_id"],
            hides=endpoint.hides,
        )
    if endpoint.permission == WEBHOOK:  # it reads on when it knows whose it is
        call: Call[Any, Any] = Call(
            site, principal, request, params, Nothing(), Nothing(), trail, headers
        )
        return await endpoint.handler(call)
    query = read_query(request, endpoint.query)
    body: Any = Nothing()
    if endpoint.method == "POST":
        who = principal.user_id or trail.address
        reserve = counting(site, endpoint.permission, who, request.scope)
        body = await read_body(request, endpoint.body, endpoint.largest, reserve)
    await trail.begin()
    call = Call(
        site, principal, request, params, body, query, trail, headers, execution
    )
    return await endpoint.handler(call)


async def _admit(
    site: Site, endpoint: Endpoint, request: Request, trail: Trail, headers: Headers
) -> Principal:
    """Raises ``AccessError`` or ``Problem``. Senders without an account are counted:
    before their query and body are looked at, and after their Host was."""
    method, local = request.method, local_of(request)
    if endpoint.permission in (PUBLIC, WEBHOOK):
        if endpoint.permission == PUBLIC and endpoint.method != "GET":
            site.access.look(method, headers, local=local)
        else:
            site.access.visit(method, headers, local=local)
        _count(site, endpoint, trail.address)
        return STRANGER
    stream = any(STREAM in each for each in headers.get("accept", ()))
    principal = await site.access.authenticate(
        method, headers, stream=stream, local=local
    )
    trail.of(principal)
    if endpoint.permission != SIGNED_IN:
        site.access.may(principal, endpoint.permission)
    return principal


def _count(site: Site, endpoint: Endpoint, address: str) -> None:
    if endpoint.signs_in:
        site.logins.count(address)
    elif endpoint.name != show_health.__name__:  # to refuse it would cost as much
        wait = site.public_pace.take(address, time.monotonic())
        if wait is not None:
            headers = {"Retry-After": str(max(1, ceil(wait)))}
            message = "too many requests came from this address; go on more slowly"
            raise Problem("request.rate", message, headers=headers)


def _response(reply: Reply | Response) -> Response:
    if isinstance(reply, Response):
        return reply
    body = msgspec.json.encode(reply.value)
    return Response(body, reply.status, reply.headers, "application/json")


def _problem(error: Exception, request: Request) -> Problem:
    problem = problem_of(error)
    if problem is None:
        log.exception("a defect", extra={"route": request.url.path})
        message = "something is wrong with the server; its log says what"
        problem = Problem("internal", message)
    return problem


def _refused(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.headers, MEDIA_TYPE)


async def _no_route(site: Site, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    try:
        site.access.visit(request.method, headers_of(request), local=local_of(request))
    except AccessError as refusal:
        return _refused(_problem(refusal, request))
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"{request.method} is not possible here"
        hint = f"possible: {headers.get('Allow', '')}"
        problem = Problem("route.method", message, hint=hint)
    else:
        message = "there is nothing at this address"
        hint = "the calls are listed at /openapi.json"
        problem = Problem("route.unknown", message, hint=hint)
    return Response(problem.body(), problem.status, headers, MEDIA_TYPE)
