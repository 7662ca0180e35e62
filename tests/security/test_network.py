"""No tool of a server reaches what is local to it, or metadata of a cloud (4.6)."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from servers import Api, Running, playbook

from noetl.adapters.host import HostPolicy
from noetl.adapters.network import BlockedAddress, Network
from noetl.adapters.network.network import PinnedLoop
from noetl.adapters.secrets.http import ask
from noetl.adapters.tools.registry import make_tools
from noetl.errors import SecretError, ToolError
from noetl.ports import ToolCall


class Peer:
    """A listener on loopback that counts connections and answers as a proxy would."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.heads: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(0.2)  # a client of NATS listens first
                self.heads.append(b"")
                self.heads[-1] = connection.recv(65536)
                connection.sendall(self.answer)

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


def call_of(kind: str, inputs: dict[str, Any], **spec: Any) -> ToolCall:
    return ToolCall(
        kind=kind,
        inputs=inputs,
        spec={"timeout": 20, **spec},
        execution_id="e1",
        step="s",
        task="t",
        action_id="a1",
        attempt=1,
    )


def run(policy: HostPolicy, kind: str, inputs: dict[str, Any], **spec: Any) -> str:
    """The kind and the message of the error of one call, or ``ok``."""

    async def work() -> str:
        tools = make_tools(1, host=policy)
        try:
            await tools[kind].run(call_of(kind, inputs, **spec))
        except ToolError as error:
            return f"{error.kind}: {error.message}"
        finally:
            for tool in {id(tool): tool for tool in tools.values()}.values():
                await tool.close()
        return "ok"

    return asyncio.run(work())


SERVER = HostPolicy()
ALLOWING = HostPolicy(private="allow")


def clients(port: int) -> dict[str, tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every way in which a playbook opens a connection to a loopback port."""
    here, web = f"127.0.0.1:{port}", f"http://127.0.0.1:{port}/"
    dsn = f"postgresql://u:p@{here}/d?connect_timeout=2"
    rows = {"source": {"type": "http", "url": "http://8.8.8.8/"}}
    target = {"target": {"type": "file", "path": "x.csv"}}
    select = {"query": "SELECT 1"}
    return {
        "http.blocked_address": ("http", {"url": web}, {}),
        "by name": ("http", {"url": f"http://localhost:{port}/"}, {}),
        "proxy": ("http", {"url": "http://192.0.2.7/"}, {"proxy": web}),
        "named proxy": (
            "http",
            {"url": "http://192.0.2.7/"},
            {"proxy": f"http://localhost:{port}"},
        ),
        "pg.blocked_address": ("postgres", {"dsn": dsn, "command": "SELECT 1"}, {}),
        "host of auth": (
            "postgres",
            {
                "auth": {"host": "localhost", "port": port, "user": "u"},
                "command": "SELECT 1",
            },
            {},
        ),
        "several hosts": (
            "postgres",
            {"dsn": f"postgresql://u:p@{here},localhost:{port}/d", "command": "SELECT"},
            {},
        ),
        "host as option": (
            "postgres",
            {
                "dsn": f"postgresql://u:p@/d?host=127.0.0.1&port={port}",
                "command": "SELECT 1",
            },
            {},
        ),
        "nats.blocked_address": (
            "nats",
            {"url": f"nats://{here}", "operation": "kv_get", "bucket": "b", "key": "k"},
            {},
        ),
        "transfer from a database": (
            "transfer",
            {"source": {"type": "postgres", "dsn": dsn, **select}, **target},
            {},
        ),
        "transfer to a database": (
            "transfer",
            {
                "source": {"type": "duckdb", "query": "SELECT 1 AS a"},
                "target": {"type": "postgres", "dsn": dsn, "table": "t"},
            },
            {},
        ),
        "transfer from the web": (
            "transfer",
            {**rows, "source": {"type": "http", "url": web}, **target},
            {},
        ),
        "text of a task": (
            "duckdb",
            {"script": {"uri": web, "source": {"type": "http"}}},
            {"dialect": "classic"},
        ),
    }


@pytest.mark.parametrize("name", clients(1).keys())
def test_no_client_reaches_loopback_unless_it_is_allowed(name: str, peer: Peer) -> None:
    kind, inputs, spec = clients(peer.port)[name]

    refused = run(SERVER, kind, inputs, **spec)

    assert "blocked_address: " in refused
    assert "network.private" in refused
    if "." in name:
        assert refused.startswith(f"{name}: ")
    assert peer.heads == []
    assert "blocked_address" not in run(ALLOWING, kind, inputs, **spec)
    assert peer.heads, "what is allowed arrives"


@pytest.mark.parametrize(
    ("target", "is_metadata"),
    [
        ("http://169.254.169.254/latest/meta-data/", True),
        ("https://169.254.169.254/", True),
        ("http://[::ffff:169.254.169.254]/", True),
        ("http://2852039166/", True),
        ("http://metadata.google.internal/", True),
        ("http://127.0.0.1:9/", False),
        ("http://localhost:9/", False),
        ("http://10.0.0.1/", False),
    ],
)
def test_a_proxy_does_not_reach_blocked_addresses(
    target: str, is_metadata: bool, peer: Peer
) -> None:
    proxied = HostPolicy(private=("127.0.0.7/32",))
    proxy = f"http://127.0.0.7:{peer.port}"

    for policy in (proxied, *([ALLOWING] if is_metadata else [])):
        found = run(policy, "http", {"url": target}, proxy=proxy)
        assert found.startswith("http.blocked_address: ")
    assert peer.heads == []


def test_what_a_proxy_may_fetch_goes_through_it(peer: Peer) -> None:
    proxy = f"http://127.0.0.1:{peer.port}"

    assert run(ALLOWING, "http", {"url": "http://192.0.2.9/"}, proxy=proxy) == "ok"
    assert peer.heads[0].startswith(b"GET http://192.0.2.9/")


def test_a_redirect_by_a_proxy_is_checked_as_a_request(peer: Peer) -> None:
    peer.answer = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n"
    proxy = f"http://127.0.0.1:{peer.port}"

    found = run(ALLOWING, "http", {"url": "http://192.0.2.9/"}, proxy=proxy)

    assert found.startswith("http.blocked_address: ")
    assert len(peer.heads) == 1


def test_secrets_are_asked_for_where_the_network_allows(peer: Peer) -> None:
    url = f"http://localhost:{peer.port}/token"

    async def asked(at: str, network: Network | None) -> SecretError:
        with pytest.raises(SecretError) as raised:
            await ask("POST", at, "the token endpoint", network)
        return raised.value

    blocked = asyncio.run(asked(url, Network("deny")))
    literal = url.replace("localhost", "127.0.0.1")

    assert blocked.kind == "secret.blocked_address"
    assert "network.private" in blocked.message
    assert asyncio.run(asked(literal, Network("deny"))).kind == blocked.kind
    metadata = asyncio.run(asked("http://169.254.169.254/", None))
    assert metadata.kind == "secret.blocked_address"
    assert peer.heads == []
    assert asyncio.run(asked(url, None)).kind == "secret.wrong"  # it was asked
    assert len(peer.heads) == 1


def test_a_database_by_a_socket_of_the_machine_is_local() -> None:
    dsn = "postgresql://u:p@/d?host=/run/postgresql"

    found = run(SERVER, "postgres", {"dsn": dsn, "command": "SELECT 1"})

    assert found.startswith("pg.blocked_address: ")


def test_the_address_that_was_checked_is_the_one_connected_to(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that changes after the check leads nowhere else, for databases, too."""
    answers = iter(["127.0.0.1", "169.254.169.254"])

    def getaddrinfo(host: Any, port: Any, *rest: Any, **more: Any) -> list[Any]:
        found = host if host == "127.0.0.1" else next(answers)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (found, port))]

    async def work() -> None:
        loop = PinnedLoop(Network("allow"))
        transport, _ = await loop.create_connection(
            asyncio.Protocol, "rebound.example", peer.port
        )
        transport.close()
        with pytest.raises(BlockedAddress):
            await loop.create_connection(asyncio.Protocol, "rebound.example", peer.port)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    asyncio.run(work())


