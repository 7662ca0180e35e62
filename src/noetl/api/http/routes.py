"""Routes that say everything about themselves: permission, types, problems."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from noetl.access.credentials import Credential
from noetl.access.principal import Principal, require
from noetl.api.access import Headers
from noetl.api.bodies import LARGEST, LARGEST_PUBLIC, Reserve
from noetl.api.problems import Problem
from noetl.api.quotas import keep
from noetl.api.site import Site
from noetl.api.trail import Recorded, Trail
from noetl.engine.callers import Caller
from noetl.ports import Summary
from noetl.service.refusal import no_execution
from noetl.service.sensitive import PAYLOADS, is_sensitive
from noetl.types import JSON

B = TypeVar("B", covariant=True)
Q = TypeVar("Q", covariant=True)
T = TypeVar("T", bound=msgspec.Struct)

PUBLIC = "public"
"""The permission of what anybody may see."""
SIGNED_IN = "signed-in"
"""The permission of what everybody may do to what is their own."""
WEBHOOK = "webhook"
"""The permission of senders that prove themselves to one trigger: its route asks."""
READ = "executions:read"
CLAIM = "work:claim"
_PLACE = re.compile(r"\{(\w+)(?::\w+)?\}")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No body, or no parameters."""


class Reply(msgspec.Struct, frozen=True):
    """An answer: its status is one of those that the route declares."""

    status: int
    value: JSON
    headers: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call(Generic[B, Q]):
    """One request, as far as it was granted.

    ``execution`` is the one that the path names, which they may see.
    """

    site: Site
    principal: Principal
    request: Request
    params: Mapping[str, str]
    body: B
    query: Q
    trail: Trail
    headers: Headers
    execution: Summary | None = None

    def allows(self, permission: str, path: str | None) -> bool:
        return self.site.access.allows(self.principal, permission, path)

    def require(self, permission: str, path: str | None) -> None:
        """Raises ``AccessError`` (``auth.role``)."""
        require(self.principal, permission, path)

    @property
    def address(self) -> str:
        """Where it comes from."""
        return self.trail.address

    def look(self) -> Credential | None:
        """What the caller presents. Raises ``AccessError``."""
        request = self.request
        local = local_of(request)
        return self.site.access.look(request.method, self.headers, local=local)

    async def renewed(self) -> Call[B, Q]:
        """This call with the rights that its sender has at this moment. An answer that
        takes long asks for it before it tells more. Raises ``AccessError``."""
        request, access = self.request, self.site.access
        principal = await access.authenticate(
            request.method, self.headers, local=local_of(request)
        )
        return replace(self, principal=principal)

    @property
    def caller(self) -> Caller:
        """Who calls, for events."""
        return {"principal": self.principal.name, "address": self.address}

    def sees(self, summary: Summary) -> bool:
        return self.allows(READ, summary.playbook.get("path"))

    def sees_data(self, summary: Summary) -> bool:
        """Whether workload, results, events and the like may be shown, too."""
        return self.sees(summary) and _may_see_data(self.site, self.principal, summary)


Handler = Callable[[Call[Any, Any]], Awaitable[Reply | Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A route. ``answers`` are types by status; a problem's status is its kind's.

    ``media`` is what else than JSON it can answer, ``recorded`` where it is put down
    who called, ``takes`` what it reads by itself. Its body has at most ``largest``
    bytes. One that ``signs_in`` counts as an attempt before any of it is read. One that
    ``hides`` leaves the data of a sensitive execution out by itself; any other route
    of an execution needs ``payloads:read`` for these.
    """

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
    largest: int = LARGEST
    signs_in: bool = False
    hides: bool = False

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def doc(self) -> str:
        return " ".join((self.handler.__doc__ or "").split())

    @property
    def params(self) -> list[str]:
        return _PLACE.findall(self.path)

    @property
    def plain_path(self) -> str:
        """Without the types of its places: what documents and metrics show."""
        return _PLACE.sub(r"{\1}", self.path)


@dataclass(slots=True)
class Routes:
    """The routes of one noun, in the order in which they are tried."""

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
    """Strangers, and callers of routes that take no body, send little."""
    if permission == PUBLIC or body is Nothing:
        return LARGEST_PUBLIC
    return LARGEST


async def find_execution(
    site: Site,
    principal: Principal,
    permission: str,
    execution_id: str,
    *,
    hides: bool = False,
) -> Summary:
    """What is not theirs to see is not there (row 64)."""
    summary = await site.looking.summary(execution_id)
    path = summary.playbook.get("path")
    if not site.access.allows(principal, READ, path):
        raise no_execution()
    require(principal, permission, path)
    if not hides and not _may_see_data(site, principal, summary):
        require(principal, PAYLOADS, path)
    return summary


def _may_see_data(site: Site, principal: Principal, summary: Summary) -> bool:
    if not is_sensitive(summary.playbook):
        return True
    return site.access.allows(principal, PAYLOADS, summary.playbook.get("path"))


def headers_of(request: Request) -> Headers:
    """All values of each header, by their lower-case names."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in request.headers.raw:
        found[name.decode("latin-1").lower()].append(value.decode("latin-1"))
    return found


def counting(site: Site, permission: str, who: str, scope: Scope) -> Reserve:
    """Counts bytes of a caller's bodies for as long as their requests take."""
    quotas = site.quotas
    quota = quotas.worker_bodies if permission == CLAIM else quotas.bodies
    return lambda size: keep(scope, quota.take(who, size))


def local_of(request: Request) -> str:
    """The address of this machine that a request came in at."""
    return (request.scope.get("server") or ("",))[0]


def read_query(request: Request, shape: type[T]) -> T:
    """The parameters as this type: each once, none unknown, all within bounds."""
    given: dict[str, str] = {}
    asked = request.scope.get("query_string")
    for name, value in request.query_params.multi_items() if asked else ():
        if name in given:
            raise _bad_query(name, f"'{name[:80]}' is there twice", shape)
        given[name] = value
    try:
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as error:
        message = str(error)
        place = re.search(r"\$\.(\w+)|field `(.+)`", message)
        named = (place[1] or place[2]) if place else None
        raise _bad_query(named, message, shape) from None


def _bad_query(name: str | None, message: str, shape: type[Any]) -> Problem:
    known = ", ".join(each.encode_name for each in msgspec.structs.fields(shape))
    hint = f"parameters of this call: {known}" if known else "it has no parameters"
    return Problem(
        "query.invalid",
        f"the query does not fit: {message}",
        hint=hint,
        more={"parameter": name},
    )
