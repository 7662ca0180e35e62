"""A worker's calls over HTTP: outwards only, nobody connects to a worker (WKR-01)."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import IO, Any

import aiohttp
import msgspec

from noetl.errors import Refused, Unreachable

PATHS: Mapping[str, str] = {
    "claim": "/api/worker/claim",
    "heartbeat": "/api/worker/heartbeat",
    "events": "/api/events",
    "source": "/api/worker/source",
    "value": "/api/worker/value",
    "result": "/api/worker/result",
    "results": "/api/worker/results",
    "secret": "/api/worker/secret",
    "token": "/api/worker/token",
}
_PART = 1 << 20
_UNHURRIED = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
REST = 2.0
"""Seconds in which a server that did not answer is not the home of anything."""
_LATER = frozenset({408, 421, 425, 429, 502, 503, 504})


class HttpTransport:
    """Several servers of one cluster: when one does not answer, the next is asked.

    ``trust`` says by which certificates a server is known. It is asked again after a
    failure: a server may come back with another certificate.
    """

    def __init__(
        self,
        servers: Sequence[str],
        token: str,
        trust: Callable[[str], ssl.SSLContext] = lambda url: (
            ssl.create_default_context()
        ),
    ) -> None:
        self._trust = trust
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._known = [each.rstrip("/") for each in servers]
        self._servers = cycle(self._known)
        self._server = next(self._servers)
        self._resting: dict[str, float] = {}
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
        }
        self._session: aiohttp.ClientSession | None = None

    def home_of(self, execution_id: str) -> str:
        """Workers that know the same servers agree on it, without a word."""
        now = time.monotonic()
        awake = [each for each in self._known if self._resting.get(each, 0.0) <= now]
        return max(awake or self._known, key=lambda each: _weight(each, execution_id))

    async def call(
        self, path: str, body: bytes, *, seconds: float, server: str | None = None
    ) -> bytes:
        limit = aiohttp.ClientTimeout(total=seconds)
        async with self._request(
            "POST", path, server, data=body, timeout=limit
        ) as response:
            return await response.read()

    async def send(
        self, path: str, query: Mapping[str, str], source: IO[bytes]
    ) -> bytes:
        async with self._request(
            "PUT",
            path,
            data=_parts(source),
            params=query,
            headers={"Content-Type": "application/octet-stream"},
            timeout=_UNHURRIED,
        ) as response:
            return await response.read()

    async def fetch(self, path: str, body: bytes, target: IO[bytes]) -> None:
        async with self._request(
            "POST", path, data=body, timeout=_UNHURRIED
        ) as response:
            async for part in response.content.iter_chunked(_PART):
                await asyncio.to_thread(target.write, part)

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, server: str | None = None, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector, headers=self._headers
            )
        server = server or self._server
        url = server + PATHS[path]
        if server.startswith("https:") and server not in self._contexts:
            self._contexts[server] = self._trust(server)
        context = self._contexts.get(server, True)
        try:
            async with self._session.request(
                method, url, allow_redirects=False, ssl=context, **more
            ) as response:
                if response.status == 200:
                    yield response
                    return
                status, found = response.status, await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._rest(server)
            self._contexts.pop(server, None)
            why = str(error) or type(error).__name__
            raise Unreachable(f"{url}: {why}") from None
        if status in _LATER or status >= 500:
            self._rest(server)
            raise Unreachable(f"{url}: status {status}")
        raise _refusal(status, found)

    def _rest(self, server: str) -> None:
        """It is not asked for a while, if there are others."""
        self._resting[server] = time.monotonic() + REST
        if server == self._server:
            self._server = next(self._servers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def _parts(source: IO[bytes]) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(source.read, _PART):
        yield part


def _weight(server: str, execution_id: str) -> bytes:
    return hashlib.blake2b(f"{server} {execution_id}".encode(), digest_size=8).digest()


def _refusal(status: int, body: bytes) -> Refused:
    try:
        problem = msgspec.json.decode(body)
        return Refused(str(problem["kind"]), str(problem["detail"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return Refused("server.refused", f"the server answered with status {status}")
