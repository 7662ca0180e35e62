"""What is large, to a server and from it, in parts."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import IO, Any

import aiohttp

from noetl.errors import Unreachable

_PART = 1 << 20
_UNHURRIED = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)


class Transfers:
    """Each answers with a status, and with the body where that is small.

    Raises ``Unreachable``.
    """

    def __init__(self, token: str) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"Authorization": f"Bearer {token}"},
            timeout=_UNHURRIED,
        )

    async def send(
        self,
        url: str,
        query: Mapping[str, str],
        source: IO[bytes],
        context: ssl.SSLContext | None,
    ) -> tuple[int, bytes]:
        async with (
            _reaching(),
            self._session.put(
                url,
                params=query,
                data=_parts(source),
                headers={"Content-Type": "application/octet-stream"},
                **_how(context),
            ) as response,
        ):
            return response.status, await response.read()

    async def fetch(
        self,
        url: str,
        body: bytes,
        target: IO[bytes],
        context: ssl.SSLContext | None,
    ) -> tuple[int, bytes]:
        async with (
            _reaching(),
            self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json"},
                **_how(context),
            ) as response,
        ):
            if response.status != 200:
                return response.status, await response.read()
            async for part in response.content.iter_chunked(_PART):
                await asyncio.to_thread(target.write, part)
            return response.status, b""

    async def close(self) -> None:
        await self._session.close()


@asynccontextmanager
async def _reaching() -> AsyncIterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None


def _how(context: ssl.SSLContext | None) -> dict[str, Any]:
    return {"allow_redirects": False, "ssl": context if context is not None else True}


async def _parts(source: IO[bytes]) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(source.read, _PART):
        yield part
