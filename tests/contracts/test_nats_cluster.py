"""A NATS of three servers, of which one may fail (I-47)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import nats.errors
import pytest
from nats_servers import OURS, NatsServer, running, with_users

from noetl.access.sessions import Session
from noetl.adapters.blobs.nats import NatsBlobs
from noetl.adapters.nats.connection import NatsLink
from noetl.adapters.nats.permissions import (
    KEYS_STREAM,
    OBJECTS_STREAM,
    RESULTS,
    SESSIONS,
)
from noetl.adapters.sessions.nats import NatsSessions
from noetl.config import read_settings
from noetl.config.broker import parse_nats
from noetl.errors import AccessError, ConfigError, StoreError

T = TypeVar("T")

NOW = 1_800_000_000.0
CLUSTER = """
server_name: n{index}
cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsServer]]:
    with ExitStack() as stack:
        taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        ports = [each.getsockname()[1] for each in taken]
        for each in taken:
            each.close()
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        servers = []
        for index, port in enumerate(ports):
            folder: Path = tmp_path_factory.mktemp("nats")
            settings = CLUSTER.format(index=index, port=port, routes=routes)
            how = {"settings": settings + with_users()}
            servers.append(stack.enter_context(running(folder, **how)))
        yield servers


def address_of(servers: list[NatsServer]) -> str:
    first, *others = (each.address.removeprefix("nats://") for each in servers)
    found = parse_nats(f"nats://{OURS}@{first}, {','.join(others)}", Path())
    assert found is not None
    return found


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call while the servers elect a leader, which takes them seconds."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await call()
            except (AccessError, StoreError, nats.errors.Error):
                await asyncio.sleep(0.05)


async def test_sessions_and_results_outlive_a_server(
    cluster: list[NatsServer], tmp_path: Path
) -> None:
    address = address_of(cluster)
    link = NatsLink(address)
    serving = asyncio.create_task(link.serve())
    assert await link.wait(60)
    sessions = NatsSessions(lambda: link.client, replicas=3)
    blobs = NatsBlobs(address, RESULTS, str(tmp_path / "drafts"), replicas=3)
    session = Session(
        session_id="s",
        user_id="ann",
        email=None,
        display_name=None,
        roles=("viewer",),
        created_at=NOW,
        expires_at=NOW + 3600,
        last_activity_at=NOW,
    )
    await insist(lambda: sessions.create("a" * 64, session, now=NOW))
    key = await insist(lambda: blobs.put(b"a result"))
    for stream in (KEYS_STREAM + SESSIONS, OBJECTS_STREAM + RESULTS):
        kept = (await link.client.jetstream(timeout=10).stream_info(stream)).config
        assert kept.num_replicas == 3
    connected = link.client.connected_url
    assert connected is not None
    at = [each.port for each in cluster].index(connected.port or 0)

    cluster[at].kill()

    found = await insist(lambda: sessions.get("a" * 64, now=NOW))
    assert found is not None
    assert found.session == session
    assert await insist(lambda: blobs.get(key)) == b"a result"
    moved = link.client.connected_url
    assert moved is not None
    assert moved.port != connected.port
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


async def test_a_server_that_the_address_does_not_name_gets_no_credential(
    cluster: list[NatsServer],
) -> None:
    alive = [each for each in cluster if each.is_running()]
    link = NatsLink(alive[0].place(OURS))
    serving = asyncio.create_task(link.serve())
    assert await link.wait(60)

    assert [each.port for each in link.client.servers] == [alive[0].port]
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("nats://a", "nats://a"),
        ("tls://u:p,w@a:1", "tls://u:p,w@a:1"),
        ("tls://u:p@a:1,b:2", "tls://u:p@a:1,tls://u:p@b:2"),
        ("nats://t@a, nats://b,nats://x:y@c", "nats://t@a,nats://t@b,nats://x:y@c"),
    ],
)
def test_each_server_of_an_address_has_a_credential(written: str, read: str) -> None:
    assert parse_nats(written, Path()) == read


@pytest.mark.parametrize("written", ["a:4222", "tls://a,nats://b", "nats://a,,b"])
def test_an_address_of_mixed_or_missing_servers_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match=r"^NOETL_NATS: "):
        read_settings({"NOETL_HOME": "/nowhere", "NOETL_NATS": written})
