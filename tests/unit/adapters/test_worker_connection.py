"""One connection of a worker, event by event, on a transport in memory."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import Any

import httptools
import pytest

from noetl.adapters.worker_http import connection as module
from noetl.adapters.worker_http.connection import HttpConnection, _Tunnel
from noetl.adapters.worker_http.transport import HttpClient
from noetl.errors import Unreachable

OK = b"HTTP/1.1 200 OK\r\nNoetl-Server: a01\r\nContent-Length: 2\r\n\r\nok"


class Transport:
    """Keeps what is written; the test plays the server."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = self.is_paused = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def opened() -> tuple[HttpConnection, Transport]:
    connection, transport = HttpConnection(100), Transport()
    given: Any = transport
    connection.connection_made(given)
    return connection, transport


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_request_is_answered_and_the_server_is_known() -> None:
    connection, transport = opened()
    answer = connection.request(b"hello", 60.0)
    again = connection.request(b"", 30.0)
    connection.data_received(OK)

    assert (await again, transport.written) == ((200, b"ok"), b"hello")
    assert (connection.server_id, answer.done()) == ("a01", False)
    connection.close()


async def test_data_without_a_request_closes_the_connection() -> None:
    connection, transport = opened()

    connection.data_received(OK)

    assert (transport.is_closed, connection.is_open) == (True, False)


async def test_an_answer_that_is_not_http_is_an_error() -> None:
    connection, transport = opened()
    answer = connection.request(b"hello", 60.0)
    connection.data_received(b"SSH-2.0\r\n")

    with pytest.raises(httptools.HttpParserError):
        await answer
    assert transport.is_closed


async def test_an_endless_head_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HEAD_BYTES", 50)
    connection, _ = opened()
    answer = connection.request(b"hello", 60.0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nA: " + b"x" * 60)

    with pytest.raises(module.Refused, match="the head of the server's answer"):
        await answer


async def test_an_interim_answer_is_passed_over() -> None:
    connection, _ = opened()
    answer = connection.request(b"hello", 60.0)
    connection.data_received(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)

    assert await answer == (200, b"ok")


async def test_an_upload_goes_no_faster_than_it_is_taken() -> None:
    connection, transport = opened()
    connection.pause_writing()
    sending = asyncio.ensure_future(connection.upload(b"head", BytesIO(b"body")))
    await until(lambda: connection._answer is not None)
    for _ in range(3):  # an event that is not the one to wait for
        connection._progress.set()
        await some_turns()
    assert transport.written == b"head"
    connection.resume_writing()
    await until(lambda: transport.written == b"headbody")
    connection._progress.set()
    await some_turns()
    connection.data_received(OK)

    assert await sending == (200, b"ok")


async def test_an_upload_that_is_refused_ends_at_once() -> None:
    connection, transport = opened()
    connection.pause_writing()
    sending = asyncio.ensure_future(connection.upload(b"head", BytesIO(b"body")))
    await until(lambda: transport.written == b"head")
    await some_turns()
    connection.data_received(OK.replace(b"200 OK", b"413 Too Large"))

    assert await sending == (413, b"ok")
    assert transport.is_closed


async def until(is_true: Any) -> None:
    async with asyncio.timeout(30):
        while not is_true():  # noqa: ASYNC110 - threads take part
            await asyncio.sleep(0)


async def test_a_download_is_written_as_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PART_BYTES", 1)
    connection, transport = opened()
    target = BytesIO()
    receiving = asyncio.ensure_future(connection.download(b"head", target))
    await until(lambda: transport.written == b"head")
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcd")
    assert transport.is_paused
    await until(lambda: target.getvalue() == b"abcd")
    await until(lambda: not transport.is_paused)
    connection.is_open = False
    connection._progress.set()
    await some_turns()
    connection.data_received(b"ef")

    assert await receiving == (200, b"")
    assert target.getvalue() == b"abcdef"


async def test_the_time_of_a_request_is_measured_by_one_timer() -> None:
    connection, _ = opened()
    connection._look()
    answer = connection.request(b"hello", 60.0)
    connection._look()  # there is time left
    assert not answer.done()
    connection._until = 0.0
    connection._look()

    with pytest.raises(TimeoutError):
        await answer
    connection._look()
    connection.close()


async def test_a_closed_connection_fails_its_request() -> None:
    connection, _ = opened()
    answer = connection.request(b"hello", 60.0)
    connection.connection_lost(None)

    with pytest.raises(ConnectionResetError, match="has hung up"):
        await answer
    idle, _ = opened()
    idle.connection_lost(OSError("gone"))
    idle.close()
    assert not idle.is_open


async def test_a_tunnel_is_opened_once() -> None:
    tunnel, transport = _Tunnel(), Transport()
    given: Any = transport
    tunnel.connection_made(given)
    opening = asyncio.ensure_future(tunnel.open("host:443", ""))
    await some_turns()
    tunnel.data_received(b"HTTP/1.1 200 OK\r\n")
    tunnel.data_received(b"\r\n")
    tunnel.data_received(b"more")
    tunnel.connection_lost(None)

    await opening
    assert transport.written.startswith(b"CONNECT host:443 HTTP/1.1\r\n")


async def test_a_tunnel_that_talks_without_end_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_HEAD_BYTES", 10)
    tunnel = _Tunnel()
    tunnel.data_received(b"x" * 11)

    with pytest.raises(ConnectionError, match="has more than 10 bytes"):
        await tunnel._opened


class Scripted(HttpConnection):
    """A connection that has its answer already."""

    async def request(self, text: bytes, seconds: float) -> Any:  # type: ignore[override]
        return 200, b"ok"


async def test_connections_are_used_again_while_they_are_open() -> None:
    client = HttpClient("t")
    first, transport = Scripted(100), Transport()
    given: Any = transport
    first.connection_made(given)
    gone = Scripted(100)
    client._idle["http://a"] += [first, gone]

    for _ in range(2):
        assert await client.request("http://a", "/p", b"", seconds=1.0) == b"ok"
    assert client._idle["http://a"] == [first]
    first.is_open = False

    class Closing(Scripted):
        async def request(self, text: bytes, seconds: float) -> Any:  # type: ignore[override]
            self.is_open = False
            return 200, b"ok"

    ending = Closing(100)
    ending.connection_made(given)
    client._idle["http://a"] = [ending]
    assert await client.request("http://a", "/p", b"", seconds=1.0) == b"ok"
    assert client._idle["http://a"] == []
    late = Scripted(100)
    late.connection_made(given)
    client._idle["http://a"] = [late]
    client._closed = True
    assert await client.request("http://a", "/p", b"", seconds=1.0) == b"ok"
    assert transport.is_closed


async def test_the_certificates_of_a_server_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trusted: list[str] = []
    client, context = HttpClient("t", trusted.append), object()  # type: ignore[arg-type]
    asked: list[Any] = []

    async def refuse(*args: Any, ssl: Any = None) -> Any:
        asked.append(ssl)
        raise OSError("refused")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "create_connection", refuse)
    for given in (None, context):
        client._contexts = {} if given is None else {"https://a": context}  # type: ignore[dict-item]
        with pytest.raises(Unreachable, match="refused"):
            await client.request("https://a", "/p", b"", seconds=1.0)

    assert (trusted, asked) == (["https://a"], [None, context])
    assert client._contexts == {}
