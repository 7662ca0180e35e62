"""Routes with their permission, types and problems."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from noetl.access.credentials import Credential
from noetl.access.permissions import Principal, allows, require
from noetl.api.audit_trail import AuditTrail, Recorded
from noetl.api.http.problems import Problem
from noetl.api.http.quotas import keep
from noetl.api.http.repeated_heads import checked_in
from noetl.api.http.request_body import MAX_BODY_BYTES, MAX_PUBLIC_BODY_BYTES, Reserve
from noetl.api.services import Services
from noetl.engine.events import Caller
from noetl.ports import Summary
from noetl.service.access.authenticate import Headers
from noetl.service.errors import RequestRefused, no_execution
from noetl.service.executions.sensitive import PAYLOADS, is_sensitive
from noetl.types import JSON

B = TypeVar("B", covariant=True)
Q = TypeVar("Q", covariant=True)
T = TypeVar("T", bound=msgspec.Struct)

PUBLIC = "public"
"""The permission of routes that need no account."""
SIGNED_IN = "signed-in"
"""The permission of routes about the caller's own account."""
WEBHOOK = "webhook"
"""The permission of webhook routes, which authenticate their senders themselves."""
READ = "executions:read"
CLAIM = "work:claim"
CONTROL = "executions:control"
_PLACE = re.compile(r"\{(\w+)(?::\w+)?\}")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The type of an absent body or query."""


class Ignored(msgspec.Struct, frozen=True):
    """The type of a query that only the browser reads."""


class Reply(msgspec.Struct, frozen=True):
    """An answer; its status is one of those that the route declares."""

    status: int
    value: JSON
    headers: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call(Generic[B, Q]):
    """One authorized request.

    ``execution`` is the execution that the path names, which the caller may see.
    """

    site: Services
    principal: Principal
    request: Request
    params: Mapping[str, str]
    body: B
    query: Q
    trail: AuditTrail
    headers: Headers
    execution: Summary | None = None

    def allows(self, permission: str, path: str | None) -> bool:
        return allows(self.principal, permission, path)

    def require(self, permission: str, path: str | None) -> None:
        """Raise ``AccessError`` (``auth.role``) unless the caller has the
        permission."""
        require(self.principal, permission, path)

    @property
    def address(self) -> str:
        """The client's address."""
        return self.trail.address

    def look(self) -> Credential | None:
        """Return the caller's credential. Raises ``AccessError``."""
        request = self.request
        local = local_of(request)
        return self.site.access.look(request.method, self.headers, local=local)

    async def renewed(self) -> Call[B, Q]:
        """Return this call with the caller's current rights; long answers check it
        again before they send more. Raises ``AccessError``."""
        access, known = self.site.access, checked_in(self.request.scope, CheckedHead)
        credential = self.look() if known is None else known.credential
        return replace(self, principal=await access.admit(credential))

    @property
    def caller(self) -> Caller:
        """The caller, as events record it."""
        return {"principal": self.principal.name, "address": self.address}

    def sees(self, summary: Summary) -> bool:
        return self.allows(READ, summary.playbook.get("path"))

    def sees_data(self, summary: Summary) -> bool:
        """Return True if the caller may see workload, results and events."""
        return self.sees(summary) and _may_see_data(self.site, self.principal, summary)


