"""Servers ring at each other over a real NATS; without it nothing is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import nats
import pytest
from nats.aio.msg import Msg
from nats_servers import NatsServer

from noetl.adapters.nats.connection import CarefulClient, NatsWakeups
from noetl.adapters.nats.permissions import WAKEUPS
from noetl.runtime.worker_protocol import long_poll, messages

HUNG = 30.0
HELLO = "workflow: [{step: start, tool: {kind: noop, result: 1}}]"


class Ear:
    """Rings that a server hears, and what it does then."""

    def __init__(self) -> None:
        self.rings = 0
        self.heard = asyncio.Event()
        self.then: list[Callable[[], None]] = []

    def __call__(self) -> None:
        self.rings += 1
        self.heard.set()
        for each in self.then:
            each()

    async def wait(self) -> None:
        async with asyncio.timeout(HUNG):
            await self.heard.wait()
        self.heard.clear()


@asynccontextmanager
async def doorbells(address: str, count: int) -> AsyncIterator[list[Any]]:
    """Pairs of a doorbell and an ear; each has heard each other once."""
    made = [(NatsWakeups(address), Ear()) for _ in range(count)]
    tasks = [asyncio.create_task(bell.serve(ear)) for bell, ear in made]
    try:
        await acquaint(made)
        yield made
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def acquaint(made: Sequence[Any]) -> None:
    """Until all of them are connected and listen."""
    async with asyncio.timeout(HUNG):
        for bell, _ in made:
            for other, ear in made:
                while other is not bell and not ear.heard.is_set():
                    bell.wake({"default"})
                    await asyncio.sleep(0.01)
                ear.heard.clear()


@pytest.mark.spec("WKR-02")
async def test_work_of_one_server_wakes_a_worker_at_another(
    cluster_of: Any, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server that the worker asks looks twice: when it asks, and when it rings."""
    monkeypatch.setattr(long_poll, "LOOK_AGAIN_SECONDS", HUNG)
    async with (
        cluster_of(servers=2, workers=0) as cluster,
        doorbells(nats_server.address, 2) as ((ours, _), (_, ear)),
    ):
        first, second = cluster.servers
        for server in (first, second):
            server.sweeping.cancel()
        first.bus.target = ours
        ear.then.append(second.orchestrator.wakeup.notify)
        looks, asked = 0, asyncio.Event()
        claim = second.orchestrator.assignment.claim

        async def counted(*args: Any, **options: Any) -> Any:
            nonlocal looks
            found = await claim(*args, **options)
            looks += 1
            asked.set()
            return found

        monkeypatch.setattr(second.orchestrator.assignment, "claim", counted)
        cluster.register("tests/hello", HELLO)
        question = msgspec.json.encode(
            messages.ClaimRequest("w", "default", 1, 20.0, protocol=messages.PROTOCOL)
        )
        waiting = asyncio.create_task(second.handle("claim", question))
        await asked.wait()
        await cluster.start("tests/hello")
        async with asyncio.timeout(HUNG / 2):
            answer = await waiting

    assert b'"work":[{' in answer
    assert looks == 2


async def test_a_server_ignores_its_own_wakeup_message(nats_server: NatsServer) -> None:
    async with doorbells(nats_server.address, 2) as ((ours, mine), (_, theirs)):
        before = mine.rings
        ours.wake({"gpu", "a pool.with > odd * names"})
        await theirs.wait()

        assert mine.rings == before


async def test_a_killed_nats_is_missed_and_found_again(
    start_nats: Callable[..., NatsServer], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = start_nats()
    address = server.address.replace("nats://", "nats://s3cret@")
    async with doorbells(address, 2) as made:
        (ours, _), (_, theirs) = made
        server.kill()
        before = ours.count_missed()
        async with asyncio.timeout(HUNG):
            while ours.count_missed() == before:
                ours.wake({"default"})
                await asyncio.sleep(0.01)
        start_nats(server.port)
        theirs.heard.clear()
        await acquaint(made)

    assert "s3cret" not in "".join(r.getMessage() for r in caplog.records)


async def test_an_answer_that_is_too_late_ends_no_connection(
    nats_server: NatsServer,
) -> None:
    """A slow or cut link: who asked has given up, and the answer comes after all."""
    client = CarefulClient()
    await client.join(nats_server.address)
    given_up = asyncio.get_running_loop().create_future()
    given_up.cancel()
    await client._send_ping(given_up)

    await client.flush(timeout=HUNG)  # type: ignore[arg-type]
    heard: asyncio.Queue[Msg] = asyncio.Queue()
    await client.subscribe("late", cb=heard.put)
    await client.publish("late", b"")
    await asyncio.wait_for(heard.get(), HUNG)
    await client.close()


async def test_without_nats_everything_is_done(cluster_of: Any) -> None:
    """Nobody listens at that address: servers look by themselves."""
    lonely = NatsWakeups("nats://127.0.0.1:1")
    serving = asyncio.create_task(lonely.serve(lambda: None))
    async with cluster_of(servers=2, workers=2) as cluster:
        for server in cluster.servers:
            server.bus.target = lonely
        cluster.register("tests/hello", HELLO)
        state = await cluster.end(await cluster.start("tests/hello"))
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving

    assert state.status == "completed"
    assert lonely.count_missed() > 0


async def test_a_ring_holds_nothing_of_the_work(nats_server: NatsServer) -> None:
    """Messages can be read by every client of NATS: they name a pool, and no more."""
    client = await nats.connect(nats_server.address)
    heard: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

    async def hear(message: Msg) -> None:
        heard.put_nowait((message.subject, message.data))

    await client.subscribe(f"{WAKEUPS}.>", cb=hear)
    await client.flush()
    async with doorbells(nats_server.address, 2) as ((bell, _), _):
        bell.wake({"gpu"})
        async with asyncio.timeout(HUNG):
            while (ring := await heard.get())[0] == f"{WAKEUPS}.default":
                assert ring[1] == b""
    await client.close()

    assert ring == (f"{WAKEUPS}.gpu", b"")
