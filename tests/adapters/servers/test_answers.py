"""Answers of a server that are too large for the worker that asked."""

from __future__ import annotations

import asyncio

import pytest

from noetl.adapters.worker_http.transport import HttpClient
from noetl.errors import Refused
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker_protocol import messages

PLAYBOOK = messages.PlaybookRequest("w", messages.LeaseKey("e-1", 1))


async def test_an_answer_above_the_limit_is_refused_at_once() -> None:
    """The worker does not repeat the request until its fence."""
    asked, closed = 0, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        writer.write(b"x" * 20_000)
        await reader.read()
        writer.close()
        closed.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = HttpClient("t", max_answer_bytes=10_000)
    connection = ServerConnection(client, [url], worker="w", pool="p")
    with pytest.raises(Refused, match="has more than 10,000 bytes"):
        await connection.request(PLAYBOOK, bytes)
    await closed.wait()
    server.close()
    assert asked == 1
