"""The HTTP client of a worker, against a server that answers what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any

import pytest

from noetl.adapters.worker_http import connection
from noetl.adapters.worker_http.transport import HttpClient
from noetl.errors import ConfigError, Defective, Refused, Unreachable

PATH = "/api/events"
LARGE = bytes(range(256)) * 20_000


class Peer:
    """Answers each request on a connection with the next of ``answers``."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.heads: list[list[str]] = []
        self.bodies: list[bytes] = []
        self.handlers: list[asyncio.Task[None]] = []
        self.url = ""

    async def handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self.serve(reader, writer))
        self.handlers.append(task)
        await task

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        while self.answers:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, OSError):
                break
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            self.heads.append(head.decode().splitlines())
            answer = self.answers.pop(0)
            if b"413" not in answer:
                self.bodies.append(await reader.readexactly(length))
            writer.write(answer)
            if b"413" in answer:  # the rest of the body is thrown away
                with suppress(OSError):
                    while await reader.read(65_536):
                        pass
            if b"close" in answer or not answer:
                break
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def listening(peer: Peer, **how: Any) -> AsyncIterator[HttpClient]:
    server = await asyncio.start_server(peer.handle, "127.0.0.1", 0)
    peer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = HttpClient("s3cret", **how)
    try:
        yield client
    finally:
        await client.close()
        await asyncio.gather(*peer.handlers)
        server.close()


def answer(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


async def ask(client: HttpClient, peer: Peer, body: bytes = b"{}") -> bytes:
    return await client.request(peer.url, PATH, body, seconds=10)


def test_requests_share_a_connection() -> None:
    async def main() -> None:
        peer = Peer(answer(b"one"), answer(b"two"))
        async with listening(peer) as client:
            assert await ask(client, peer) == b"one"
            assert await ask(client, peer) == b"two"
        assert peer.connections == 1
        assert peer.heads[0][0] == f"POST {PATH} HTTP/1.1"
        assert "Authorization: Bearer s3cret" in peer.heads[0]
        assert "Content-Type: application/json" in peer.heads[0]
        assert peer.bodies == [b"{}", b"{}"]

    asyncio.run(main())


def test_an_answer_may_come_in_chunks_after_an_early_hint() -> None:
    chunks = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    chunks += b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks += b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    async def main() -> None:
        peer = Peer(chunks, answer(b"next"))
        async with listening(peer) as client:
            assert await ask(client, peer) == b"abcde"
            assert await ask(client, peer) == b"next"

    asyncio.run(main())


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    async def main() -> None:
        peer = Peer(answer(b"one", more="Connection: close\r\n"), answer(b"two"))
        async with listening(peer) as client:
            assert await ask(client, peer) == b"one"
            assert await ask(client, peer) == b"two"
        assert peer.connections == 2

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nclose", "hung up"),
        (b"SSH-2.0-hello close\r\n", "Expected HTTP"),
        (answer(b"", "503 Busy"), "status 503"),
    ],
    ids=["nothing", "a part", "another protocol", "busy"],
)
def test_a_missing_answer_is_unreachable(given: bytes, why: str) -> None:
    async def main() -> None:
        peer = Peer(given)
        async with listening(peer) as client:
            with pytest.raises(Unreachable, match=why) as caught:
                await ask(client, peer)
        assert peer.url + PATH in str(caught.value)

    asyncio.run(main())


def test_refusals_and_defects_are_distinguished() -> None:
    problem = b'{"kind":"lease.lost","detail":"too late"}'

    async def main() -> None:
        peer = Peer(
            answer(problem, "409 No"), answer(b"?", "418 No"), answer(b"", "500 X")
        )
        async with listening(peer) as client:
            with pytest.raises(Refused, match="too late") as refused:
                await ask(client, peer)
            assert refused.value.kind == "lease.lost"
            with pytest.raises(Refused, match="status 418"):
                await ask(client, peer)
            with pytest.raises(Defective):
                await ask(client, peer)

    asyncio.run(main())


def test_a_server_is_known_by_its_id_until_it_fails() -> None:
    async def main() -> None:
        peer = Peer(answer(b"", more="NoETL-Server: a01\r\n"), answer(b"", "503 Busy"))
        async with listening(peer) as client:
            await ask(client, peer)
            assert client.server_ids == {peer.url: "a01"}
            with pytest.raises(Unreachable):
                await ask(client, peer)
            assert client.server_ids == {}

    asyncio.run(main())


@pytest.mark.parametrize(
    "given",
    [
        answer(b"x" * 1001),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        answer(b"x" * 1001, "409 No"),
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 10 * connection.MAX_HEAD_BYTES,
    ],
    ids=["length", "chunks", "refusal", "head"],
)
def test_an_answer_that_is_too_large_is_refused(given: bytes) -> None:
    """Not repeated, as an unreachable server would be: it would be as large again."""

    async def main() -> None:
        peer = Peer(given, answer(b"x" * 1000))
        async with listening(peer, max_answer_bytes=1000) as client:
            with pytest.raises(Refused, match=r"has more than [0-9,]+ bytes"):
                await ask(client, peer)
            assert await ask(client, peer) == b"x" * 1000
        assert peer.connections == 2

    asyncio.run(main())


