"""Answers with stored values, whole or in part."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from starlette.responses import Response, StreamingResponse

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
