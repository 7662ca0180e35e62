"""Stored values as answers: in parts, and as many of their bytes as were asked for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from starlette.responses import Response, StreamingResponse

BYTES = "application/octet-stream"
_PART = 1 << 20

Span = tuple[int, int]
"""The first byte, and how many."""


async def send_file(
    opened: AbstractAsyncContextManager[str],
    media: str,
    choose: Callable[[int], Span | None] = lambda size: None,
) -> Response:
    """A file, which is whole and verified when it is opened; or the part of it that
    ``choose`` wants, knowing the size. Raises as either of them."""
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
        return StreamingResponse(parts(), 206, headers, BYTES)  # half of it is no JSON
    return StreamingResponse(parts(), 200, headers, media)
