"""Bodies: bounded, strict JSON, and nothing in them that nobody knows."""

from __future__ import annotations

import json
import socket

import pytest
from servers import HELLO, Api

from noetl.api.http import protocol, request_body
from noetl.api.http.problems import Problem
from noetl.runtime.worker_protocol.messages import ClaimRequest

START = {"playbook": HELLO}


def raw(api: Api, head: str, body: bytes = b"") -> bytes:
    """What comes back on a connection; the head is sent as it is written."""
    with socket.create_connection((api.host, api.port), timeout=60) as connection:
        text = head.replace("\n", "\r\n").replace("TOKEN", api.token or "")
        connection.sendall(text.encode() + b"\r\n\r\n" + body)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


HEAD = "POST /api/executions HTTP/1.1\nHost: localhost\nAuthorization: Bearer TOKEN"


def test_a_body_that_is_announced_too_large_is_not_read(api: Api) -> None:
    """Row 58."""
    head = f"{HEAD}\nContent-Type: application/json\nContent-Length: 2147483648"

    answer = raw(api, head)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"request.too_large" in answer
    assert b"connection: close" in answer.lower()


def test_a_body_that_turns_out_too_large_is_left(api: Api) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    head = f"{HEAD}\nContent-Type: application/json\nTransfer-Encoding: chunked"

    assert raw(api, head, chunk * 5 + b"0\r\n\r\n").startswith(b"HTTP/1.1 413")


def test_a_playbook_has_a_limit_of_its_own(api: Api) -> None:
    text = HELLO + "#" * (1 << 20)

    for path in ("/api/executions", "/api/catalog", "/api/validate"):
        answer = api.post(path, {"playbook": text})

        assert (answer.status, answer.body["kind"]) == (413, "request.too_large")
        assert "the limit is 1,048,576" in answer.body["message"]


@pytest.mark.parametrize(
    "more",
    [
        "Content-Length: 5\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Content-Length: 5\nContent-Length: 6",
        "Content-Length: +5",
        "Content-Length: -1",
        "Content-Length: 0x5",
        "Bad Header",
        "X: a\x00b",
    ],
)
def test_a_head_with_two_meanings_has_none(api: Api, more: str) -> None:
    """Row 58."""
    answer = raw(api, f"{HEAD}\nContent-Type: application/json\n{more}", b"0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1, "nothing after it is a request"


def test_a_body_that_never_comes_is_not_waited_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 58."""
    monkeypatch.setattr(request_body, "BODY_TIMEOUT_S", 0.05)
    head = f"{HEAD}\nContent-Type: application/json\nContent-Length: 10"

    answer = raw(api, head, b"{")

    assert answer.startswith(b"HTTP/1.1 408")
    assert b"request.timeout" in answer


def test_a_head_that_never_ends_is_not_waited_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 58."""
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.05)
    with socket.create_connection((api.host, api.port), timeout=60) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")

        assert connection.recv(65536) == b"", "closed"


def test_a_connection_that_says_nothing_is_closed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_S", 0.05)
    with socket.create_connection((api.host, api.port), timeout=60) as connection:
        assert connection.recv(65536) == b""


def test_a_head_has_a_largest_size(api: Api) -> None:
    with socket.create_connection((api.host, api.port), timeout=60) as connection:
        connection.sendall(HEAD.replace("\n", "\r\n").encode() + b"\r\nX-Large: ")
        with pytest.raises(ConnectionError):
            connection.sendall(b"x" * (64 << 20))  # soon nobody is there


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("text/plain", "found 'text/plain'"),
        ("multipart/form-data; boundary=x", "found 'multipart/form-data"),
        ("application/yaml", "found 'application/yaml'"),
        ("", "application/json"),
    ],
)
def test_only_json_is_taken(api: Api, kind: str, said: str) -> None:
    """Row 59."""
    answer = api.post("/api/executions", START, Content_Type=kind)

    assert (answer.status, answer.body["kind"]) == (415, "request.content_type")
    assert said in answer.body["message"]


