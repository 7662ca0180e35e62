"""Kind ``http``: what is sent, what comes back, against a real server."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.host import HostPolicy
from noetl.adapters.tools.http.response import shown_headers
from noetl.adapters.tools.http.tool import HttpTool
from noetl.engine.tasks.outcome import Meta, Outcome, envelope
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
Once = Callable[[Any, ToolCall], Outcome]


@pytest.fixture
def get(peer: str, call: Call, once: Once) -> Callable[..., Outcome]:
    """``get("/path", spec, method=…)``: one request to the peer."""

    def send(path: str, spec: dict[str, Any] | None = None, **inputs: Any) -> Outcome:
        url = peer + path if path.startswith("/") else path
        more = {"folder": inputs.pop("folder", None)}
        return once(
            HttpTool(), call("http", {"url": url, **inputs}, spec=spec or {}, **more)
        )

    return send


Get = Callable[..., Outcome]


def raw(body: str | bytes, **query: str) -> str:
    data = body.encode() if isinstance(body, str) else body
    return "/raw?" + "&".join(
        f"{k}={v}" for k, v in {"hex": data.hex(), **query}.items()
    )


@pytest.mark.spec("PIPE-12")
@pytest.mark.parametrize(
    ("inputs", "seen"),
    [
        pytest.param({}, {"method": "GET", "body": ""}, id="GET is the default"),
        pytest.param(
            {"method": "post", "json": {"a": [1, None, "é"]}},
            {"method": "POST", "body": '{"a":[1,null,"é"]}'},
            id="json is sent as JSON",
        ),
        pytest.param(
            {"method": "POST", "data": {"a": "1 2", "b": [True, 2], "c": None}},
            {"body": "a=1+2&b=true&b=2"},
            id="data is sent as a form, lists repeat, null is left out",
        ),
        pytest.param(
            {"method": "PUT", "body": "as it is"},
            {"method": "PUT", "body": "as it is"},
            id="body is sent as it is",
        ),
        pytest.param(
            {"params": {"q": "a&b=c", "n": 5, "l": ["x", "y"], "no": None}},
            {"query": [["q", "a&b=c"], ["n", "5"], ["l", "x"], ["l", "y"]]},
            id="params are escaped",
        ),
        pytest.param({"method": "PATCH"}, {"method": "PATCH"}, id="any method"),
    ],
)
def test_the_request_arrives_as_written(
    inputs: dict[str, Any], seen: dict[str, Any], get: Get
) -> None:
    result = get("/echo", **inputs).result

    assert {name: result[name] for name in seen} == seen


@pytest.mark.parametrize(
    ("inputs", "header", "value"),
    [
        pytest.param({"json": {}}, "content-type", "application/json", id="of json"),
        pytest.param(
            {"json": {}, "headers": {"content-type": "application/ld+json"}},
            "content-type",
            "application/ld+json",
            id="of json, as given",
        ),
        pytest.param({"headers": {"X-N": 5}}, "x-n", "5", id="a number is its text"),
        pytest.param({"headers": {"X-N": None}}, "x-n", None, id="null is left out"),
        pytest.param(
            {"headers": {"user-agent": "me"}},
            "user-agent",
            "me",
            id="of ours, replaced",
        ),
        pytest.param(
            {"headers": {"Content-Length": "9"}, "body": "abc"},
            "content-length",
            "3",
            id="the length is counted, whatever is said",
        ),
        pytest.param(
            {"auth": {"type": "bearer", "token": "t0"}},
            "authorization",
            "Bearer t0",
            id="bearer",
        ),
        pytest.param(
            {"auth": {"type": "basic", "username": "u", "password": "p"}},
            "authorization",
            "Basic " + base64.b64encode(b"u:p").decode(),
            id="basic",
        ),
        pytest.param(
            {"auth": {"type": "header", "name": "X-Key", "value": "k"}},
            "x-key",
            "k",
            id="a header of any name",
        ),
        pytest.param(
            {"auth": {"value": "t1"}}, "authorization", "Bearer t1", id="one value"
        ),
        pytest.param(
            {"auth": {"access_token": "t2", "token_type": "Bearer"}},
            "authorization",
            "Bearer t2",
            id="a token of OAuth2",
        ),
        pytest.param(
            {"auth": {"user": "u", "password": "p", "host": "h"}},
            "authorization",
            "Basic " + base64.b64encode(b"u:p").decode(),
            id="user and password",
        ),
        pytest.param(
            {"auth": {"name": "X-Key", "value": "k"}},
            "x-key",
            "k",
            id="name and value",
        ),
    ],
)
def test_headers_are_sent(
    inputs: dict[str, Any], header: str, value: str | None, get: Get
) -> None:
    method = {"method": "POST"} if {"json", "body"} & inputs.keys() else {}
    headers = get("/echo", **method, **inputs).result["headers"]

    assert headers.get(header) == value


def test_files_are_sent_as_multipart(get: Get, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n")
    files = {
        "note": "hello",
        "table": {"path": "a.csv"},
        "blob": {"base64": "AAE=", "filename": 'odd"name', "content_type": "x/y"},
    }

    result = get("/echo", method="POST", files=files, folder=str(tmp_path)).result

    kind, boundary = result["headers"]["content-type"].split("; boundary=")
    assert kind == "multipart/form-data"
    parts = result["body"].split(f"--{boundary}")
    assert len(parts) == 5
    assert 'name="note"; filename="note"' in parts[1]
    assert 'filename="a.csv"\r\nContent-Type: text/csv\r\n\r\nx,y\n' in parts[2]
    assert 'filename="odd%22name"\r\nContent-Type: x/y\r\n\r\n\0\1' in parts[3]


def test_credentials_in_the_url_become_a_header_and_are_never_shown(get: Get) -> None:
    port = get("/echo").helper["url"].split(":")[2]
    outcome = get(f"http://user:p%40ss@127.0.0.1:{port}")

    sent = outcome.result["headers"]["authorization"]
    assert base64.b64decode(sent.split()[1]) == b"user:p@ss"
    assert "user" not in outcome.helper["url"]
    assert "ss" not in outcome.helper["url"]


@pytest.mark.parametrize(
    ("path", "result"),
    [
        pytest.param(raw('{"a": 1}', type="application/json"), {"a": 1}, id="JSON"),
        pytest.param(
            raw("[1]", type="application/problem%2Bjson"), [1], id="a +json type"
        ),
        pytest.param(
            raw('{"a": 1}'), '{"a": 1}', id="text that looks like JSON is text"
        ),
        pytest.param(raw("", type="application/json"), None, id="no JSON at all: null"),
        pytest.param(raw("", status="204"), None, id="204: null"),
        pytest.param(raw(""), "", id="no text: empty text"),
        pytest.param(
            raw("é".encode("latin-1"), type="text/plain;charset=latin-1"),
            "é",
            id="text in its charset",
        ),
        pytest.param(
            raw("\ufeff[1]", type="application/json"),
            [1],
            id="JSON with a byte order mark",
        ),
        pytest.param(
            raw('["é"]'.encode("utf-16"), type="application/json;charset=utf-16"),
            ["é"],
            id="JSON in UTF-16",
        ),
        pytest.param(raw(b"\xff\xfe."), "��.", id="bytes that are no text"),
        pytest.param(
            raw("é", type="text/plain;charset=unknown-8"), "é", id="an unknown charset"
        ),
        pytest.param(
            raw("a", type="text/plain;charset=punycode"), "a", id="a codec, no charset"
        ),
        pytest.param("/packed?how=gzip", "hello" * 100, id="gzip"),
        pytest.param("/packed?how=zlib", "hello" * 100, id="deflate"),
        pytest.param(
            "/packed?how=bare", "hello" * 100, id="deflate as some understand it"
        ),
        pytest.param("/packed?how=twice", "hello" * 100, id="gzip of several members"),
    ],
)
def test_the_result_is_parsed_json_else_text(path: str, result: Any, get: Get) -> None:
    outcome = get(path)

    assert outcome.error is None
    assert outcome.result == result


@pytest.mark.spec("S-47", "OUT-05", "OUT-13")
@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "http.client", False),
        (401, "http.client", False),
        (404, "http.client", False),
        (408, "http.client", True),
        (425, "http.client", True),
        (429, "http.client", True),
        (500, "http.server", True),
        (503, "http.server", True),
    ],
)
def test_an_error_status_is_an_error_outcome(
    status: int, kind: str, retryable: bool, get: Get
) -> None:
    path = raw('{"why": "so"}', status=str(status), type="application/json")
    outcome = get(path)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == (kind, retryable)
    assert outcome.error.details == {"body": {"why": "so"}}
    assert outcome.helper["status"] == status
    assert outcome.error.message.startswith(str(status))
    assert re.search(r" from 127\.0\.0\.1:\d+/", outcome.error.message)


@pytest.mark.spec("S-47")
@pytest.mark.parametrize(
    ("ok_status", "status", "kind"),
    [
        pytest.param(404, 404, None, id="404 counts as success"),
        pytest.param([200, 404], 404, None, id="404 is one of those that do"),
        pytest.param([201], 500, "http.server", id="500 does not"),
        pytest.param([201], 200, "http.status", id="200 does not, if only 201 does"),
    ],
)
def test_ok_status_overrides_what_is_an_error(
    ok_status: Any, status: int, kind: str | None, get: Get
) -> None:
    outcome = get(raw("x", status=str(status)), {"ok_status": ok_status})

    assert (outcome.error and outcome.error.kind) == kind


def test_an_answer_that_gets_better_is_seen_to(
    peer: str, call: Call, using: Any
) -> None:
    request = call("http", {"url": f"{peer}/script/better/503,503,200"})

    async def work(run: Any) -> list[Any]:
        found: list[Any] = []
        for _ in range(3):
            try:
                found.append((await run(request)).result)
            except Exception as error:
                found.append(type(error).__name__)
        return found

    assert using(HttpTool(), work) == ["ToolError", "ToolError", {"status": 200}]


@pytest.mark.spec("OUT-01", "OUT-02", "OUT-03", "OUT-09", "OUT-10")
def test_the_helper_tells_about_the_response(get: Get) -> None:
    outcome = get("/echo")
    envelope_ = envelope(outcome, "http", Meta(1, "", "", 1.0))

    http = envelope_["http"]
    assert envelope_["status"] == "ok"
    assert http["status"] == 200
    assert http["request_id"] == "r-1"
    assert http["url"].endswith("/echo")
    assert http["elapsed_ms"] > 0
    assert http["headers"]["content-type"] == "application/json; charset=utf-8"
    assert http["headers"]["set-cookie"] == "***"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Cookie", "Set-Cookie", "X-Api-Key"),
        *("Proxy-Authenticate", "Proxy-Authorization"),
    ],
)
def test_headers_that_carry_credentials_are_masked(name: str) -> None:
    """In any case: what an answer repeats goes into the log."""
    given = {name: "s3cret", "Content-Type": "text/plain"}

    shown = shown_headers(given)

    assert shown == {name.lower(): "***", "content-type": "text/plain"}


def test_no_cookie_is_carried_between_calls(peer: str, call: Call, using: Any) -> None:
    # Not by its address: addresses are given no cookies anyway.
    url = peer.replace("127.0.0.1", "localhost")
    request = call("http", {"url": f"{url}/echo"})

    async def work(run: Any) -> Any:
        await run(request)
        return (await run(request)).result["headers"]

    assert "cookie" not in using(HttpTool(), work)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("x" * 100_000, id="text"),
        pytest.param('"' + "x" * 100_000 + '"', id="JSON"),
    ],
)
def test_only_the_start_of_a_large_error_body_is_recorded(
    body: str, call: Call, once: Once, peer: str
) -> None:
    path = "/endless?status=500" if body.startswith("x") else "/bomb?mib=1"
    spec = {"ok_status": [299]} if "bomb" in path else {}
    outcome = once(HttpTool(), call("http", {"url": peer + path}, spec=spec))

    assert outcome.error is not None
    assert len(outcome.error.details["body"]) == 8192


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("/huge", "http.too_large", id="10 GB announced"),
        pytest.param("/endless", "http.too_large", id="chunks without end"),
        pytest.param("/bomb?mib=1000", "http.too_large", id="a gzip bomb of 1 GB"),
        pytest.param("/bomb?mib=5", "http.too_large", id="a thousand times its size"),
        pytest.param("/many?headers=1000&size=9", "http.too_large", id="1000 headers"),
        pytest.param(
            "/many?headers=1&size=99999", "http.too_large", id="a long header"
        ),
        pytest.param(
            raw('{"a":', type="application/json"), "http.decode", id="JSON that is none"
        ),
        pytest.param(
            raw("[" * 2000, type="application/json"), "http.decode", id="too deep JSON"
        ),
        pytest.param(raw("no", encoding="gzip"), "http.decode", id="gzip that is none"),
        pytest.param(raw("no", encoding="br"), "http.decode", id="a strange encoding"),
        pytest.param("/packed?how=torn", "http.decode", id="half of a gzip file"),
    ],
)
def test_a_hostile_response_is_refused_early(path: str, kind: str, get: Get) -> None:
    outcome = get(path)

    assert outcome.error is not None
    assert outcome.error.kind == kind
    assert not outcome.error.retryable


@pytest.mark.spec("S-35")
@pytest.mark.parametrize(
    ("path", "timeout", "said"),
    [
        pytest.param("/silent", 0.05, "no complete answer", id="a number is the total"),
        pytest.param("/silent", "50ms", "no complete answer", id="a duration as well"),
        pytest.param("/silent", {"read": 0.05}, "no data from", id="no answer"),
        pytest.param("/stalled", {"read": "50ms"}, "no data from", id="half an answer"),
        pytest.param("/drip", {"total": 0.1}, "no complete answer", id="a slow answer"),
    ],
)
def test_a_timeout_is_an_error_worth_a_retry(
    path: str, timeout: Any, said: str, get: Get
) -> None:
    outcome = get(path, {"timeout": timeout})

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("timeout", True)
    assert said in outcome.error.message
    assert outcome.helper["url"].endswith(path)


@pytest.mark.spec("S-47")
def test_network_errors_are_worth_a_retry(call: Call, once: Once) -> None:
    async def talk(*, answer: bytes | None) -> Outcome:
        async def serve(reader: asyncio.StreamReader, writer: Any) -> None:
            if answer is not None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        tool = HttpTool()
        try:
            return await tool.run(call("http", {"url": f"http://127.0.0.1:{port}/"}))
        finally:
            await tool.close()
            server.close()
            await server.wait_closed()

    for answer in (
        None,
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
    ):
        with pytest.raises(Exception, match="127") as caught:
            asyncio.run(talk(answer=answer))
        assert (caught.value.kind, caught.value.retryable) == ("connection", True)  # type: ignore[attr-defined]

    nobody = once(HttpTool(), call("http", {"url": "http://127.0.0.1:1/"}))
    assert nobody.error is not None
    assert (nobody.error.kind, nobody.error.retryable) == ("connection", True)

    nowhere = once(HttpTool(), call("http", {"url": "http://no-such-host.invalid/"}))
    assert nowhere.error is not None
    assert (nowhere.error.kind, nowhere.error.retryable) == ("connection", True)


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        pytest.param(
            {"headers": {"A": "b\r\nC: d"}}, "http.header", id="CRLF in a value"
        ),
        pytest.param({"headers": {"A\r\nB": "c"}}, "http.header", id="CRLF in a name"),
        pytest.param(
            {"headers": {"A b": "c"}}, "http.header", id="a name with a space"
        ),
        pytest.param({"url": "http://h/\r\nA: b"}, "http.header", id="CRLF in the url"),
        pytest.param(
            {"method": "GET / HTTP/1.1\r\n"}, "http.header", id="in the method"
        ),
        pytest.param(
            {"auth": {"type": "bearer", "token": "a\nb"}},
            "http.header",
            id="in a token",
        ),
        pytest.param({"json": {}, "body": "x"}, "tool.contract", id="two bodies"),
        pytest.param({"endpoint": "http://h/"}, "tool.contract", id="two addresses"),
        pytest.param({"url": "file:///etc/passwd"}, "http.scheme", id="a file"),
        pytest.param({"url": "gopher://h/"}, "http.scheme", id="gopher"),
        pytest.param({"url": "unix:///run/x"}, "http.scheme", id="a unix socket"),
        pytest.param({"url": "/relative"}, "http.scheme", id="no scheme"),
        pytest.param({"url": "http://"}, "http.url", id="no host"),
        pytest.param({"url": "http://h:99999/"}, "http.url", id="no such port"),
        pytest.param({"auth": "name"}, "auth", id="a name that nobody declared"),
        pytest.param({"auth": {"host": "h"}}, "auth", id="a credential of others"),
        pytest.param({"auth": {"type": "magic"}}, "auth", id="an unknown auth"),
        pytest.param({"auth": {"type": "bearer"}}, "auth", id="auth without a token"),
        pytest.param(
            {"files": {"f": {"path": "../x"}}}, "tool.contract", id="a file outside"
        ),
    ],
)
def test_a_wrong_request_is_refused_before_it_is_sent(
    inputs: dict[str, Any], kind: str, call: Call, once: Once, tmp_path: Path
) -> None:
    given = {"url": "http://127.0.0.1:1/", **inputs}
    outcome = once(HttpTool(), call("http", given, folder=str(tmp_path)))

    assert outcome.error is not None
    assert outcome.error.kind == kind
    assert not outcome.error.retryable


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://169.254.169.254/latest/meta-data/", id="metadata"),
        pytest.param("http://[::ffff:169.254.169.254]/", id="metadata, as IPv6"),
        pytest.param("http://[::ffff:a9fe:a9fe]/", id="metadata, as IPv6 in hex"),
        pytest.param("http://[64:ff9b::a9fe:a9fe]/", id="metadata, by NAT64"),
        pytest.param("http://[2002:a9fe:a9fe::]/", id="metadata, by 6to4"),
        pytest.param("http://[fd00:ec2::254]/", id="metadata, the IPv6 one"),
        pytest.param("http://100.100.100.200/", id="metadata of another cloud"),
        pytest.param("http://metadata.google.internal/", id="metadata by name"),
        pytest.param("http://METADATA.google.internal./", id="metadata by odd name"),
        pytest.param("http://169.254.1.1/", id="link-local"),
        pytest.param("http://[fe80::1]/", id="link-local, IPv6"),
        pytest.param("http://224.0.0.1/", id="multicast"),
        pytest.param("http://0.0.0.0/", id="unspecified"),
        pytest.param("http://[::]/", id="unspecified, IPv6"),
        pytest.param("http://255.255.255.255/", id="broadcast"),
    ],
)
def test_some_addresses_are_always_denied(url: str, get: Get) -> None:
    outcome = get(url)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == (
        "http.blocked_address",
        False,
    )


@pytest.mark.parametrize(
    "number", ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"]
)
def test_no_spelling_of_a_denied_address_passes(number: str, get: Get) -> None:
    outcome = get(f"http://{number}/")

    assert outcome.error is not None
    assert outcome.error.kind == "http.blocked_address"


@pytest.mark.parametrize(
    ("private", "host", "reaches"),
    [
        pytest.param("allow", "127.0.0.1", True, id="allowed by default"),
        pytest.param("deny", "127.0.0.1", False, id="denied"),
        pytest.param("deny", "localhost", False, id="denied by the address of a name"),
        pytest.param("deny", "[::1]", False, id="denied as IPv6"),
        pytest.param(("127.0.0.0/8",), "127.0.0.1", True, id="one network is allowed"),
        pytest.param(("127.0.0.0/8",), "localhost", True, id="by name as well"),
        pytest.param(("10.0.0.0/8",), "127.0.0.1", False, id="another is allowed"),
    ],
)
def test_private_addresses_depend_on_the_settings(
    private: Any, host: str, reaches: bool, peer: str, call: Call, once: Once
) -> None:
    url = peer.replace("127.0.0.1", host) + "/echo"
    outcome = once(HttpTool(HostPolicy(private=private)), call("http", {"url": url}))

    assert outcome.status == ("ok" if reaches else "error")
    if outcome.error is not None:
        assert outcome.error.kind == "http.blocked_address"


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        pytest.param("http://169.254.169.254/", "http.blocked_address", id="metadata"),
        pytest.param("file:///etc/passwd", "http.scheme", id="a file"),
        pytest.param(
            "/redirect?to=http://[::ffff:169.254.169.254]/",
            "http.blocked_address",
            id="metadata, in two steps",
        ),
        pytest.param("/redirect", "http.redirects", id="itself"),
    ],
)
def test_a_redirect_goes_nowhere_that_a_request_may_not(
    target: str, kind: str, get: Get
) -> None:
    outcome = get(f"/redirect?to={target}")

    assert outcome.error is not None
    assert outcome.error.kind == kind


@pytest.mark.parametrize(
    ("status", "method", "seen"),
    [
        pytest.param(301, "POST", ("GET", ""), id="301 makes a POST a GET"),
        pytest.param(302, "POST", ("GET", ""), id="302 as well"),
        pytest.param(302, "PUT", ("PUT", "x"), id="but not a PUT"),
        pytest.param(303, "PUT", ("GET", ""), id="303 makes everything a GET"),
        pytest.param(307, "POST", ("POST", "x"), id="307 repeats the request"),
        pytest.param(308, "PUT", ("PUT", "x"), id="308 as well"),
    ],
)
def test_redirects_keep_or_change_the_method(
    status: int, method: str, seen: tuple[str, str], get: Get
) -> None:
    outcome = get(f"/redirect?to=/echo&status={status}", method=method, body="x")

    assert (outcome.result["method"], outcome.result["body"]) == seen
    assert outcome.helper["url"].endswith("/echo")


@pytest.mark.parametrize(
    ("host", "kept"),
    [
        pytest.param("127.0.0.1", True, id="the same host sees them"),
        pytest.param("localhost", False, id="another does not"),
    ],
)
def test_credentials_follow_a_redirect_to_the_same_host_only(
    host: str, kept: bool, get: Get, peer: str
) -> None:
    port = re.sub(".*:", "", peer)
    headers = {
        "Authorization": "Bearer a",
        "X-Key": "b",
        "Cookie": "c=d",
        "X-Free": "e",
    }
    auth = {"type": "header", "name": "X-Key", "value": "b"}
    outcome = get(f"/redirect?to=http://{host}:{port}/echo", headers=headers, auth=auth)

    found = outcome.result["headers"]
    assert ("authorization" in found, "x-key" in found, "cookie" in found) == (
        kept,
    ) * 3
    assert found["x-free"] == "e"
    assert found["host"] == f"{host}:{port}"


def test_a_redirect_is_an_answer_if_none_is_followed(get: Get) -> None:
    outcome = get("/redirect?to=/echo", {"follow_redirects": False})

    assert outcome.status == "ok"
    assert outcome.helper["status"] == 302
    assert outcome.helper["headers"]["location"] == "/echo"


def test_a_certificate_must_be_trusted_unless_said_otherwise(
    untrusted_peer: str, get: Get
) -> None:
    refused = get(f"{untrusted_peer}/echo")
    taken = get(f"{untrusted_peer}/echo", {"verify": False})

    assert refused.error is not None
    assert (refused.error.kind, refused.error.retryable) == ("http.tls", False)
    assert taken.status == "ok"


def test_only_the_knob_makes_a_proxy(
    peer: str, get: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    direct = get("/echo")
    proxied = get("http://example.invalid/echo", {"proxy": peer})

    assert direct.status == "ok"
    assert proxied.result["headers"]["host"] == "example.invalid"


def test_connections_limits_how_many_there_are_per_host(
    peer: str, call: Call, using: Any
) -> None:
    request = call("http", {"url": f"{peer}/echo"}, spec={"connections": 1})

    async def work(run: Any) -> list[Outcome]:
        return await asyncio.gather(*(run(request) for _ in range(8)))

    assert [each.status for each in using(HttpTool(), work)] == ["ok"] * 8


def test_being_cancelled_ends_the_request(peer: str, call: Call, using: Any) -> None:
    async def work(run: Any) -> bool:
        running = asyncio.ensure_future(run(call("http", {"url": f"{peer}/silent"})))
        await run(call("http", {"url": f"{peer}/echo"}))
        running.cancel()
        await asyncio.wait({running})
        return running.cancelled()

    assert using(HttpTool(), work)


CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        pytest.param({}, CALLER, id="of the attempt"),
        pytest.param({"headers": {"Traceparent": "mine"}}, "mine", id="the author's"),
    ],
)
def test_the_request_names_its_attempt_as_the_caller(
    peer: str, call: Call, once: Once, inputs: dict[str, Any], expected: str
) -> None:
    request = call("http", {"url": f"{peer}/echo", **inputs}, traceparent=CALLER)

    seen = once(HttpTool(), request).result

    assert seen["headers"]["traceparent"] == expected
