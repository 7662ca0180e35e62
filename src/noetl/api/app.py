"""The ASGI application: authentication, routing, metrics and problem documents."""

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

from noetl.access.permissions import Principal, require_somewhere
from noetl.api import (
    backfills,
    bulk,
    catalog,
    control,
    events,
    executions,
    forks,
    inbox,
    keychain,
    listing,
    live,
    monitoring,
    pages,
    results,
    sessions,
    task_logs,
    triggers,
    users,
    webhooks,
    worker_protocol,
)
from noetl.api import workers as worker_list
from noetl.api.audit_trail import AuditTrail
from noetl.api.events import STREAM
from noetl.api.http.openapi import document
from noetl.api.http.problems import MEDIA_TYPE, Problem, problem_of
from noetl.api.http.protocol import head_lines, whole_sender
from noetl.api.http.quotas import KEPT, release
from noetl.api.http.repeated_heads import checked_in, remember
from noetl.api.http.request_body import read_body
from noetl.api.http.routes import (
    PUBLIC,
    SIGNED_IN,
    WEBHOOK,
    Call,
    CheckedHead,
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
from noetl.api.monitoring import show_health
from noetl.api.services import Services
from noetl.api.views import authoring, graphs, progress, runs
from noetl.errors import AccessError
from noetl.runtime.worker_protocol import messages
from noetl.service.access.authenticate import Headers

log = logging.getLogger("noetl.api")

NOUNS = (
    listing,
    executions,
    bulk,
    control,
    forks,
    events,
    results,
    task_logs,
    authoring,
    graphs,
    progress,
    runs,
    catalog,
    inbox,
    live,
    triggers,
    backfills,
    webhooks,
    keychain,
    worker_protocol,
    worker_list,
    users,
    sessions,
    monitoring,
)
Answering = Callable[[Request], Awaitable[Response]]

UNAUTHENTICATED = Principal(user_id="", name="stranger", grants=(), means="open")
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
    """Return all routes of the API."""
    return [*_described, *(each for noun in NOUNS for each in noun.routes)]


def make_app(site: Services) -> ASGIApp:
    served = [*endpoints(), *pages.routes]
    answers = [(each, _endpoint(site, each)) for each in served]
    app = Starlette(
        routes=[
            Route(each.path, answer, methods=[each.method], name=each.path)
            for each, answer in answers
        ],
        exception_handlers={HTTPException: partial(_no_route, site)},
    )
    # Paths match exactly: /x/ is not /x, and there are no redirects.
    app.router.redirect_slashes = False
    direct = {(each.method, each.path): answer for each, answer in answers}
    return Guarded(app, direct, site.mark)


class MessageResponse(Response):
    """The answer to a worker: its whole head is the same for all of them."""

    def __init__(self, reply: Reply) -> None:
        assert reply.status == HTTPStatus.OK, reply.status
        assert not reply.headers, reply.headers
        self.status_code, self.background = reply.status, None
        self.body = self.message = messages.codec.encode(reply.value)
        length = b"%d" % len(self.message)
        self.raw_headers = [(b"content-length", length), _MEDIA]


_MEDIA = b"content-type", messages.codec.media_type.encode()


class Guarded:
    """Adds security headers to every answer.

    ``direct`` are handlers by method and path: the frequent calls of workers skip the
    matching of routes. A path with parameters is not among them. The ``mark``
    identifies the server in the answer.
    """

    def __init__(
        self, app: ASGIApp, direct: Mapping[tuple[str, str], Answering], mark: str
    ) -> None:
        self._app = app
        self._direct = direct
        self._head = (*_GUARDS, (b"noetl-server", mark.encode()))
        each = (b"%b: %b\r\n" % pair for pair in (_MEDIA, *self._head))
        self._lines = b"".join(each)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                said = {name for name, _ in headers}  # in lower case (ASGI)
                headers += [each for each in _GUARDS if each[0] not in said]
            await send(message)

        answer = self._direct.get((scope.get("method", ""), scope.get("path", "")))
        try:
            if answer is None:
                await self._app(scope, receive, sent)
            else:
                response = await answer(Request(scope, receive, send))
                whole = whole_sender(scope)
                if whole is not None and isinstance(response, MessageResponse):
                    await whole(200, self._lines, response.message)
                    return
                said = {name for name, _ in response.raw_headers}
                more = [each for each in self._head if each[0] not in said]
                response.raw_headers += more
                is_plain = type(response) is Response and response.status_code < 204
                if whole is not None and is_plain:
                    head, body = head_lines(response.raw_headers), bytes(response.body)
                    await whole(response.status_code, head, body)
                else:
                    await response(scope, receive, send)
        finally:
            if KEPT in scope:
                release(scope)


_described = Routes()


@_described.route("GET", "/openapi.json", permission=PUBLIC, answers={200: dict})
async def show_openapi(call: Call[Nothing, Nothing]) -> Reply:
    """Return the OpenAPI document of this API."""
    return Reply(200, _document())


@cache
def _document() -> msgspec.Raw:
    """Cache the document: routes do not change, and it is slow to generate."""
    return msgspec.Raw(msgspec.json.encode(document(endpoints())))


def _endpoint(site: Services, endpoint: Endpoint) -> Answering:
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


async def _answer(site: Services, endpoint: Endpoint, request: Request) -> Response:
    """Return the answer after its outcome is in the audit."""
    known = checked_in(request.scope, CheckedHead)
    if known is None:
        headers, peer = headers_of(request), request.client
        where = site.access.address("" if peer is None else peer.host, headers)
    else:
        headers, where = known.headers, known.address
    trail = AuditTrail(site.audit, endpoint.name, endpoint.recorded, where)
    if request.path_params:
        trail.add(**request.path_params)
    try:
        principal = await _admit(site, endpoint, request, trail, headers, known)
        reply = await _handle(site, endpoint, request, trail, headers, principal)
        response = _response(reply)
    except Exception as error:
        problem = _problem(error, request)
        await trail.end(problem.status, problem.kind)
        return _refused(problem)
    if endpoint.recorded != "never":
        await trail.end(response.status_code)
    return response


async def _handle(
    site: Services,
    endpoint: Endpoint,
    request: Request,
    trail: AuditTrail,
    headers: Headers,
    principal: Principal,
) -> Reply | Response:
    """Read the query and the body of an authenticated caller, and call the handler."""
    params: dict[str, str] = request.path_params
    execution = None
    if "execution_id" in params:
        execution = await find_execution(
            site,
            principal,
            endpoint.permission,
            params["execution_id"],
            hides=endpoint.hides,
        )
    if endpoint.permission == WEBHOOK:  # the route authenticates, then reads
        call: Call[Any, Any] = Call(
            site, principal, request, params, Nothing(), Nothing(), trail, headers
        )
        return await endpoint.handler(call)
    query = read_query(request, endpoint.query)
    body: Any = Nothing()
    if endpoint.method == "POST":
        who = principal.user_id or trail.address
        reserve = counting(site, endpoint.permission, who, request.scope)
        body = await read_body(
            request, endpoint.body, endpoint.largest, reserve, headers=headers
        )
    if endpoint.recorded != "never":
        await trail.begin()
    call = Call(
        site, principal, request, params, body, query, trail, headers, execution
    )
    return await endpoint.handler(call)


async def _admit(
    site: Services,
    endpoint: Endpoint,
    request: Request,
    trail: AuditTrail,
    headers: Headers,
    known: CheckedHead | None,
) -> Principal:
    """Return the principal. Raises ``AccessError`` or ``Problem``.

    Requests without an account are counted after the check of their Host, and before
    their query and body are read.
    """
    method, local = request.method, local_of(request)
    if endpoint.permission in (PUBLIC, WEBHOOK):
        if endpoint.permission == PUBLIC and endpoint.method != "GET":
            site.access.look(method, headers, local=local)
        else:
            site.access.visit(method, headers, local=local)
        _count(site, endpoint, trail.address)
        return UNAUTHENTICATED
    if known is None:
        stream = any(STREAM in each for each in headers.get("accept", ()))
        credential = site.access.look(method, headers, stream=stream, local=local)
    else:
        credential = known.credential
    principal = await site.access.admit(credential)
    trail.of(principal)
    if endpoint.permission != SIGNED_IN:
        require_somewhere(principal, endpoint.permission)
    if known is None and credential is not None and credential.means == "token":
        remember(request.scope, CheckedHead(headers, trail.address, credential))
    return principal


def _count(site: Services, endpoint: Endpoint, address: str) -> None:
    if endpoint.signs_in:
        site.logins.count(address)
    # refusing a health check would cost as much as answering it
    elif endpoint.name != show_health.__name__:
        wait = site.public_pace.take(address, time.monotonic())
        if wait is not None:
            headers = {"Retry-After": str(max(1, ceil(wait)))}
            message = "too many requests came from this address; slow down"
            raise Problem("request.rate", message, headers=headers)


def _response(reply: Reply | Response) -> Response:
    if isinstance(reply, Response):
        return reply
    if isinstance(reply.value, messages.Message | messages.UploadReply):
        return MessageResponse(reply)
    body = msgspec.json.encode(reply.value)
    return Response(body, reply.status, reply.headers, "application/json")


def _problem(error: Exception, request: Request) -> Problem:
    problem = problem_of(error)
    if problem is None:
        log.exception("a defect", extra={"route": request.url.path})
        message = "internal error; the server's log has the details"
        problem = Problem("internal", message)
    return problem


def _refused(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, problem.headers, MEDIA_TYPE)


async def _no_route(site: Services, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    try:
        site.access.visit(request.method, headers_of(request), local=local_of(request))
    except AccessError as refusal:
        return _refused(_problem(refusal, request))
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        message = f"the method {request.method} is not allowed here"
        hint = f"allowed: {headers.get('Allow', '')}"
        problem = Problem("route.method", message, hint=hint)
    else:
        message = "unknown path"
        hint = "/openapi.json lists all paths"
        problem = Problem("route.unknown", message, hint=hint)
    return Response(problem.body(), problem.status, headers, MEDIA_TYPE)
