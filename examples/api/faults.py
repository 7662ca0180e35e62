"""Failures by a plan: as at an overloaded gateway, but the same every time.

A fault names a request and the statuses with which it is answered at first. Each page
is a request of its own. Once the statuses are used up, the request is served.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec
from aiohttp import web

from answers import Handler, Refusal

WORDS = {429: "too many requests; wait a second", 503: "overloaded; try again"}


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """These answers come first, to each request that fits."""

    path: str  # * stands for anything
    answers: tuple[int, ...]
    method: str = "GET"
    page: str | None = None  # one page only
    late: bool = False  # the work is done, and only its answer is lost

    def fits(self, request: web.Request) -> bool:
        return (
            request.method == self.method
            and fnmatchcase(request.path, self.path)
            and self.page in (None, request.query.get("page", "1"))
        )


PLAN = (
    Fault("/cities/*/hotels", (503, 503)),
    Fault("/hotels/*/rooms", (503,), page="2"),
    Fault("/orders", (429,), page="1"),
    Fault("/orders", (500,), page="3"),
)


class Faults:
    """Plays the plan; the first fault that fits a request counts."""

    def __init__(self) -> None:
        self.reset(None)

    def reset(self, plan: Sequence[Fault] | None) -> None:
        self._plan = PLAN if plan is None else plan
        self._seen: Counter[str] = Counter()

    @web.middleware
    async def stumble(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        fault = next((each for each in self._plan if each.fits(request)), None)
        if fault is None:
            return await handler(request)
        name = f"{request.method} {request.path_qs}"
        seen = self._seen[name]
        self._seen[name] += 1
        if seen >= len(fault.answers):
            return await handler(request)
        if fault.late:
            await handler(request)
        status = fault.answers[seen]
        headers = {"Retry_After": "1"} if status == 429 else {}
        raise Refusal(status, WORDS.get(status, "planned failure"), **headers)
