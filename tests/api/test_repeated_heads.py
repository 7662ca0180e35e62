"""A connection that repeats a head: the same answers as if each head were parsed."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from servers import Api, Running
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from noetl.api.http.protocol import MAX_LEARNED, BoundedProtocol
from noetl.api.http.quotas import Connections
from noetl.api.http.repeated_heads import KnownHead, checked_in, remember
from noetl.api.http.server import _config

HEAD = (
    b"POST /api/events HTTP/1.1\r\nHost: noetl.example\r\n"
    b"Authorization: Bearer ntl_0\r\nContent-Type: application/json\r\n"
    b"Content-Length: "
)
FIRST = HEAD + b"3\r\n\r\none"


class Wire:
    """A transport that keeps what it was asked to send."""

    def __init__(self) -> None:
        self.sent = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def writelines(self, parts: Sequence[bytes]) -> None:
        self.sent += b"".join(parts)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what was understood, and remember every head. A body that is a digit takes
    as many turns of the loop."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    head = [
        (name.decode(), value.decode("latin-1")) for name, value in scope["headers"]
    ]
    names = ("method", "path", "query_string", "http_version", "client", "scheme")
    said = {name: str(scope[name]) for name in names}
    text = json.dumps([said, head, body.decode("latin-1")]).encode()
    if checked_in(scope, str) is None:
        remember(scope, "checked")
    for _ in range(int(body) if body.isdigit() and len(body) == 1 else 0):
        await asyncio.sleep(0)
    length = b"%d" % len(text)
    headers = [(b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def talk(
    *parts: bytes, learns: bool = True, waits: bool = True
) -> tuple[bytes, bool, int]:
    """Send the parts one after the other; return what was answered, whether the server
    has hung up, and the number of heads that were not parsed. Without ``waits`` all but
    the first part are sent before any of them is answered."""
    found = []

    async def main() -> tuple[bytes, bool]:
        wire: Any = Wire()
        config = _config(echo, Connections(9, 9))
        config.load()
        state = ServerState()
        protocol = BoundedProtocol(config, state, {}, admission=Connections(9, 9))
        if not learns:
            protocol._remember = lambda *_: None  # type: ignore[method-assign]
        repeats = protocol._repeats

        def record(data: bytes) -> bool:
            found.append(repeats(data))
            return found[-1]

        protocol._repeats = record  # type: ignore[method-assign]
        protocol.connection_made(wire)
        for number, part in enumerate(parts, 1):
            protocol.data_received(part)
            if waits or number in (1, len(parts)):
                for _ in range(8 * number):  # more turns of the loop than answers take
                    await asyncio.sleep(0)
        answered = wire.sent, wire.closed
        protocol.connection_lost(None)
        return answered

    sent, closed = asyncio.run(main())
    return sent, closed, sum(found)


def test_a_head_is_parsed_once() -> None:
    second = HEAD + b"5\r\n\r\nthree"
    sent, closed, repeated = talk(FIRST, second, FIRST)

    assert repeated == 2
    assert not closed
    assert (sent, closed) == talk(FIRST, second, FIRST, learns=False)[:2]
    assert sent.count(b"HTTP/1.1 200 OK") == 3
    assert b'["content-length", "5"]], "three"]' in sent


def test_a_connection_learns_another_head() -> None:
    other = FIRST.replace(b"/api/events", b"/api/worker/claim")
    sent, _, repeated = talk(FIRST, FIRST, other, other, FIRST)

    assert repeated == 2
    assert sent.count(b"/api/worker/claim") == 2


def test_requests_that_arrive_during_an_answer_wait_for_it() -> None:
    """The first of them take longest."""
    bodies = range(5, -1, -1)
    parts = [FIRST, *(HEAD + b"1\r\n\r\n%d" % number for number in bodies)]
    sent, closed, _ = talk(*parts, waits=False)

    assert (sent, closed) == talk(*parts, learns=False, waits=False)[:2]
    places = [sent.index(b'"]], "%d"]' % number) for number in bodies]
    assert places == sorted(places)


BODY = b"one"
ORDERS = {
    "length at the end": FIRST,
    "length in the middle": (
        b"POST /api/executions?wait=9&x=%20 HTTP/1.1\r\nHost: noetl.example\r\n"
        b"Authorization: Bearer ntl_0\r\nContent-Length: 3\r\n"
        b"Content-Type: application/json\r\nX-Empty:\r\n\r\none"
    ),
}


def hostile(first: bytes) -> dict[str, list[bytes]]:
    """What may follow a request with this head."""

    def changed(old: bytes, new: bytes) -> bytes:
        assert first.count(old) == 1, old
        return first.replace(old, new)

    def length(text: bytes) -> bytes:
        return changed(b" 3\r\n", b" %b\r\n" % text)

    def more(lines: bytes) -> bytes:
        return changed(b" 3\r\n", b" 3\r\n%b\r\n" % lines)

    digits = first.index(b" 3\r\n") + 1
    return {
        "another path": [changed(b"/api/", b"/apI/")],
        "another token": [changed(b"ntl_0", b"ntl_1")],
        "another host": [changed(b"noetl.example", b"noetl.exampl")],
        "another method": [changed(b"POST", b"PUT")],
        "another type": [changed(b"n/json", b"n/jsom")],
        "an older protocol": [changed(b"HTTP/1.1", b"HTTP/1.0")],
        "one more header": [more(b"X: y")],
        "chunks": [more(b"Transfer-Encoding: chunked"), b"0\r\n\r\n", first],
        "a second length": [more(b"Content-Length: 3")],
        "another length": [more(b"Content-Length: 0")],
        "a close": [more(b"Connection: close"), first],
        "an upgrade": [more(b"Connection: upgrade\r\nUpgrade: h2c")],
        "zeros before the length": [length(b"0003")],
        "many zeros": [length(b"0" * 40 + b"3")],
        "a sign": [length(b"+3")],
        "a negative length": [length(b"-3")],
        "no length": [length(b"")],
        "a hexadecimal length": [length(b"0x3")],
        "a length with an underscore": [length(b"0_3")],
        "digits that are not ASCII": [length(b"\xd9\xa3")],
        "a list of lengths": [length(b"3, 3")],
        "blanks around the length": [length(b" 3 ")],
        "a huge length": [length(b"9" * 20)],
        "lines that end with LF": [first.replace(b"\r\n", b"\n")],
        "a length that ends with CR": [changed(b" 3\r\n", b" 3\r")],
        "a header behind a bare LF": [changed(b" 3\r\n", b" 3\nX: y\r\n")],
        "a body that is too short": [length(b"4"), b"!", first],
        "a body that hides a request": [
            length(b"%d" % (len(BODY) + len(first))),
            first,
            first,
        ],
        "a request behind the body": [first + first.replace(BODY, b"two"), first],
        "rubbish behind the body": [first + b"rubbish\r\n\r\n", first],
        "an empty line before": [b"\r\n" + first, first],
        "an empty line apart": [b"\r\n", first],
        "a byte before": [b"G", first],
        "a head in two parts": [first[:1], first[1:], first],
        "a length in two parts": [
            first[:digits] + b"1",
            b"0" + first[digits + 1 :] + b"4567890",
            first,
        ],
        "a body in two parts": [first[:-1], first[-1:], first],
        "a blank line in two parts": [first[:-5], first[-5:], first],
        "an empty body": [length(b"0")[: -len(BODY)], first],
        "two at once": [first * 2],
        "twenty at once": [first * 20],
    }


CASES = [(order, name) for order in ORDERS for name in hostile(FIRST)]


@pytest.mark.parametrize(("order", "name"), CASES)
def test_a_known_head_changes_no_answer(order: str, name: str) -> None:
    first = ORDERS[order]
    parts = [first, first, *hostile(first)[name]]
    sent, closed, repeated = talk(*parts)
    assert repeated > 0
    assert (sent, closed) == talk(*parts, learns=False)[:2]


def mutations(first: bytes, count: int) -> Iterator[list[bytes]]:
    """Requests with a few bytes changed, left out or put in, in up to three parts."""
    chance = random.Random(7)
    for _ in range(count):
        text = bytearray(first * chance.choice((1, 1, 2)))
        for _ in range(chance.randrange(4)):
            place = chance.randrange(len(text))
            byte = chance.choice(b"\r\n :,0139azPO\x00\xff\t")
            kind = chance.randrange(3)
            text[place : place + (kind > 0)] = bytes([byte]) * (kind < 2)
        cuts = sorted(chance.randrange(len(text)) for _ in range(chance.randrange(3)))
        edges = [0, *cuts, len(text)]
        yield [bytes(text[a:b]) for a, b in pairwise(edges) if a < b]


@pytest.mark.parametrize("order", ORDERS)
def test_changed_bytes_are_read_as_by_the_parser_alone(order: str) -> None:
    first = ORDERS[order]
    for parts in mutations(first, 800):
        said = [first, *parts, first]
        assert talk(*said)[:2] == talk(*said, learns=False)[:2], said


@pytest.mark.parametrize(
    "head",
    [
        FIRST.replace(b"Content-Type:", b"Expect: 100-continue\r\nContent-Type:"),
        FIRST.replace(b"Content-Type:", b"Connection: keep-alive\r\nContent-Type:"),
        FIRST.replace(b"Content-Type:", b"X: " + b"x" * 5000 + b"\r\nContent-Type:"),
        FIRST.replace(b"/api/events", b"http://noetl.example/api/events"),
        FIRST.replace(b"/api/events", b"/api/events?"),
        FIRST.replace(b" 3\r\n", b" 3 \r\n"),
        FIRST.replace(b" 3\r\n", b" 03\r\n"),
        b"GET /api/executions HTTP/1.1\r\nHost: noetl.example\r\n\r\n",
    ],
)
def test_only_plain_heads_are_learned(head: bytes) -> None:
    sent, closed, repeated = talk(head, head)
    assert repeated == 0
    assert (sent, closed) == talk(head, head, learns=False)[:2]


def test_a_connection_whose_heads_all_differ_learns_no_more() -> None:
    different = [
        FIRST.replace(b"ntl_0", b"ntl_%d" % number) for number in range(MAX_LEARNED)
    ]
    assert talk(*different, different[-1])[2] == 1
    assert talk(*different, FIRST, FIRST, FIRST)[2] == 0


# -- a server ------------------------------------------------------------------------


ECHO = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: echo, path: heads/echo}
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ workload.n }}"}
"""
BEAT = b'{"worker": "w", "pool": "default", "slots": 1, "leases": []}'


