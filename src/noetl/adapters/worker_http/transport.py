"""The HTTP client of a worker: it opens connections, and never accepts one (WKR-01)."""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import IO
from urllib.parse import urlencode, urlsplit

import httptools
import msgspec

from noetl.adapters.worker_http.connection import (
    MAX_ANSWER_BYTES,
    Answer,
    HttpConnection,
    Proxy,
)
from noetl.errors import ConfigError, Defective, Refused, Unreachable

CONNECT_SECONDS = 10.0
_BYTES = "application/octet-stream"
_PORTS = {"http": 80, "https": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_RETRY_LATER = frozenset({408, 421, 425, 429, 502, 503, 504})


class HttpClient:
    """Sends requests with a token, over connections that are reused.

    ``trust`` returns the certificates by which a server is known. It is called again
    after a failure: a restarted server may have another certificate. ``proxy`` is the
    address of an HTTP proxy for all servers but those of this machine. ``server_ids``
    are the ids in the servers' answers; the id of a failing server is dropped.
    """

    def __init__(
        self,
        token: str,
        trust: Callable[[str], ssl.SSLContext] = lambda url: (
            ssl.create_default_context()
        ),
        *,
        proxy: str | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        content_type: str = "application/json",
    ) -> None:
        if not token.isascii() or not token.isprintable():
            message = "the worker's token is not one line of plain characters"
            raise ConfigError(f"{message}: give it as noetl token create printed it")
        self.server_ids: dict[str, str] = {}
        self._token = token
        self._trust = trust
        self._proxy = None if proxy is None else Proxy(proxy)
        self._max_answer_bytes = max_answer_bytes
        self._content_type = content_type
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._heads: dict[tuple[str, str], bytes] = {}
        self._idle: defaultdict[str, list[HttpConnection]] = defaultdict(list)
        self._closed = False

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        """Return the body of the answer. Raises ``Unreachable`` or ``Refused``."""
        text = self._post(server, path, body)
        return await self._exchange(
            server, path, lambda connection: connection.request(text, seconds), seconds
        )

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        """Send a request with ``size`` bytes of a file as its body."""
        head = self._head("PUT", server, f"{path}?{urlencode(query)}", _BYTES)
        text = b"%b%d\r\n\r\n" % (head, size)
        return await self._exchange(
            server, path, lambda connection: connection.upload(text, source)
        )

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        """Send a request and write the body of its answer to a file."""
        text = self._post(server, path, body)
        await self._exchange(
            server, path, lambda connection: connection.download(text, target)
        )

    async def close(self) -> None:
        self._closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    async def _exchange(
        self,
        server: str,
        path: str,
        send: Callable[[HttpConnection], Awaitable[Answer]],
        seconds: float | None = None,
    ) -> bytes:
        try:
            connection = self._take(server) or await self._connect(server, seconds)
            try:
                status, body = await send(connection)
            except BaseException:
                connection.close()
                raise
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            self.server_ids.pop(server, None)
            self._contexts.pop(server, None)
            message = str(error) or type(error).__name__
            raise Unreachable(f"{server}{path}: {message}") from None
        if connection.server_id:
            self.server_ids[server] = connection.server_id
        if self._closed:
            connection.close()
        elif connection.is_open:
            self._idle[server].append(connection)
        if status == 200:
            return body
        if status in _RETRY_LATER or status >= 500:
            self.server_ids.pop(server, None)  # it may restart as another process
            broken = Defective if status == 500 else Unreachable
            raise broken(f"{server}{path}: status {status}")
        raise _refusal(status, body)

    def _take(self, server: str) -> HttpConnection | None:
        """Return the connection that was used last, so that others become idle and
        close.
        """
        idle = self._idle[server]
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self, server: str, seconds: float | None) -> HttpConnection:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        context = None
        if parts.scheme == "https":
            context = self._contexts.get(server)
            if context is None:
                context = self._contexts[server] = self._trust(server)
        async with asyncio.timeout(min(seconds or CONNECT_SECONDS, CONNECT_SECONDS)):
            connection = HttpConnection(self._max_answer_bytes)
            if self._proxy is not None and host not in _LOOPBACK:
                await self._proxy.connect(connection, host, port, context)
            else:
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, host, port, ssl=context
                )
        return connection

    def _post(self, server: str, path: str, body: bytes) -> bytes:
        head = self._heads.get((server, path))
        if head is None:
            head = self._head("POST", server, path, self._content_type)
            self._heads[server, path] = head
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _head(self, method: str, server: str, path: str, content_type: str) -> bytes:
        """Return the head of a request, up to the length of the body."""
        parts = urlsplit(server + path)
        host = parts.netloc.rpartition("@")[2]
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        more = ""
        proxy = None if parts.hostname in _LOOPBACK else self._proxy
        if proxy is not None and parts.scheme == "http":
            target = f"http://{host}{target}"
            more = proxy.authorization
        return (
            f"{method} {target} HTTP/1.1\r\n"
            f"Host: {host}\r\n{more}"
            f"Authorization: Bearer {self._token}\r\n"
            f"Content-Type: {content_type}\r\n"
            "Content-Length: "
        ).encode()


def _refusal(status: int, body: bytes) -> Refused:
    try:
        problem = msgspec.json.decode(body)
        return Refused(str(problem["kind"]), str(problem["detail"]))
    except (msgspec.DecodeError, KeyError, TypeError):
        return Refused("server.refused", f"the server answered with status {status}")
