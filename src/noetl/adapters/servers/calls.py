"""Calls to a server whose answers are small: a question, an answer, a kept connection.

A worker makes thousands of them a second, so they cost little; what is large goes
another way.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from typing import cast
from urllib.parse import urlsplit

import httptools

from noetl.errors import ConfigError, Unreachable

_PORTS = {"http": 80, "https": 443}
_MARK = b"noetl-server"


class Calls:
    """Asks with a token. Connections are kept for the next call to the same server.

    ``marks`` is what servers have said that they are, each in its answers.
    """

    def __init__(self, token: str) -> None:
        if not token.isascii() or not token.isprintable():
            message = "the worker's token is not one line of plain characters"
            raise ConfigError(f"{message}: give it as noetl token create printed it")
        self.marks: dict[str, str] = {}
        self._token = token
        self._heads: dict[str, bytes] = {}
        self._idle: defaultdict[str, list[_Connection]] = defaultdict(list)
        self._closed = False

    async def post(
        self,
        server: str,
        path: str,
        body: bytes,
        *,
        seconds: float,
        context: ssl.SSLContext | None,
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises ``Unreachable``."""
        question = b"%b%d\r\n\r\n%b" % (self._head(server + path), len(body), body)
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(server, question, context)
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def _ask(
        self, server: str, question: bytes, context: ssl.SSLContext | None
    ) -> tuple[int, bytes]:
        connection = self._take(server) or await _connect(server, context)
        try:
            answer = await connection.ask(question)
        except BaseException:
            connection.close()
            raise
        if connection.mark:
            self.marks[server] = connection.mark
        if self._closed:
            connection.close()
        elif connection.is_open:
            self._idle[server].append(connection)
        return answer

    def close(self) -> None:
        self._closed = True
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _take(self, server: str) -> _Connection | None:
        """The one that was used last: others are left to rest, and to be closed."""
        idle = self._idle[server]
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    def _head(self, url: str) -> bytes:
        head = self._heads.get(url)
        if head is None:
            parts = urlsplit(url)
            head = self._heads[url] = (
                f"POST {parts.path} HTTP/1.1\r\n"
                f"Host: {parts.netloc.rpartition('@')[2]}\r\n"
                f"Authorization: Bearer {self._token}\r\n"
                "Content-Type: application/json\r\n"
                "Content-Length: "
            ).encode()
        return head


async def _connect(server: str, context: ssl.SSLContext | None) -> _Connection:
    parts = urlsplit(server)
    _, connection = await asyncio.get_running_loop().create_connection(
        _Connection,
        parts.hostname or "",
        parts.port or _PORTS[parts.scheme],
        ssl=context,
    )
    return connection


class _Connection(asyncio.Protocol):
    """One question at a time."""

    def __init__(self) -> None:
        self.mark = ""
        self.is_open = False
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []

    async def ask(self, question: bytes) -> tuple[int, bytes]:
        self._parts = []
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(question)
        return await self._answer

    def close(self) -> None:
        self.is_open = False
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # nobody has asked
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._fail(error or ConnectionResetError("the server has hung up"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

    # -- what the parser calls ---------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == _MARK:
            self.mark = value.decode("latin-1")

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        answer, self._answer = self._answer, None
        if not self._parser.should_keep_alive():
            self.close()
        if answer is not None and not answer.done():
            answer.set_result((self._parser.get_status_code(), b"".join(self._parts)))
