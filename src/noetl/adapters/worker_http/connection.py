"""One HTTP connection to a server: small requests, and transfers of large bodies.

A worker sends thousands of small requests a second. One of them costs 51 µs of its CPU
here, and 272 µs with aiohttp (ADR 0018).
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from math import inf
from typing import IO, cast
from urllib.parse import unquote, urlsplit

import httptools

from noetl.engine.values.references import WORKER_LIMIT
from noetl.errors import Refused

MAX_ANSWER_BYTES = WORKER_LIMIT + 1024**2
"""Maximum bytes of an answer in memory: the largest value that templates of a task may
read.
"""
MAX_HEAD_BYTES = 64 * 1024
IDLE_SECONDS = 60.0
"""Seconds without progress after which a transfer of a large body fails."""
_PART_BYTES = 1 << 20
_SERVER_ID = b"noetl-server"

Answer = tuple[int, bytes]
"""The status and the body of an answer."""


class HttpConnection(asyncio.Protocol):
    """One connection, which sends one request at a time. ``server_id`` is the id in the
    server's answers.

    ``request`` limits the time by one timer of the connection, which is set again only
    when it is due: thousands of requests a second need none of their own.

    Raises ``OSError``, ``TimeoutError`` or ``httptools.HttpParserError`` if there is no
    answer, and ``Refused`` if the answer is larger than ``max_answer``.
    """

    def __init__(self, max_answer: int) -> None:
        self.server_id = ""
        self.is_open = False
        self._max_answer = max_answer
        self._transport: asyncio.Transport
        self._answer: asyncio.Future[Answer] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._in_head = True
        self._is_download = False
        self._progress = asyncio.Event()
        self._may_write = True
        self._until = inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def request(self, text: bytes, seconds: float) -> asyncio.Future[Answer]:
        """Send head and body at once; return the answer from memory."""
        answer = self._begin()
        self._transport.write(text)
        self._limit(asyncio.get_running_loop(), seconds)
        return answer

    async def upload(self, head: bytes, source: IO[bytes]) -> Answer:
        """Send a file as the body, no faster than the server accepts it."""
        answer = self._begin()
        self._transport.write(head)
        while part := await asyncio.to_thread(source.read, _PART_BYTES):
            while not self._may_write and not answer.done():
                await self._wait()
            if answer.done():  # refused before the end of the body
                self.close()
                return await answer
            self._transport.write(part)
        while not answer.done():
            await self._wait()
        return await answer

    async def download(self, text: bytes, target: IO[bytes]) -> Answer:
        """Write the body of an answer with status 200 into a file; keep the body of an
        error in memory.
        """
        answer = self._begin(is_download=True)
        self._transport.write(text)
        while True:
            is_done = answer.done()
            if self._is_download and self._parts:
                parts, self._parts, self._size = self._parts, [], 0
                await asyncio.to_thread(target.writelines, parts)
            elif is_done:
                return await answer
            else:
                if self.is_open:
                    self._transport.resume_reading()
                await self._wait()

    def close(self) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        if self._answer is not None:
            self._answer.cancel()
        self._transport.close()

    def _begin(self, *, is_download: bool = False) -> asyncio.Future[Answer]:
        self._parts, self._size, self._head_size = [], 0, 0
        self._is_download = is_download
        self._until = inf
        self._answer = asyncio.get_running_loop().create_future()
        return self._answer

    def _limit(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Let the running request fail after this time."""
        self._until = loop.time() + seconds
        if self._timer is not None:
            if self._timer_at <= self._until:
                return
            self._timer.cancel()
        self._timer_at = self._until
        self._timer = loop.call_at(self._until, self._look)

    def _look(self) -> None:
        """Fail the running request if its time is over."""
        self._timer = None
        if self._answer is None or self._answer.done() or self._until == inf:
            return
        loop = asyncio.get_running_loop()
        left = self._until - loop.time()
        if left > 0:
            self._limit(loop, left)
        else:
            self._fail(TimeoutError())

    async def _wait(self) -> None:
        """Wait for the next event of the connection. Raises ``TimeoutError``."""
        self._progress.clear()
        async with asyncio.timeout(IDLE_SECONDS):
            await self._progress.wait()

    # -- called by the transport -------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # no request is running
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)
            self.close()
            return
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD_BYTES and self._answer is not None:
                self._refuse("head", MAX_HEAD_BYTES)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
        self._fail(error or ConnectionResetError("the server has hung up"))

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._progress.set()

    # -- called by the parser ----------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == _SERVER_ID:
            self.server_id = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._is_download &= self._parser.get_status_code() == 200

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._is_download:
            self._progress.set()
            if self._size > 2 * _PART_BYTES:
                self._transport.pause_reading()
        elif self._size > self._max_answer:
            self._refuse("body", self._max_answer)

    def on_message_complete(self) -> None:
        self._in_head = True
        status = self._parser.get_status_code()
        if status < 200:  # an interim answer: the final one follows
            return
        answer, self._answer = self._answer, None
        if not self._parser.should_keep_alive():
            self.close()
        if answer is not None and not answer.done():
            body = b"" if self._is_download else b"".join(self._parts)
            answer.set_result((status, body))
        self._progress.set()

    def _refuse(self, part: str, limit: int) -> None:
        message = f"the {part} of the server's answer has more than {limit:,} bytes"
        self._fail(Refused("server.refused", message))
        self._parts = []
        self.close()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self._progress.set()


class Proxy:
    """A proxy by its address, ``http://user:password@host:3128``.

    The proxy resolves the names of servers. TLS is with the server, not with the
    proxy, which sees neither tokens nor bodies. ``authorization`` is a header line
    for requests that the proxy forwards.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self.authorization = ""
        if parts.username is not None:
            said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            encoded = b64encode(said.encode()).decode()
            self.authorization = f"Proxy-Authorization: Basic {encoded}\r\n"

    async def connect(
        self,
        connection: HttpConnection,
        host: str,
        port: int,
        context: ssl.SSLContext | None,
    ) -> None:
        """Connect through the proxy. Raises ``OSError`` if it cannot be reached or
        refuses.
        """
        loop = asyncio.get_running_loop()
        if context is None:
            await loop.create_connection(lambda: connection, self._host, self._port)
            return
        transport, tunnel = await loop.create_connection(
            _Tunnel, self._host, self._port
        )
        try:
            name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            await tunnel.open(name, self.authorization)
            secured = await loop.start_tls(
                transport, connection, context, server_hostname=host
            )
        except BaseException:
            transport.close()
            raise
        connection.connection_made(cast("asyncio.Transport", secured))


class _Tunnel(asyncio.Protocol):
    """The connection to the proxy until the proxy has opened the tunnel."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._head = b""
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, name: str, authorization: str) -> None:
        """Open the tunnel. Raises ``OSError``."""
        text = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n{authorization}\r\n"
        self._transport.write(text.encode())
        await self._opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._head += data
        if self._opened.done():
            return
        if b"\r\n\r\n" in self._head:
            line = self._head.split(b"\r\n")[0].decode("latin-1")
            if line.split(" ")[1:2] == ["200"]:
                self._opened.set_result(None)
            else:
                self._fail(f"the proxy answered: {line[:200]}")
        elif len(self._head) > MAX_HEAD_BYTES:
            self._fail(f"the proxy's answer has more than {MAX_HEAD_BYTES:,} bytes")

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"the proxy has hung up: {error or 'without a word'}")

    def _fail(self, why: str) -> None:
        if not self._opened.done():
            self._opened.set_exception(ConnectionError(why))
