"""What several parts need to answer: pages, errors as JSON, bodies that are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")


class Refusal(Exception):
    """An answer that is no success, raised from wherever that is found out."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): headers[name] for name in headers}


@web.middleware
async def as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error has the same form: ``{"error": "…"}``."""
    try:
        return await handler(request)
    except Refusal as refusal:
        body, status, headers = str(refusal), refusal.status, refusal.headers
    except web.HTTPException as error:  # no such path, or not with this method
        body, status, headers = f"{error.reason}: {request.path}", error.status, {}
    return web.json_response({"error": body}, status=status, headers=headers)


def page_of(request: web.Request, name: str, items: Sequence[Any]) -> web.Response:
    """The page that ``?page=1&size=3`` asks for, and whether there are more."""
    page, size = read_number(request, "page", 1), read_number(request, "size", 3)
    end = page * size
    answer = {
        name: items[end - size : end],
        "page": page,
        "total": len(items),
        "has_more": end < len(items),
    }
    return web.json_response(answer)


def read_number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise Refusal(400, f"{name} is {text!r:.20}, not a number from 1 to 100")
    return int(text)


async def read_body(request: web.Request, shape: type[T]) -> T | None:
    """The JSON body as ``shape``; nothing if there is none."""
    content = await request.read()
    if not content:
        return None
    try:
        return msgspec.json.decode(content, type=shape)
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body does not fit: {error}") from None
