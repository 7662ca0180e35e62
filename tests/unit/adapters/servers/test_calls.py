"""Calls of a worker to a server, against one that says what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from noetl.adapters.servers.calls import Calls
from noetl.errors import ConfigError, Unreachable


class Peer:
    """Answers each question on a connection with the next of ``answers``."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.questions: list[bytes] = []
        self.url = ""

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        while self.answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            self.questions.append(head + await reader.readexactly(length))
            answer = self.answers.pop(0)
            writer.write(answer)
            if b"close" in answer or not answer:
                break
        writer.close()


def url_of(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def listening(peer: Peer) -> AsyncIterator[Calls]:
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    peer.url = url_of(server)
    calls = Calls("s3cret")
    try:
        yield calls
    finally:
        calls.close()
        server.close()


def said(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def test_connections_are_kept() -> None:
    async def main() -> None:
        peer = Peer(said(b"one"), said(b"two", "422 No"))
        async with listening(peer) as calls:
            for expected in ((200, b"one"), (422, b"two")):
                found = await calls.post(
                    peer.url, "/x", b"{}", seconds=10, context=None
                )
                assert found == expected
        assert peer.connections == 1
        head = peer.questions[0].decode().splitlines()
        assert head[0] == "POST /x HTTP/1.1"
        assert "Authorization: Bearer s3cret" in head
        assert "Content-Length: 2" in head
        assert head[-1] == "{}"

    asyncio.run(main())


def test_an_answer_may_come_in_parts() -> None:
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks += b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    async def main() -> None:
        peer = Peer(chunks, said(b"next"))
        async with listening(peer) as calls:
            for expected in (b"abcde", b"next"):
                found = await calls.post(peer.url, "/", b"", seconds=10, context=None)
                assert found == (200, expected)

    asyncio.run(main())


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    async def main() -> None:
        peer = Peer(said(b"one", more="Connection: close\r\n"), said(b"two"))
        async with listening(peer) as calls:
            for expected in (b"one", b"two"):
                found = await calls.post(peer.url, "/", b"", seconds=10, context=None)
                assert found == (200, expected)
        assert peer.connections == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nclose", "hung up"),
        (b"SSH-2.0-hello close\r\n", "Expected HTTP"),
    ],
    ids=["nothing", "a part", "no http"],
)
def test_what_is_no_answer_is_said(answer: bytes, why: str) -> None:
    async def main() -> None:
        peer = Peer(answer)
        async with listening(peer) as calls:
            with pytest.raises(Unreachable, match=why):
                await calls.post(peer.url, "/", b"", seconds=10, context=None)

    asyncio.run(main())


def test_nobody_waits_for_ever() -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.read()  # until nobody waits any more
            writer.close()
            over.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        calls = Calls("t")
        with pytest.raises(Unreachable, match="TimeoutError"):
            await calls.post(url_of(server), "/", b"", seconds=0.01, context=None)
        calls.close()
        await over.wait()
        server.close()

    asyncio.run(main())


def test_where_nobody_listens_is_said() -> None:
    async def main() -> None:
        with pytest.raises(Unreachable, match=r"refused|Connect"):
            await Calls("t").post(
                "http://127.0.0.1:1", "/", b"", seconds=10, context=None
            )

    asyncio.run(main())


def test_a_token_cannot_smuggle_headers() -> None:
    with pytest.raises(ConfigError):
        Calls("a\r\nX-Evil: 1")