Handler = Callable[[Call[Any, Any]], Awaitable[Reply | Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route. ``answers`` maps statuses to types; the kind of a problem sets its
    status.

    ``media`` are content types besides JSON, ``recorded`` names the place where the
    caller is recorded, ``takes`` is a body that the route reads itself. A body has at
    most ``largest`` bytes. A route that ``signs_in`` counts as an attempt before its
    body is read. A route that ``hides`` removes the data of a sensitive execution
    itself; any other route of an execution requires ``payloads:read`` for it.
    """

    name: str
    method: str
    path: str
    permission: str
    handler: Handler
    body: type[Any]
    query: type[Any]
    answers: Mapping[int, Any]
    problems: tuple[str, ...]
    media: tuple[str, ...] = ()
    recorded: Recorded = "audit"
    takes: str | None = None
    largest: int = MAX_BODY_BYTES
    signs_in: bool = False
    hides: bool = False

    @property
    def doc(self) -> str:
        return " ".join((self.handler.__doc__ or "").split())

    @property
    def params(self) -> list[str]:
        return _PLACE.findall(self.path)

    @property
    def plain_path(self) -> str:
        """The path without parameter types, for documents and metrics."""
        return _PLACE.sub(r"{\1}", self.path)


@dataclass(slots=True)
class Routes:
    """The routes of one resource, in the order of matching."""

    endpoints: list[Endpoint] = field(default_factory=list)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self.endpoints)

    def route(
        self,
        method: str,
        path: str,
        *,
        permission: str,
        answers: Mapping[int, Any],
        body: type[Any] = Nothing,
        query: type[Any] = Nothing,
        problems: tuple[str, ...] = (),
        media: tuple[str, ...] = (),
        recorded: Recorded | None = None,
        takes: str | None = None,
        largest: int | None = None,
        signs_in: bool = False,
        hides: bool = False,
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self.endpoints.append(
                Endpoint(
                    handler.__name__,
                    method,
                    path,
                    permission,
                    handler,
                    body,
                    query,
                    answers,
                    problems,
                    media,
                    recorded or ("never" if method == "GET" else "audit"),
                    takes,
                    largest or _largest(permission, body),
                    signs_in,
                    hides,
                )
            )
            return handler

        return add


def _largest(permission: str, body: type[Any]) -> int:
    """Return the body limit: small for public routes and routes without a body."""
    if permission == PUBLIC or body is Nothing:
        return MAX_PUBLIC_BODY_BYTES
    return MAX_BODY_BYTES


async def find_execution(
    site: Services,
    principal: Principal,
    permission: str,
    execution_id: str,
    *,
    hides: bool = False,
) -> Summary:
    """Return the execution; refuse a hidden one like an absent one (row 64)."""
    summary = await site.looking.summary(execution_id)
    path = summary.playbook.get("path")
    if not allows(principal, READ, path):
        raise no_execution()
    require(principal, permission, path)
    if permission == CONTROL and site.history.is_local(execution_id):
        message = "this execution is one of `noetl run`, and not of the server"
        hint = "its own process writes its log: use noetl on the command line"
        raise RequestRefused("execution.state", message, hint)
    if not hides and not _may_see_data(site, principal, summary):
        require(principal, PAYLOADS, path)
    return summary


def _may_see_data(site: Services, principal: Principal, summary: Summary) -> bool:
    if not is_sensitive(summary.playbook):
        return True
    return allows(principal, PAYLOADS, summary.playbook.get("path"))


def headers_of(request: Request) -> Headers:
    """Return all values of each header, by lower-case names."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in request.headers.raw:
        found[name.decode("latin-1").lower()].append(value.decode("latin-1"))
    return found


class CheckedHead(msgspec.Struct, frozen=True):
    """What a head with a token says: it has passed the checks of the request guard. The
    token is authenticated with each request."""

    headers: Headers
    address: str
    credential: Credential | None


def counting(site: Services, permission: str, who: str, scope: Scope) -> Reserve:
    """Return a function that counts a caller's body bytes until the request ends."""
    quotas = site.quotas
    quota = quotas.worker_bodies if permission == CLAIM else quotas.bodies
    return lambda size: keep(scope, quota.take(who, size))


def local_of(request: Request) -> str:
    """Return the address of this machine at which the request arrived."""
    return (request.scope.get("server") or ("",))[0]


def read_query(request: Request, shape: type[T]) -> T:
    """Parse the query: no duplicate, unknown or out-of-range parameters.

    A parameter may be repeated if it is a list.
    """
    if shape is Ignored:
        return shape()
    given: dict[str, JSON] = {}
    asked = request.scope.get("query_string")
    if not asked and shape is Nothing:
        return shape()
    for name, value in request.query_params.multi_items() if asked else ():
        if name in _lists(shape):
            given.setdefault(name, []).append(value)
            continue
        if name in given:
            raise bad_query(name, f"'{name[:80]}' is given twice", shape)
        given[name] = value
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        message = str(error)
        place = re.search(r"\$\.(\w+)|field `(.+)`", message)
        named = (place[1] or place[2]) if place else None
        raise bad_query(named, message, shape) from None


@cache
def _lists(shape: type[Any]) -> frozenset[str]:
    fields = msgspec.structs.fields(shape)
    return frozenset(f.encode_name for f in fields if f.default_factory is list)


def bad_query(name: str | None, message: str, shape: type[Any]) -> Problem:
    """Return the refusal of a parameter, with those that the call takes."""
    known = ", ".join(each.encode_name for each in msgspec.structs.fields(shape))
    hint = f"parameters of this call: {known}" if known else "this call takes none"
    return Problem(
        "query.invalid",
        f"the query is not valid: {message}",
        hint=hint,
        more={"parameter": name},
    )
