"""A worker's calls over HTTP: outwards only, nobody connects to a worker (WKR-01)."""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import cycle
from typing import IO

import msgspec

from noetl.adapters.servers.calls import Calls
from noetl.adapters.servers.transfers import Transfers
from noetl.engine.ids import mark_of
from noetl.errors import Defective, Refused, Unreachable

_Call = Callable[[str, str, ssl.SSLContext | None], Awaitable[tuple[int, bytes]]]

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
        self._token = token
        self._calls = Calls(token)
        self._transfers: Transfers | None = None

    def home_of(self, execution_id: str) -> str:
        """The server that accepted it, which has it in memory. Where that is gone, or
        not met yet, workers that know the same servers agree on one without a word."""
        if len(self._known) == 1:
            return self._server
        now, mark = time.monotonic(), mark_of(execution_id)
        awake = [each for each in self._known if self._resting.get(each, 0.0) <= now]
        some, marks = awake or self._known, self._calls.marks
        same = [each for each in some if marks.get(each) == mark]
        if not same:
            same = [each for each in some if each not in marks] or some
        return max(same, key=lambda each: _weight(each, execution_id))

    async def call(
        self, path: str, body: bytes, *, seconds: float, server: str | None = None
    ) -> bytes:
        return await self._ask(
            path,
            lambda server, url, context: self._calls.post(
                server, PATHS[path], body, seconds=seconds, context=context
            ),
            server,
        )

    async def send(
        self, path: str, query: Mapping[str, str], source: IO[bytes]
    ) -> bytes:
        transfers = self._open()
        return await self._ask(
            path, lambda _, url, context: transfers.send(url, query, source, context)
        )

    async def fetch(self, path: str, body: bytes, target: IO[bytes]) -> None:
        transfers = self._open()
        await self._ask(
            path, lambda _, url, context: transfers.fetch(url, body, target, context)
        )

    def _open(self) -> Transfers:
        if self._transfers is None:
            self._transfers = Transfers(self._token)
        return self._transfers

    async def _ask(self, path: str, call: _Call, server: str | None = None) -> bytes:
        server = server or self._server
        url = server + PATHS[path]
        if server.startswith("https:") and server not in self._contexts:
            self._contexts[server] = self._trust(server)
        try:
            status, found = await call(server, url, self._contexts.get(server))
        except Unreachable as error:
            self._rest(server)
            self._contexts.pop(server, None)
            raise Unreachable(f"{url}: {error}") from None
        if status == 200:
            return found
        if status in _LATER or status >= 500:
            self._rest(server)
            broken = Defective if status == 500 else Unreachable
            raise broken(f"{url}: status {status}")
        raise _refusal(status, found)

    def _rest(self, server: str) -> None:
        """It is not asked for a while, if there are others."""
        self._resting[server] = time.monotonic() + REST
        self._calls.marks.pop(server, None)  # it may come back as another process
        if server == self._server:
            self._server = next(self._servers)

    async def close(self) -> None:
        self._calls.close()
        if self._transfers is not None:
            await self._transfers.close()


def _weight(server: str, execution_id: str) -> bytes:
    return hashlib.blake2b(f"{server} {execution_id}".encode(), digest_size=8).digest()


def _refusal(status: int, body: bytes) -> Refused:
    try:
        problem = msgspec.json.decode(body)
        return Refused(str(problem["kind"]), str(problem["detail"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return Refused("server.refused", f"the server answered with status {status}")
