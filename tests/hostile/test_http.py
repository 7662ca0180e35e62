"""Rows 80 to 83: where a request may go, and what comes back, through ``noetl run``.

What a server denies by the setting ``network.private`` is asked of the tool itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from noetl.adapters.host import HostPolicy
from noetl.adapters.tools.http.tool import HttpTool
from noetl.engine.tasks.outcome import Outcome
from noetl.errors import ToolError
from noetl.ports import ToolCall

Attempt = Callable[..., Any]

pytestmark = pytest.mark.spec("PIPE-12", "S-65")

MEGABYTES = 64

ALWAYS = {
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "metadata_by_name": "http://metadata.google.internal/",
    "metadata_in_capitals": "http://METADATA.Google.Internal./",
    "metadata_as_ipv6": "http://[::ffff:169.254.169.254]/",
    "metadata_as_ipv6_in_hex": "http://[::ffff:a9fe:a9fe]/",
    "metadata_by_nat64": "http://[64:ff9b::a9fe:a9fe]/",
    "metadata_by_6to4": "http://[2002:a9fe:a9fe::]/",
    "metadata_of_ipv6": "http://[fd00:ec2::254]/",
    "metadata_as_a_number": "http://2852039166/",
    "metadata_in_hex": "http://0xa9fea9fe/",
    "metadata_in_octal": "http://0251.0376.0251.0376/",
    "metadata_in_three_parts": "http://169.254.43518/",
    "metadata_in_parts_of_hex": "http://0xa9.0xfe.0xa9.0xfe/",
    "metadata_in_wide_digits": "http://\uff11\uff16\uff19.254.169.254/",
    "link_local": "http://169.254.1.1/",
    "multicast": "http://224.0.0.1/",
    "unspecified": "http://0.0.0.0:8082/",
    "unspecified_in_short": "http://0/",
}
SCHEMES = {
    "file": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1:6379/_FLUSHALL",
    "unix": "unix:/var/run/docker.sock",
    "unix_with_slashes": "unix:///var/run/docker.sock",
    "ftp": "ftp://127.0.0.1/",
    "data": "data:text/plain,x",
}


@pytest.fixture(scope="module")
def addressed(attempt: Attempt) -> Any:
    return attempt(
        {
            name: {"kind": "http", "url": url, "spec": {"timeout": 5}}
            for name, url in {**ALWAYS, **SCHEMES}.items()
        }
    )


@pytest.mark.parametrize("name", ALWAYS, ids=lambda name: f"80 {name}")
def test_an_address_that_is_always_denied(addressed: Any, name: str) -> None:
    assert addressed.kind(name) == "http.blocked_address"


@pytest.mark.parametrize("name", SCHEMES, ids=lambda name: f"80 {name}")
def test_another_scheme_is_refused(addressed: Any, name: str) -> None:
    assert addressed.kind(name) == "http.scheme"


LOOPBACK = {
    "address": "127.0.0.1",
    "in short": "127.1",
    "a number": "2130706433",
    "in octal": "0177.0.0.1",
    "in hex": "0x7f000001",
    "IPv6": "[::1]",
    "IPv4 in IPv6": "[::ffff:127.0.0.1]",
    "by name": "localhost",
    "with a dot": "localhost.",
}


async def outcome_of(tool: HttpTool, url: str, **inputs: Any) -> Outcome:
    call = ToolCall(
        kind="http",
        inputs={"url": url, **inputs},
        spec={"timeout": 5},
        execution_id="e1",
        step="s",
        task="t",
        action_id="a1",
        attempt=1,
    )
    try:
        return await tool.run(call)
    except ToolError as error:
        return Outcome.failed(error.kind, error.message)


async def using(tool: HttpTool, work: Awaitable[Any]) -> Any:
    try:
        return await work
    finally:
        await tool.close()


@pytest.mark.parametrize("host", LOOPBACK.values(), ids=[f"80 {x}" for x in LOOPBACK])
def test_loopback_is_denied_where_private_addresses_are(host: str) -> None:
    tool = HttpTool(HostPolicy(private="deny"))
    outcome = asyncio.run(using(tool, outcome_of(tool, f"http://{host}:1/")))

    assert outcome.error is not None
    assert outcome.error.kind == "http.blocked_address"


def test_80_loopback_is_allowed_in_the_embedded_host(
    attempt: Attempt, peer: str
) -> None:
    port = peer.rpartition(":")[2]
    hosts = {"name": "localhost", "dot": "localhost.", "short": "127.1"}
    ran = attempt(
        {
            name: {"kind": "http", "url": f"http://{host}:{port}/echo"}
            for name, host in hosts.items()
        }
    )

    assert [ran.kind(name) for name in hosts] == [None, None, None]


class Hosts:
    """Two machines of one port: ``open`` may be reached, ``closed`` may not."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seen: list[str] = []
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.seen.append(writer.get_extra_info("sockname")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self.answer)
        writer.close()


