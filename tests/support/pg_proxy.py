"""A man in the middle for tests: between a client and a PostgreSQL server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
CANCEL_REQUEST = struct.pack("!ii", 16, 80877102)
COMMIT = b"COMMIT\0"
_FIELDS = b"SFATAL\0VFATAL\0C28000\0Mno entry for a connection without encryption\0\0"
DENIED = b"E" + struct.pack("!i", 4 + len(_FIELDS)) + _FIELDS


class Proxy:
    """Forwards everything, until a client commits while ``holds_commit`` is set.

    Then the server commits, but the client does not hear of it; ``committed`` is set.
    With ``tls`` the client's half must be encrypted; the server's never is. While
    ``drops_cancellations`` is set, the server does not hear of them.
    """

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self._tls = tls
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self.holds_commit = False
        self.drops_cancellations = False
        self.committed = asyncio.Event()
        self.port = 0

    def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    def cut(self) -> None:
        """Everybody loses the connection, without a word."""
        for each in self._open:
            each.transport.abort()

    async def end(self) -> None:
        self.cut()
        await asyncio.gather(*self._serving)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._open.add(writer)
        with contextlib.suppress(OSError):  # one of them has left
            if self._tls is not None:
                if await reader.readexactly(8) != SSL_REQUEST:
                    writer.write(DENIED)
                    writer.close()
                    return
                writer.write(b"S")
                await writer.start_tls(self._tls)
            far, near = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(near)
            held = asyncio.Event()
            answering = asyncio.ensure_future(self._answer(far, writer, held))
            try:
                await self._forward(reader, near, held)
            finally:
                near.close()
                await answering
        writer.close()

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        held: asyncio.Event,
    ) -> None:
        while data := await self._read(reader):
            if self.holds_commit and COMMIT in data:
                held.set()
            if self.drops_cancellations and data.startswith(CANCEL_REQUEST):
                return
            writer.write(data)

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        held: asyncio.Event,
    ) -> None:
        while data := await self._read(reader):
            if not held.is_set():
                writer.write(data)
            elif COMMIT in data:
                self.committed.set()
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await reader.read(65536)
        except OSError:
            return b""


@contextlib.asynccontextmanager
async def proxy(target: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    between = Proxy(target, tls)
    server = await asyncio.start_server(between.accept, "127.0.0.1", 0)
    between.port = server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        server.close()
        await between.end()
