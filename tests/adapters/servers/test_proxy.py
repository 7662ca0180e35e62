"""Servers behind an HTTP proxy: forwarded requests, and tunnels for TLS."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from certificates import Authority

from noetl.adapters.worker_http.transport import HttpClient
from noetl.errors import Unreachable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Proxy:
    """Forwards to one server, whatever name is asked for: names are the proxy's."""

    def __init__(self, refusal: bytes | None = None) -> None:
        self.heads: list[list[str]] = []
        self.url = ""
        self.target = 0
        self.handlers: list[asyncio.Task[None]] = []
        self._refusal = refusal

    async def handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self.serve(reader, writer))
        self.handlers.append(task)
        await task

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode().splitlines())
        if self._refusal is not None:
            writer.write(self._refusal)
        elif head.startswith(b"CONNECT"):
            far_reader, far_writer = await asyncio.open_connection(
                "127.0.0.1", self.target
            )
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        else:
            writer.write(OK)
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    await _close(writer)


@asynccontextmanager
async def listening(proxy: Proxy) -> AsyncIterator[None]:
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy.url = f"http://me:p%40ss@127.0.0.1:{port}"
    try:
        yield
        await asyncio.gather(*proxy.handlers)
    finally:
        server.close()


SAID = f"Proxy-Authorization: Basic {b64encode(b'me:p@ss').decode()}"


def test_a_plain_request_is_forwarded() -> None:
    async def main() -> None:
        proxy = Proxy()
        async with listening(proxy):
            client = HttpClient("t", proxy=proxy.url)
            server = "http://noetl.example:8082"
            assert await client.request(server, "/x", b"{}", seconds=10) == b"ok"
            await client.close()
        [head] = proxy.heads
        assert head[0] == "POST http://noetl.example:8082/x HTTP/1.1"
        assert "Host: noetl.example:8082" in head
        assert SAID in head

    asyncio.run(main())


def test_tls_is_with_the_server_through_a_tunnel(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.vouch("noetl.example")
    heads: list[bytes] = []
    answered = asyncio.Event()

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await reader.read()
        await _close(writer)
        answered.set()

    async def main() -> None:
        shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        shown.load_cert_chain(cert, key)
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=shown)
        proxy = Proxy()
        proxy.target = server.sockets[0].getsockname()[1]
        async with listening(proxy):
            client = HttpClient(
                "t",
                lambda url: ssl.create_default_context(cafile=str(authority.file)),
                proxy=proxy.url,
            )
            url = "https://noetl.example"
            assert await client.request(url, "/x", b"", seconds=10) == b"ok"
            with pytest.raises(Unreachable, match="certificate"):
                await client.request("https://other.example", "/x", b"", seconds=10)
            await client.close()
        await answered.wait()
        server.close()

    asyncio.run(main())
    assert heads[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert b"Proxy-Authorization" not in heads[0]


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (b"HTTP/1.1 407 Who are you\r\n\r\n", "407 Who are you"),
        (b"", "the proxy has hung up"),
        (b"HTTP/1.1 200 " + b"x" * 100_000, "more than 65,536 bytes"),
    ],
    ids=["refused", "hung up", "endless"],
)
def test_a_proxy_that_opens_no_tunnel_is_named(refusal: bytes, why: str) -> None:
    async def main() -> None:
        proxy = Proxy(refusal)
        async with listening(proxy):
            client = HttpClient("t", proxy=proxy.url)
            with pytest.raises(Unreachable, match=why):
                await client.request("https://noetl.example", "/x", b"", seconds=10)
        [head] = proxy.heads
        assert head[0] == "CONNECT noetl.example:443 HTTP/1.1"
        assert SAID in head

    asyncio.run(main())


def test_servers_of_this_machine_are_reached_without_the_proxy() -> None:
    async def main() -> None:
        near = Proxy()
        async with listening(near):
            server = f"http://127.0.0.1:{near.url.rpartition(':')[2]}"
            client = HttpClient("t", proxy="http://127.0.0.1:1")
            assert await client.request(server, "/x", b"", seconds=10) == b"ok"
            await client.close()
        assert near.heads[0][0] == "POST /x HTTP/1.1"

    asyncio.run(main())