OPEN, CLOSED = "127.0.0.2", "127.0.0.1"


@asynccontextmanager
async def two_hosts() -> AsyncIterator[Hosts]:
    hosts = Hosts(0)
    while True:  # a port that is free at one address may be taken at the other
        first = await asyncio.start_server(hosts.serve, OPEN, 0)
        hosts.port = first.sockets[0].getsockname()[1]
        try:
            second = await asyncio.start_server(hosts.serve, CLOSED, hosts.port)
            break
        except OSError:
            first.close()
            await first.wait_closed()
    async with first, second:
        yield hosts


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """``resolves([…], […])``: what the system's resolver says, question by question;
    the last answer stays."""

    def answer(*answers: list[str]) -> list[str]:
        asked: list[str] = []

        def getaddrinfo(host: str, port: Any, *rest: Any, **more: Any) -> list[Any]:
            found = answers[min(len(asked), len(answers) - 1)]
            asked.append(str(host))
            kind = socket.SOCK_STREAM
            return [(socket.AF_INET, kind, 6, "", (each, port or 0)) for each in found]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return answer


def test_81_a_name_that_changes_after_the_check_changes_nothing(
    resolves: Callable[..., list[str]],
) -> None:
    async def work() -> tuple[Outcome, Outcome, list[str]]:
        tool = HttpTool(HostPolicy(private=(f"{OPEN}/32",)))
        async with two_hosts() as hosts:
            try:
                url = f"http://rebound.example:{hosts.port}/"
                first = await outcome_of(tool, url)
                return first, await outcome_of(tool, url), hosts.seen
            finally:
                await tool.close()

    asked = resolves([OPEN], [CLOSED])
    first, second, seen = asyncio.run(work())

    assert first.status == "ok"
    assert second.error is not None
    assert second.error.kind == "http.blocked_address"
    assert seen == [OPEN], "only what was checked is connected to"
    assert asked == ["rebound.example"] * 2, "once for each request"


def test_81_of_several_addresses_only_allowed_ones_are_tried(
    resolves: Callable[..., list[str]],
) -> None:
    async def work() -> tuple[Outcome, list[str]]:
        tool = HttpTool(HostPolicy(private=(f"{OPEN}/32",)))
        async with two_hosts() as hosts:
            url = f"http://mixed.example:{hosts.port}/"
            return await using(tool, outcome_of(tool, url)), hosts.seen

    resolves([CLOSED, OPEN])
    outcome, seen = asyncio.run(work())

    assert (outcome.status, seen) == ("ok", [OPEN])


@pytest.mark.parametrize("target", [CLOSED, "inside.example"])
def test_81_a_redirect_inside_is_checked_as_a_request(
    target: str, resolves: Callable[..., list[str]]
) -> None:
    async def work() -> tuple[Outcome, list[str]]:
        tool = HttpTool(HostPolicy(private=(f"{OPEN}/32",)))
        async with two_hosts() as hosts:
            location = f"Location: http://{target}:{hosts.port}/\r\n".encode()
            hosts.answer = b"HTTP/1.1 302 Found\r\n" + location + b"\r\n"
            url = f"http://outside.example:{hosts.port}/"
            return await using(tool, outcome_of(tool, url)), hosts.seen

    resolves([OPEN], [CLOSED])
    outcome, seen = asyncio.run(work())

    assert outcome.error is not None
    assert outcome.error.kind == "http.blocked_address"
    assert seen == [OPEN]


SECRET = "p4ssw0rd-in-the-url"