def attack(api: Api, tool: dict[str, Any]) -> dict[str, Any]:
    step = json.dumps({"step": "start", "tool": tool})
    document = api.run(playbook("ssrf", f"- {step}"))
    assert document["status"] == "failed", document
    error: dict[str, Any] = document["error"]
    return error


def test_an_author_does_not_reach_the_server_by_itself(running: Running) -> None:
    author = running.person("ssrf-author", "author:tests/*")
    port = urlsplit(running.url).port
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1"):
        tool = {"kind": "http", "url": f"http://{host}:{port}/healthz"}
        error = attack(author, tool)
        assert error["kind"] == "http.blocked_address", error


def test_a_keychain_entry_asks_no_local_token_endpoint(
    running: Running, admin: Api, peer: Peer
) -> None:
    entry = {
        "name": "t",
        "kind": "oauth2",
        "token_url": f"http://localhost:{peer.port}/",
        "client_id": "c",
        "client_secret": "s",
    }
    step = json.dumps({"step": "start", "tool": {"kind": "noop"}})
    text = playbook(
        "asks-local", f"- {step}", root=f"keychain: [{json.dumps(entry)}]\n"
    )

    answer = admin.post("/api/executions", {"playbook": text})

    assert answer.status == 422, answer.body
    assert "network.private" in json.dumps(answer.body)
    assert peer.heads == []


def test_own_endpoints_are_closed_where_private_addresses_are_allowed(
    tmp_path: Any, nats_server: Any
) -> None:
    allowing = HostPolicy(private="allow")
    nats = f"nats://{nats_server.address.partition('://')[2]}"
    server = Running(tmp_path / "home", policy=allowing, nats=nats)
    try:
        api = Api(server.url, server.token)
        web = attack(api, {"kind": "http", "url": f"{server.url}/healthz"})
        assert web["kind"] == "http.blocked_address"
        assert "NoETL itself" in web["message"]
        broker = f"http://127.0.0.1:{nats_server.port}/"
        assert attack(api, {"kind": "http", "url": broker})["kind"] == web["kind"]
    finally:
        server.stop()