def test_a_charset_may_be_named(api: Api) -> None:
    kind = "application/json; charset=utf-8"

    assert api.post("/api/executions", START, Content_Type=kind).status == 201


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "gzip, gzip"])
def test_compressed_bodies_are_not_unpacked(api: Api, coding: str) -> None:
    """Row 61."""
    answer = api.post("/api/executions", START, Content_Encoding=coding)

    assert (answer.status, answer.body["kind"]) == (415, "request.content_type")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"[" * 200_000, "100 levels", id="200,000 lists"),
        pytest.param(b'{"a":' * 200_000, "100 levels", id="200,000 mappings"),
        pytest.param(
            b'{"workload":' + b'{"a":' * 150 + b"1" + b"}" * 151,
            "100 levels",
            id="deeper than anybody needs",
        ),
        pytest.param(b'{"workload": {"a": NaN}}', "invalid character", id="NaN"),
        pytest.param(b'{"a": Infinity}', "invalid character", id="Infinity"),
        pytest.param(b'{"a": 1, "a": 2}', "'a' is given twice", id="a key twice"),
        pytest.param(
            b'{"workload": {"x": {"y": 1, "y": 1}}}', "'y' is given twice", id="deeper"
        ),
        pytest.param(
            b'{"workload": {"n": ' + b"1" * 5_000 + b"}}", "", id="5,000 digits"
        ),
        pytest.param(b'{"path": "\\ud800 "}', "", id="half a surrogate"),
        pytest.param(
            b'{"workload": {'
            + b",".join(b'"%d": 1' % n for n in range(200_000))
            + b', "7": 1}}',
            "'7' is given twice",
            id="one of 200,000 keys twice",
        ),
        pytest.param(b'{"path": "\xff"}', "utf-8", id="not UTF-8"),
        pytest.param(b'{"path": "a"} x', "trailing", id="more behind it"),
        pytest.param(b"{'path': 1}", "malformed", id="quotes of Python"),
        pytest.param(b" ", "", id="a space"),
    ],
)
def test_what_is_not_strict_json_is_refused(api: Api, body: bytes, said: str) -> None:
    """Row 60."""
    answer = api.post("/api/executions", body)

    assert (answer.status, answer.body["kind"]) == (400, "json.invalid")
    assert said in answer.body["message"]
    assert len(answer.body["message"]) < 500


@pytest.mark.spec("WRK-01")
@pytest.mark.parametrize(
    "field", ["executor", "spec", "keychain", "metadata", "workfload", "parent"]
)
def test_only_the_workload_is_merged(api: Api, field: str) -> None:
    """Row 62."""
    answer = api.post("/api/executions", {**START, field: {}})

    assert (answer.status, answer.body["kind"]) == (422, "request.unknown_field")
    assert field in answer.body["message"]
    assert "workload" in answer.body["hint"]


@pytest.mark.parametrize("body", [[], "text", 1, None, True])
def test_a_body_must_be_a_mapping(api: Api, body: object) -> None:
    answer = api.post("/api/executions", json.dumps(body).encode())

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")


def test_a_call_without_a_body_takes_none(api: Api) -> None:
    execution_id = api.run(HELLO)["execution_id"]
    path = f"/api/executions/{execution_id}/cancel"

    assert api.post(path, {}).status == 409
    answer = api.post(path, {"force": True})
    assert (answer.status, answer.body["hint"]) == (422, "send no body")


@pytest.mark.parametrize("rest", [b"!", b"\xff", b'"protocol": ' + b"[" * 100_000])
def test_a_claim_of_another_shape_with_a_malformed_rest_is_refused(
    rest: bytes,
) -> None:
    """Its version is looked for, and the rest of it may be anything."""
    with pytest.raises(Problem) as caught:
        request_body.read_message(b'{"worker": {}, ' + rest, ClaimRequest)

    assert caught.value.status in (400, 422)
