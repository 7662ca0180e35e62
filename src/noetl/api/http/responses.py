"""Answers besides plain JSON: files, whole or in part, and answers with a tag."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from noetl.api.http.routes import Call
from noetl.types import JSON

FOR_EVER = "private, max-age=31536000, immutable"
"""The answer never changes: the client does not ask again."""
ASK_AGAIN = "private, no-cache"
"""The client may keep the answer, and asks with its tag whether it has changed."""


def tag_of(*parts: object) -> str:
    """Return the entity tag of an answer that follows from these parts."""
    text = "\x1f".join(map(str, parts))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:24]}"'


def is_known(call: Call[Any, Any], tag: str) -> bool:
    """Return whether the client has the answer with this tag already.

    Tags are compared weakly, as RFC 9110 wants it for this header.
    """
    given = call.request.headers.get("if-none-match", "")
    tags = [each.strip().removeprefix("W/") for each in given.split(",")]
    return tag in tags


def answer_tagged(
    call: Call[Any, Any], tag: str, value: JSON, keep: str = ASK_AGAIN
) -> Response:
    """Return the answer with its tag; 304 without a body if the client has it.

    ``value`` may be encoded already.
    """
    headers = {"ETag": tag, "Cache-Control": keep, "Vary": "Authorization, Cookie"}
    if is_known(call, tag):
        return Response(None, 304, headers)
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return Response(body, 200, headers, "application/json")


BYTES = "application/octet-stream"
_PART = 1 << 20

Span = tuple[int, int]
"""The first byte, and the length."""


async def send_file(
    opened: AbstractAsyncContextManager[str],
    media: str,
    choose: Callable[[int], Span | None] = lambda size: None,
) -> Response:
    """Return a verified file, or the span that ``choose`` returns for its size.

    Raises the errors of ``opened`` and ``choose``.
    """
    async with AsyncExitStack() as stack:
        path = await stack.enter_async_context(opened)
        file = await asyncio.to_thread(open, path, "rb")
        stack.callback(file.close)
        size = os.fstat(file.fileno()).st_size
        chosen = choose(size)
        first, count = chosen or (0, size)
        await asyncio.to_thread(file.seek, first)
        later = stack.pop_all()

    async def parts() -> AsyncIterator[bytes]:
        async with later:
            left = count
            while part := await asyncio.to_thread(file.read, min(left, _PART)):
                left -= len(part)
                yield part

    headers = {"Accept-Ranges": "bytes", "Content-Length": str(count)}
    if chosen is not None:
        headers["Content-Range"] = f"bytes {first}-{first + count - 1}/{size}"
        return StreamingResponse(parts(), 206, headers, BYTES)  # a part is not JSON
    return StreamingResponse(parts(), 200, headers, media)
