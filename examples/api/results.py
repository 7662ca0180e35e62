"""A shelf for what playbooks find out: POST puts it there, GET shows it."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from answers import read_body


class Results:
    """Lists by name. The same ``Idempotency-Key`` is stored once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._lists: dict[str, list[Any]] = {}
        self._answers: dict[str, dict[str, object]] = {}

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/results/{name}", self.put),
            web.get("/results/{name}", self.show),
        ]

    async def put(self, request: web.Request) -> web.Response:
        """Store the JSON body; the answer is a reference to it."""
        item = await read_body(request, object)
        key = request.headers.get("Idempotency-Key")
        if key is not None and key in self._answers:
            return web.json_response(self._answers[key])
        name = request.match_info["name"]
        items = self._lists.setdefault(name, [])
        items.append(item)
        size = len(json.dumps(item))
        answer = {"store": "demo", "key": f"{name}/{len(items)}", "size": size}
        if key is not None:
            self._answers[key] = answer
        return web.json_response(answer, status=201)

    async def show(self, request: web.Request) -> web.Response:
        """What was stored under this name, in the order it came."""
        items = self._lists.get(request.match_info["name"], [])
        return web.json_response({"count": len(items), "items": items})
