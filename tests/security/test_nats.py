"""What the credential of a server opens in NATS, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats.errors
import pytest
from nats_servers import OTHER, OURS, PASSWORD, NatsServer, with_users

from noetl.adapters.blobs.nats import NatsBlobs
from noetl.adapters.nats.connection import CarefulClient
from noetl.adapters.nats.permissions import (
    RESULTS,
    USER,
    describe_user,
    server_permissions,
)
from noetl.errors import StoreError

SENT = (
    "orders.new",
    "noetl.other",
    "noetl.cmd",
    "noetl.cmd.default.more",
    "$KV.orders.key",
    "$KV.noetl_sessions.other.key",
    "$O.orders.M.x",
    "$SYS.REQ.SERVER.PING",
    "$SYS.REQ.ACCOUNT.$G.JSZ",
    "$SYS.REQ.USER.INFO",
    "$JS.API.INFO",
    "$JS.API.ACCOUNT.PURGE.$G",
    "$JS.API.SERVER.REMOVE",
    "$JS.API.STREAM.CREATE.ORDERS",
    "$JS.API.STREAM.CREATE.KV_orders",
    "$JS.API.STREAM.UPDATE.ORDERS",
    "$JS.API.STREAM.UPDATE.OBJ_noetl-results",
    "$JS.API.STREAM.INFO.ORDERS",
    "$JS.API.STREAM.DELETE.ORDERS",
    "$JS.API.STREAM.DELETE.KV_noetl_sessions",
    "$JS.API.STREAM.DELETE.OBJ_noetl-results",
    "$JS.API.STREAM.PURGE.ORDERS",
    "$JS.API.STREAM.PURGE.KV_noetl_sessions",
    "$JS.API.STREAM.MSG.DELETE.KV_noetl_sessions",
    "$JS.API.STREAM.SNAPSHOT.KV_noetl_sessions",
    "$JS.API.STREAM.RESTORE.ORDERS",
    "$JS.API.STREAM.MSG.GET.ORDERS",
    "$JS.API.DIRECT.GET.ORDERS",
    "$JS.API.DIRECT.GET.ORDERS.orders.new",
    "$JS.API.CONSUMER.CREATE.ORDERS",
    "$JS.API.CONSUMER.CREATE.ORDERS.mine",
    "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.mine",
    "$JS.API.CONSUMER.DELETE.ORDERS.theirs",
    "$JS.ACK.ORDERS.theirs.1.1.1.1.0",
    "_INBOX.of.another",
)
HEARD = (">", "orders.>", "noetl.>", "$KV.>", "$O.>", "$JS.>", "$SYS.>")


@asynccontextmanager
async def joined(
    address: str, errors: asyncio.Queue[str] | None = None
) -> AsyncIterator[CarefulClient]:
    async def note(error: Exception) -> None:
        if errors is not None:
            errors.put_nowait(str(error))

    client = CarefulClient()
    await client.join(address, error_cb=note, allow_reconnect=False, connect_timeout=5)
    try:
        yield client
    finally:
        await client.close()


async def refused(errors: asyncio.Queue[str]) -> str:
    """What NATS says next that it does not allow."""
    async with asyncio.timeout(10):
        return (await errors.get()).partition(" violation for ")[2]


@pytest.fixture
def guarded(start_nats: Callable[..., NatsServer]) -> NatsServer:
    """A NATS in which another application has a stream, too."""
    server = start_nats(settings=with_users("chosen"))

    async def fill() -> None:
        async with joined(server.place(OTHER)) as other:
            stream = other.jetstream()
            await stream.add_stream(name="ORDERS", subjects=["orders.>"])
            await stream.publish("orders.new", b"theirs")

    asyncio.run(fill())
    return server


@pytest.mark.parametrize(
    "who", ["", f"{USER}:wrong@", "s3cret@", f"admin:{PASSWORD}@", f"{USER}:@"]
)
async def test_no_or_a_wrong_credential_opens_nothing(
    guarded_nats: NatsServer, who: str
) -> None:
    address = f"nats://{who}127.0.0.1:{guarded_nats.port}"
    with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
        async with joined(address):
            pass


async def test_a_server_says_nothing_on_subjects_of_others(guarded: NatsServer) -> None:
    errors: asyncio.Queue[str] = asyncio.Queue()
    async with joined(guarded.place(OURS), errors) as client:
        for subject in SENT:
            await client.publish(subject, b'{"name": "ORDERS"}', reply="_INBOX.here")
            assert await refused(errors) == f'publish to "{subject.lower()}"'

    async with joined(guarded.place(OTHER)) as other:
        info = await other.jetstream().stream_info("ORDERS")
    assert info.state.messages == 1


async def test_a_server_receives_no_subjects_of_others(guarded: NatsServer) -> None:
    errors: asyncio.Queue[str] = asyncio.Queue()
    async with joined(guarded.place(OURS), errors) as client:
        for subject in HEARD:
            await client.subscribe(subject)
            assert await refused(errors) == f'subscription to "{subject.lower()}"'


async def test_a_bucket_that_is_not_open_is_refused_at_once(
    guarded: NatsServer, tmp_path: Any
) -> None:
    """NATS leaves such a question without an answer."""
    here = guarded.place(OURS)
    async with asyncio.timeout(5):
        with pytest.raises(StoreError, match="nats_buckets") as caught:
            await NatsBlobs(here, "another", str(tmp_path)).check()
    key = await NatsBlobs(here, "chosen", str(tmp_path)).put(b"data")

    assert caught.value.kind == "store.denied"
    assert PASSWORD not in str(caught.value)
    assert await NatsBlobs(here, RESULTS, str(tmp_path)).get(key) == b"data"


async def test_an_account_of_its_own_hides_streams_of_others(
    start_nats: Callable[..., NatsServer],
) -> None:
    """A stream may copy another one of its account: another account has none."""
    user = describe_user(f'"{PASSWORD}"', server_permissions())
    name, _, password = OTHER.partition(":")
    them = f'{{ user: {name}, password: "{password}" }}'
    other = f"{{ jetstream: enabled, users: [{them}] }}"
    ours = f"{{ jetstream: enabled, users: [\n{user}\n] }}"
    server = start_nats(settings=f"accounts {{ NOETL: {ours}\nOTHER: {other}\n}}\n")
    errors: asyncio.Queue[str] = asyncio.Queue()
    async with (
        joined(server.place(OTHER)) as theirs,
        joined(server.place(OURS), errors) as client,
    ):
        await theirs.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        stream = client.jetstream(timeout=5)
        await stream.add_stream(name="KV_noetl_sessions", subjects=["orders.>"])
        await theirs.jetstream().publish("orders.new", b"theirs")
        seen = await stream.stream_info("KV_noetl_sessions")
        listed = await stream.streams_info()

    assert seen.state.messages == 0
    assert [each.config.name for each in listed] == ["KV_noetl_sessions"]
    assert errors.empty()