class Line:
    """One connection to a server, which sends heartbeats of a worker."""

    def __init__(self, api: Api) -> None:
        self._socket = socket.create_connection((api.host, api.port), timeout=30)
        self._head = (
            f"POST /api/worker/heartbeat HTTP/1.1\r\nHost: {api.host}:{api.port}\r\n"
            f"Authorization: Bearer {api.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()

    def send(self, body: bytes = BEAT) -> tuple[bytes, set[bytes], Any]:
        return self.ask(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))

    def ask(self, request: bytes) -> tuple[bytes, set[bytes], Any]:
        self._socket.sendall(request)
        text = b""
        while b"\r\n\r\n" not in text:
            text += self._receive()
        head, _, rest = text.partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        headers = {line for line in lines if not line.startswith(b"date")}
        [length] = [int(x[16:]) for x in headers if x.startswith(b"content-length: ")]
        while len(rest) < length:
            rest += self._receive()
        return status, headers, json.loads(rest)

    def _receive(self) -> bytes:
        data = self._socket.recv(65_536)
        assert data, "the server has hung up"
        return data

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of requests whose heads were known."""
    found: list[bytes] = []
    body_of = KnownHead.body_of

    def note(head: KnownHead, data: bytes) -> bytes | None:
        body = body_of(head, data)
        if body is not None:
            found.append(body)
        return body

    monkeypatch.setattr(KnownHead, "body_of", note)
    return found


def test_executions_that_start_with_one_head_differ_in_their_bodies(
    api: Api, repeated: list[bytes]
) -> None:
    """The head of a program that starts executions, with the length in the middle."""
    line, results = Line(api), []
    for number in range(3):
        body = json.dumps({"playbook": ECHO, "workload": {"n": number}})
        head = (
            f"POST /api/executions?wait=30 HTTP/1.1\r\nHost: {api.host}:{api.port}\r\n"
            f"Authorization: Bearer {api.token}\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\n\r\n"
        )
        status, headers, document = line.ask((head + body).encode())
        assert status == b"HTTP/1.1 201 Created"
        name = document["execution_id"]
        assert f"location: /api/executions/{name}".encode() in headers
        assert b"x-frame-options: DENY" in headers
        results.append(document["result"])
    line.close()
    assert results == [0, 1, 2]
    assert len(repeated) == 2


def test_a_repeated_head_gets_the_same_answer(api: Api, repeated: list[bytes]) -> None:
    line = Line(api)
    answers = [line.send() for _ in range(3)]
    line.close()

    assert repeated == [BEAT, BEAT]
    assert answers[0][0] == b"HTTP/1.1 200 OK"
    assert answers[1:] == answers[:1] * 2


def test_a_body_behind_a_known_head_is_checked(api: Api, repeated: list[bytes]) -> None:
    line = Line(api)
    line.send()
    for body, status in (
        (b"{", b"400"),
        (BEAT[:-1] + b', "more": 1}', b"422"),
        (b'{"worker": "w"}', b"422"),
        (BEAT, b"200"),
    ):
        assert line.send(body)[0].split()[1] == status, body
    line.close()
    assert len(repeated) == 4


def test_a_known_head_does_not_outlive_its_token(
    running: Running, repeated: list[bytes]
) -> None:
    admin = Api(running.url, running.token)
    robot = running.person("robot-of-heads", "worker:default")
    line = Line(robot)
    assert line.send()[0] == line.send()[0] == b"HTTP/1.1 200 OK"
    for token in admin.get("/api/tokens?user=robot-of-heads").body["tokens"]:
        admin.call("DELETE", f"/api/tokens/{token['token_id']}")

    status, _, problem = line.send()
    line.close()
    assert status == b"HTTP/1.1 401 Unauthorized"
    assert problem["kind"] == "auth.required"
    assert len(repeated) == 2


def test_heads_of_refused_callers_are_not_remembered(
    running: Running, repeated: list[bytes]
) -> None:
    for api in (
        Api(running.url, "ntl_" + "0" * 64),
        running.person("viewer-of-heads", "viewer"),
    ):
        line = Line(api)
        assert line.send()[0].split()[1] == line.send()[0].split()[1] != b"200"
        line.close()
    assert repeated == []
