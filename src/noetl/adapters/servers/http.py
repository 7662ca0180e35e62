"""A worker's calls over HTTP: outwards only, nobody connects to a worker (WKR-01)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import aiohttp
import msgspec

from noetl.errors import Refused, Unreachable

PATHS: Mapping[str, str] = {
    "claim": "/api/worker/claim",
    "heartbeat": "/api/worker/heartbeat",
    "events": "/api/events",
    "source": "/api/worker/source",
    "value": "/api/worker/value",
    "secret": "/api/worker/secret",
    "token": "/api/worker/token",
}
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
        self._servers = cycle([each.rstrip("/") for each in servers])
        self._server = next(self._servers)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
        }
        self._session: aiohttp.ClientSession | None = None

    async def call(self, path: str, body: bytes, *, seconds: float) -> bytes:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector)
        server = self._server
        url = server + PATHS[path]
        if server.startswith("https:") and server not in self._contexts:
            self._contexts[server] = self._trust(server)
        try:
            async with self._session.post(
                url,
                data=body,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=seconds),
                allow_redirects=False,
                ssl=self._contexts.get(server, True),
            ) as response:
                found = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._server = next(self._servers)
            self._contexts.pop(server, None)
            why = str(error) or type(error).__name__
            raise Unreachable(f"{url}: {why}") from None
        if status == 200:
            return found
        if status in _LATER or status >= 500:
            self._server = next(self._servers)
            raise Unreachable(f"{url}: status {status}")
        raise _refusal(status, found)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _refusal(status: int, body: bytes) -> Refused:
    try:
        problem = msgspec.json.decode(body)
        return Refused(str(problem["kind"]), str(problem["detail"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return Refused("server.refused", f"the server answered with status {status}")
