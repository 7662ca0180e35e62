"""A man in the middle for tests: between a client and a PostgreSQL server."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
COMMIT = b"COMMIT\0"


class Proxy:
    """Forwards everything, until a client commits while ``holds_commit`` is set.

    Then the server commits, but the client does not hear of it; ``committed`` is set.
    With ``tls`` the client's half is encrypted; the server never is.
    """

    def __init__(self, target: int, tls: ssl.SSLContext | None = None) -> None:
        self._target = target
        self._tls = tls
        self._clients: set[asyncio.StreamWriter] = set()
        self.holds_commit = False
        self.committed = asyncio.Event()
        self.port = 0

    def cut(self) -> None:
        """Every client loses its connection, without a word."""
        for client in self._clients:
            client.transport.abort()

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._clients.add(writer)
        if self._tls is not None:
            assert await reader.readexactly(8) == SSL_REQUEST
            writer.write(b"S")
            await writer.start_tls(self._tls)
        upstream = await asyncio.open_connection("127.0.0.1", self._target)
        held = asyncio.Event()
        with contextlib.suppress(OSError):
            await asyncio.gather(
                self._forward(reader, upstream[1], held),
                self._answer(upstream[0], writer, held),
            )
        for each in (writer, upstream[1]):
            each.transport.abort()
        self._clients.discard(writer)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        held: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            if self.holds_commit and COMMIT in data:
                held.set()
            writer.write(data)
        writer.write_eof()

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        held: asyncio.Event,
    ) -> None:
        while data := await reader.read(65536):
            if not held.is_set():
                writer.write(data)
            elif COMMIT in data:
                self.committed.set()
        writer.close()


@contextlib.asynccontextmanager
async def proxy(target: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    between = Proxy(target, tls)
    server = await asyncio.start_server(between.serve, "127.0.0.1", 0)
    between.port = server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        between.cut()
        server.close()