@pytest.fixture(scope="module")
def requested(attempt: Attempt, peer: str) -> Any:
    other = peer.replace("127.0.0.1", "localhost")
    inputs: dict[str, dict[str, Any]] = {
        "loop": {"url": f"{peer}/redirect"},
        "elsewhere": {
            "url": f"{peer}/redirect?to={other}/echo",
            "headers": {"Authorization": "Bearer token-of-the-first-host"},
        },
        "value": {"url": f"{peer}/echo", "headers": {"A": "b\r\nHost: evil"}},
        "name": {"url": f"{peer}/echo", "headers": {"A\r\nB": "c"}},
        "address": {"url": f"{peer}/echo\r\nHost: evil"},
        "method": {"url": f"{peer}/echo", "method": "GET / HTTP/1.1\r\nA"},
        "userinfo": {"url": peer.replace("//", f"//me:{SECRET}@") + "/echo"},
        "refused": {"url": peer.replace("//", f"//me:{SECRET}@") + "/redirect"},
        "nobody": {"url": f"http://me:{SECRET}@127.0.0.1:1/"},
    }
    return attempt({name: {"kind": "http", **each} for name, each in inputs.items()})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("loop", "http.redirects"),
        ("elsewhere", None),
        ("value", "http.header"),
        ("name", "http.header"),
        ("address", "http.header"),
        ("method", "http.header"),
        ("userinfo", None),
        ("refused", "http.redirects"),
        ("nobody", "connection"),
    ],
    ids=lambda value: f"82 {value}",
)
def test_a_hostile_request_or_redirect(
    requested: Any, name: str, kind: str | None
) -> None:
    assert requested.kind(name) == kind


def test_82_five_redirects_are_followed(requested: Any) -> None:
    message = requested.outcomes["loop"]["error"]["message"]

    assert message == "more than 5 redirects"


def test_82_another_host_gets_no_authorization(requested: Any) -> None:
    assert "authorization" not in requested.outcomes["elsewhere"]["result"]["headers"]


def test_82_credentials_of_a_url_are_recorded_nowhere(requested: Any) -> None:
    """The peer that was asked heard them, and said them in its answer: that is data."""
    for name in ("refused", "nobody"):
        assert SECRET not in str(requested.outcomes[name])
    assert SECRET not in str(requested.outcomes["userinfo"]["http"])
    assert SECRET not in requested.err


RESPONSES = {
    "announced": ("/huge", {}, "http.too_large"),
    "endless": ("/endless", {}, "http.too_large"),
    "dripping": ("/drip", {"timeout": {"total": 0.3}}, "timeout"),
    "stalled": ("/stalled", {"timeout": {"read": 0.2}}, "timeout"),
    "silent": ("/silent", {"timeout": 0.2}, "timeout"),
    "bomb": ("/bomb?mib=10240", {}, "http.too_large"),
    "charset": ("/raw?hex=ffe9&type=text/plain%3B+charset%3Dno-such", {}, None),
    "wrong_charset": ("/raw?hex=ffe9&type=text/plain%3B+charset%3Dutf-8", {}, None),
    "broken_json": ("/raw?hex=7b2261223a&type=application/json", {}, "http.decode"),
    "headers": ("/many?headers=100000&size=9", {}, "http.too_large"),
}


@pytest.fixture(scope="module")
def answered(attempt: Attempt, peer: str) -> Any:
    return attempt(
        {
            name: {"kind": "http", "url": peer + path, "spec": spec}
            for name, (path, spec, _) in RESPONSES.items()
        }
    )


@pytest.mark.parametrize("name", RESPONSES, ids=lambda name: f"83 {name}")
def test_a_hostile_response(answered: Any, name: str) -> None:
    assert answered.kind(name) == RESPONSES[name][2]


def test_83_undecodable_bytes_are_replaced(answered: Any) -> None:
    assert answered.outcomes["charset"]["result"] == "\ufffd\ufffd"
    assert answered.outcomes["wrong_charset"]["result"] == "\ufffd\ufffd"


def test_83_hostile_responses_take_little_memory(
    answered: Any, attempt: Attempt, peer: str
) -> None:
    plain = attempt({"plain": {"kind": "http", "url": f"{peer}/echo"}})

    assert answered.megabytes - plain.megabytes <= MEGABYTES
