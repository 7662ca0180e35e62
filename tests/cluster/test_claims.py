"""Claims that wait: they are given what begins, and the store is left in peace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from noetl.errors import StoreError
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.leases import Caller

HELLO = "workflow: [{step: start, tool: {kind: noop, result: 1}}]"
ELSEWHERE = "workflow: [{step: start, tool: {kind: noop, spec: {pool: gpu}}}]"


async def turns(true: Callable[[], bool]) -> None:
    """As many turns of the loop as it takes."""
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0)


class NoSeal:
    """There is nothing to hide."""

    def seal(self, text: bytes, purpose: str) -> bytes:
        raise AssertionError(purpose)

    def open(self, sealed: bytes, purpose: str) -> bytes:
        raise AssertionError(purpose)


def _claim(
    worker: str, slots: int, wait: float
) -> tuple[Caller, messages.ClaimRequest]:
    asked = messages.ClaimRequest(
        worker, "default", slots, wait, protocol=messages.PROTOCOL
    )
    return Caller(worker, lambda pool: True, NoSeal()), asked


class Asking:
    """A server whose claims are watched: ``looks`` counts those that ask the store."""

    def __init__(self, cluster: Any, server: Any) -> None:
        self.cluster = cluster
        self.server = server
        self.looks = 0
        self.gone = False
        self._claim = server.orchestrator.assignment.claim
        server.orchestrator.assignment.claim = self._counted

    async def _counted(self, *args: Any, **options: Any) -> Any:
        self.looks += 1
        return await self._claim(*args, **options)

    async def wait(self, worker: str = "w", slots: int = 4) -> asyncio.Task[Any]:
        """A claim of this worker, once it waits."""
        asked = _claim(worker, slots, 20.0)
        waiting = self.server.orchestrator.idle_workers.waiting
        before = len(waiting)
        task = asyncio.create_task(self.server.gateway.claim(*asked, lambda: self.gone))
        await turns(lambda: len(waiting) > before)
        return task

    async def names(self, execution_id: str) -> list[str]:
        return [each.name for each in await self.server.store.read(execution_id)]


@asynccontextmanager
async def asking(cluster_of: Any) -> AsyncIterator[Asking]:
    async with cluster_of(servers=1, workers=0) as cluster:
        [server] = cluster.servers
        server.sweeping.cancel()  # it rings the bell
        cluster.register("tests/hello", HELLO)
        cluster.register("tests/elsewhere", ELSEWHERE)
        yield Asking(cluster, server)


@pytest.mark.spec("WKR-02")
async def test_an_idle_worker_is_given_new_work(cluster_of: Any) -> None:
    """Its start is in the log with the execution's: no claim, no report before."""
    async with asking(cluster_of) as our:
        waiting = await our.wait()
        execution_id = await our.cluster.start("tests/hello")
        [order] = (await waiting).work

        assert order.frame.execution_id == execution_id
        assert (order.lease.epoch, order.started) == (1, True)
        assert "task.started" in await our.names(execution_id)
        [held] = await our.server.store.held("w")
        assert (held.command_id, held.epoch) == (order.lease.command_id, 1)
        assert our.looks == 1


async def test_of_two_who_wait_the_first_is_given_the_first(cluster_of: Any) -> None:
    async with asking(cluster_of) as our:
        first, second = await our.wait("a", 1), await our.wait("b", 1)
        await our.cluster.start("tests/hello")
        assert len((await first).work) == len(await our.server.store.held("a")) == 1
        await our.cluster.start("tests/hello")
        assert len((await second).work) == len(await our.server.store.held("b")) == 1


async def test_what_is_known_to_be_quiet_is_not_asked_again(cluster_of: Any) -> None:
    async with asking(cluster_of) as our:
        for _ in range(3):
            waiting = await our.wait()
            await our.cluster.start("tests/hello")
            await waiting
        assert our.looks == 1

        waiting = await our.wait()
        our.server.orchestrator.wakeup.notify()
        await turns(lambda: our.looks == 2)
        waiting.cancel()


async def test_without_patience_the_store_is_always_asked(cluster_of: Any) -> None:
    async with asking(cluster_of) as our:
        for looks in (1, 2):
            assert not (await our.server.gateway.claim(*_claim("w", 1, 0.0))).work
            assert our.looks == looks


@pytest.mark.spec("S-64")
async def test_what_is_for_another_pool_is_not_given(cluster_of: Any) -> None:
    async with asking(cluster_of) as our:
        waiting = await our.wait()
        execution_id = await our.cluster.start("tests/elsewhere")

        assert "task.started" not in await our.names(execution_id)
        assert not waiting.done()
        waiting.cancel()


async def test_a_disconnected_worker_is_given_no_work(cluster_of: Any) -> None:
    """Nothing of it is begun: no attempt is in doubt because of them."""
    async with asking(cluster_of) as our:
        waiting = await our.wait()
        our.gone = True
        execution_id = await our.cluster.start("tests/hello")

        assert not (await waiting).work
        assert "task.started" not in await our.names(execution_id)
        our.gone = False
        [order] = (await our.server.gateway.claim(*_claim("v", 1, 20.0))).work
        assert order.frame.execution_id == execution_id


async def test_what_could_not_begin_leaves_them_waiting(
    cluster_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(cluster_of) as our:
        waiting = await our.wait()
        commit = our.server.store.commit

        async def refuse(transitions: Any) -> None:
            raise StoreError("not now", "store.unreachable")

        monkeypatch.setattr(our.server.store, "commit", refuse)
        with pytest.raises(StoreError, match="not now"):
            await our.cluster.start("tests/hello")
        monkeypatch.setattr(our.server.store, "commit", commit)
        assert not waiting.done()
        await our.cluster.start("tests/hello")

        assert len((await waiting).work) == 1