def test_a_request_ends_with_its_time() -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.read()  # until the client closes the connection
            writer.close()
            closed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unreachable, match="TimeoutError"):
            await HttpClient("t").request(url, PATH, b"", seconds=0.01)
        await closed.wait()
        server.close()

    asyncio.run(main())


def test_a_request_ends_with_its_own_time_on_a_connection_with_a_longer_one() -> None:
    """The timer of the connection is that of the request before."""

    async def main() -> None:
        asked, closed = 0, asyncio.Event()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            nonlocal asked
            await reader.readuntil(b"\r\n\r\n")
            asked += 1
            writer.write(answer(b"one"))
            await reader.read()
            writer.close()
            closed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient("t")
        assert await client.request(url, PATH, b"", seconds=3600) == b"one"
        with pytest.raises(Unreachable, match="TimeoutError"):
            await client.request(url, PATH, b"", seconds=0.01)
        assert asked == 1
        await closed.wait()
        server.close()

    asyncio.run(main())


def test_a_transfer_does_not_end_with_the_time_of_a_request_before() -> None:
    async def main() -> None:
        sent = asyncio.Event()
        looked, closed = asyncio.Event(), asyncio.Event()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer(b"one"))
            await reader.readuntil(b"\r\n\r\n")
            sent.set()
            await looked.wait()
            writer.write(answer(b"two"))
            await reader.read()
            writer.close()
            closed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client, target = HttpClient("t"), BytesIO()
        assert await client.request(url, PATH, b"", seconds=3600) == b"one"
        [kept] = client._idle[url]
        loading = asyncio.create_task(client.download(url, "/get", b"", target))
        await sent.wait()
        kept._look()  # as when the timer is due
        looked.set()
        await loading
        assert target.getvalue() == b"two"
        await client.close()
        await closed.wait()
        server.close()

    asyncio.run(main())


def test_a_port_without_a_server_is_unreachable() -> None:
    async def main() -> None:
        with pytest.raises(Unreachable, match=r"refused|Connect"):
            await HttpClient("t").request("http://127.0.0.1:1", PATH, b"", seconds=10)

    asyncio.run(main())


def test_a_token_cannot_smuggle_headers() -> None:
    with pytest.raises(ConfigError):
        HttpClient("a\r\nX-Evil: 1")


def test_a_large_file_is_sent() -> None:
    async def main() -> None:
        peer = Peer(answer(b"stored"), answer(b"next"))
        async with listening(peer) as client:
            query = {"key": "a b", "size": "1"}
            found = await client.upload(
                peer.url, "/put", query, BytesIO(LARGE), len(LARGE)
            )
            assert found == b"stored"
            assert await ask(client, peer) == b"next"
        assert peer.heads[0][0] == "PUT /put?key=a+b&size=1 HTTP/1.1"
        assert "Content-Type: application/octet-stream" in peer.heads[0]
        assert peer.bodies[0] == LARGE
        assert peer.connections == 1

    asyncio.run(main())


def test_an_upload_that_is_refused_early_ends() -> None:
    class Endless(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return b"x" * (size or 0)

    async def main() -> None:
        problem = b'{"kind":"request.too_large","detail":"no"}'
        peer = Peer(answer(problem, "413 No"), answer(b"next"))
        async with listening(peer) as client:
            with pytest.raises(Refused, match="no"):
                await client.upload(peer.url, "/put", {}, Endless(), 10**12)
            assert await ask(client, peer) == b"next"
        assert peer.connections == 2

    asyncio.run(main())


def test_a_large_answer_goes_into_a_file() -> None:
    async def main() -> None:
        problem = b'{"kind":"ref.gone","detail":"gone"}'
        peer = Peer(answer(LARGE), answer(problem, "410 Gone"), answer(LARGE)[:-1])
        async with listening(peer, max_answer_bytes=1000) as client:
            target = BytesIO()
            await client.download(peer.url, "/get", b"{}", target)
            assert target.getvalue() == LARGE
            with pytest.raises(Refused, match="gone"):
                await client.download(peer.url, "/get", b"{}", target)
            with pytest.raises(Unreachable, match="hung up"):
                await client.download(peer.url, "/get", b"{}", target)
        assert peer.connections == 1

    asyncio.run(main())


def test_a_transfer_without_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.01)

    async def main() -> None:
        closed = asyncio.Event()

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
            await reader.read()
            writer.close()
            closed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unreachable, match="TimeoutError"):
            await HttpClient("t").download(url, "/get", b"", BytesIO())
        await closed.wait()
        server.close()

    asyncio.run(main())
