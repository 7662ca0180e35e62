"""All parts as one web application, with what an example may ask about it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from aiohttp import web

from access import Access
from answers import Handler, Refusal, as_json, read_body
from chat import Chat, Turn
from counts import Counts
from faults import Fault, Faults
from orders import Orders
from results import Results
from travel import Travel

LONGEST = 60.0


class Wishes(msgspec.Struct, forbid_unknown_fields=True):
    """What ``POST /reset`` may change; what it leaves out gets its first value."""

    plan: list[Fault] | None = None
    chat: Annotated[list[Turn], msgspec.Meta(min_length=1)] | None = None
    token_calls: int | None = None
    token_seconds: int | None = None


class Demo:
    """The parts, and the calls that concern all of them."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self.counts = Counts()
        self.faults = Faults()
        self._access = Access()
        self._chat = Chat()
        self._results = Results()

    def routes(self) -> list[web.RouteDef]:
        own = [
            web.get("/", self.index),
            web.get("/slow", self.slow),
            web.get("/stats", self.stats),
            web.post("/reset", self.reset),
        ]
        parts = (Travel(), Orders(), self._results, self._access, self._chat)
        return own + [route for part in parts for route in part.routes()]

    async def index(self, request: web.Request) -> web.Response:
        """This list."""
        found = {
            f"{route.method} {route.path}": (route.handler.__doc__ or "").strip()
            for route in self.routes()
        }
        return web.json_response(found)

    async def slow(self, request: web.Request) -> web.Response:
        """`?seconds=0.5`: the answer takes so long."""
        seconds = read_seconds(request.query.get("seconds", "1"))
        await asyncio.sleep(seconds)
        return web.json_response({"seconds": seconds})

    async def stats(self, request: web.Request) -> web.Response:
        """How many calls came, by path and status."""
        return web.json_response(self.counts.as_json())

    async def reset(self, request: web.Request) -> web.Response:
        """Everything as at the start; a body may name another plan of faults."""
        wishes = await read_body(request, Wishes) or Wishes()
        self.counts.reset()
        self._results.reset()
        self.faults.reset(wishes.plan)
        self._chat.reset(wishes.chat)
        self._access.reset(wishes.token_calls, wishes.token_seconds)
        return web.json_response({"reset": True})

    @web.middleware
    async def wait(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._latency and request.path not in ("/stats", "/reset"):
            await asyncio.sleep(self._latency)
        return await handler(request)


def read_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST:
        raise Refusal(
            400, f"seconds is {text!r:.20}, not a number from 0 to {LONGEST:g}"
        )
    return seconds


def make_application(latency: float = 0.0) -> web.Application:
    demo = Demo(latency)
    # From the outside in: a fault is counted like any answer, and takes as long.
    layers = [demo.counts.count, as_json, demo.wait, demo.faults.stumble]
    application = web.Application(middlewares=layers)
    application.add_routes(demo.routes())
    return application
