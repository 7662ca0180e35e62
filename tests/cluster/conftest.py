"""Servers and workers in one process, on a real PostgreSQL: the wire is a function."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from textwrap import dedent
from typing import Any

import msgspec
import pytest
from memory_blobs import MemoryBlobs

from noetl.adapters.catalogs.files import pin
from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.tools import BUILTIN
from noetl.adapters.tools.registry import make_tools
from noetl.dsl.load import load
from noetl.dsl.model import Playbook
from noetl.dsl.normalize import deep_merge
from noetl.engine.decide import Request
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.state import State
from noetl.errors import (
    BlobCorrupt,
    BlobGone,
    BlobNotOwned,
    LeaseLost,
    LeaseNotOwned,
    Refused,
    SecretError,
    StoreError,
    Unreachable,
)
from noetl.ports import CatalogEntry
from noetl.runtime.dispatcher import WakeupBus
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker.remote_dispatcher import RemoteDispatcher
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.leases import Caller
from noetl.service.executions.verification import StoreCheck
from noetl.wiring.identifiers import new_execution_id

TTL = 1.0
CALLS: dict[str, tuple[type[Any], str]] = {
    "claim": (messages.ClaimRequest, "claim"),
    "events": (messages.ReportBatch, "report"),
    "heartbeat": (messages.Heartbeat, "heartbeat"),
    "source": (messages.PlaybookRequest, "playbook"),
    "result": (messages.BlobRequest, "blob"),
    "value": (messages.ValueRequest, "value"),
    "secret": (messages.SecretRequest, "secret"),
    "token": (messages.TokenRequest, "token"),
    "permit": (messages.PermitRequest, "permit"),
}
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: t, path: {path}}}\n"


class Plain:
    """No cipher: what matters here is who gets what."""

    def seal(self, text: bytes, purpose: str) -> bytes:
        return purpose.encode() + b"|" + text

    def open(self, sealed: bytes, purpose: str) -> bytes:
        said, _, text = sealed.partition(b"|")
        assert said == purpose.encode()
        return text


class Texts:
    """A catalog of texts, all servers share it."""

    place = "memory"

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs
        self.texts: dict[str, bytes] = {}

    async def find(self, path: str, version: str | None) -> CatalogEntry | None:
        if path not in self.texts:
            return None
        loaded = load(self.texts[path], BUILTIN)
        about = await pin(loaded, self.texts[path], None, self._blobs)
        return CatalogEntry(loaded.playbook, about)

    async def pinned(self, about: dict[str, Any]) -> Playbook:
        return parse(await self._blobs.get(about["source"]), ())


def parse(text: bytes, extensions: Sequence[str]) -> Playbook:
    loaded = load(text, BUILTIN, frozenset(extensions))
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


class Faults:
    """What the wire does to calls: it loses some, or their answers."""

    def __init__(self, seed: int = 0, lost: float = 0.0, unheard: float = 0.0) -> None:
        self._random = random.Random(seed)
        self.lost = lost
        self.unheard = unheard
        self.count = 0

    def strikes(self, chance: float) -> bool:
        hit = self._random.random() < chance
        self.count += hit
        return hit


class Wire:
    """Calls of one worker, to any server that is up; ``held`` are paths whose calls
    wait until they are let through; of those to ``deaf`` ones the first answer with
    work in it is lost; those to ``down`` ones never arrive. ``only`` is the one server
    that it calls."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.cut = False
        self.held: dict[str, asyncio.Event] = {}
        self.deaf: set[str] = set()
        self.down: set[str] = set()
        self.only: int | None = None
        self.server_ids: dict[str, str] = {}
        self._turn = 0

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        return await self.call(path.rpartition("/")[2], body, seconds=seconds)

    async def call(self, path: str, body: bytes, *, seconds: float) -> bytes:
        faults = self._cluster.faults
        await asyncio.sleep(0)
        if self.cut:
            await asyncio.Event().wait()
        if path in self.held:
            await self.held[path].wait()
        if path in self.down:
            raise Unreachable("down")
        if faults.strikes(faults.lost) or not self._cluster.servers:
            raise Unreachable("lost")
        self._turn += 1
        turn = self._turn if self.only is None else self.only
        chosen = self._cluster.servers[turn % len(self._cluster.servers)]
        try:
            answer = await asyncio.wait_for(chosen.handle(path, body), seconds)
        except (StoreError, TimeoutError) as error:
            raise Unreachable(str(error)) from None
        if path in self.deaf and b'"lease"' in answer:
            self.deaf.discard(path)
            raise Unreachable("unheard")
        if faults.strikes(faults.unheard):
            raise Unreachable("unheard")
        return answer


class Clock(SystemClock):
    """The clock of a server; a test may set it ``ahead``."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class Bus:
    """Passes wake-ups on to the ``target``, if a test sets one."""

    target: WakeupBus | None = None

    def wake(self, pools: Collection[str]) -> None:
        if self.target is not None:
            self.target.wake(pools)


class Server:
    def __init__(
        self,
        store: PostgresStore,
        database: Postgres,
        blobs: MemoryBlobs,
        catalog: Texts,
        sealed: MemorySealed,
        ttl: float = TTL,
    ) -> None:
        keys = Keyring({}, sealed)
        self.database = database
        self.store = store
        self.clock = Clock()
        self.bus = Bus()
        self.errors: list[str] = []
        self.orchestrator = make_orchestrator(
            store,
            Results(blobs),
            catalog,
            self.clock,
            keys,
            ttl=ttl,
            wakeup_bus=self.bus,
            on_error=lambda execution_id, error: self.errors.append(execution_id),
        )
        self.fenced = 0
        self.gateway = WorkerGateway(self.orchestrator, self._fence)
        self.sweeping = asyncio.create_task(self._serve())

    def _fence(self) -> None:
        self.fenced += 1

    async def _serve(self) -> None:
        while True:
            await self.orchestrator.sweep()
            await asyncio.sleep(0.2)

    async def handle(self, path: str, body: bytes) -> bytes:
        shape, method = CALLS[path]
        asked = msgspec.json.decode(body, type=shape)
        caller = Caller(asked.worker, lambda pool: True, Plain())
        try:
            answer = await getattr(self.gateway, method)(caller, asked)
        except (
            *(BlobGone, BlobCorrupt, BlobNotOwned, LeaseLost, LeaseNotOwned),
            SecretError,
        ) as error:
            raise Refused(error.kind, str(error)) from None
        if path == "result":
            return b""
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)

    async def close(self) -> None:
        self.sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await self.sweeping
        await self.orchestrator.close()
        await self.database.close()


class Cluster:
    """``start`` begins an execution on any server; ``end`` waits for its end."""

    def __init__(
        self, address: str, faults: Faults | None = None, ttl: float = TTL
    ) -> None:
        self._address = address
        self._ttl = ttl
        self.faults = faults or Faults()
        self.blobs = MemoryBlobs()
        self.catalog = Texts(self.blobs)
        self.sealed = MemorySealed()
        self.servers: list[Server] = []
        self.workers: list[asyncio.Task[None]] = []
        self.tools: list[dict[str, Any]] = []
        self.wires: list[Wire] = []
        self.executors: list[Executor] = []

    async def add_server(self) -> Server:
        database = Postgres(self._address)
        store = await PostgresStore.open(database)
        server = Server(
            store, database, self.blobs, self.catalog, self.sealed, self._ttl
        )
        self.servers.append(server)
        return server

    def add_worker(self, slots: int = 4, pool: str = "default") -> None:
        name = f"w{len(self.workers)}"
        transport = Wire(self)
        self.wires.append(transport)
        dispatcher = RemoteDispatcher(
            ServerConnection(transport, ["any"], worker=name, pool=pool),
            parse,
            Plain(),
            self.blobs,
            slots=slots,
        )
        tools = make_tools(slots, dispatcher.tokens)
        self.tools.append(tools)
        executor = Executor(dispatcher, tools, SystemClock(), owner=name, slots=slots)
        self.executors.append(executor)
        self.workers.append(asyncio.create_task(executor.serve()))

    def register(self, path: str, workflow: str) -> None:
        text = HEAD.format(path=path) + dedent(workflow)
        self.catalog.texts[path] = text.encode()

    async def start(self, path: str, **workload: Any) -> str:
        found = await self.catalog.find(path, None)
        assert found is not None
        assert found.playbook is not None
        execution_id = new_execution_id()
        merged = deep_merge(found.playbook.workload, workload)
        request = Request(execution_id, found.about, merged)
        await self.servers[0].orchestrator.start(found.playbook, request)
        return execution_id

    async def end(self, execution_id: str, seconds: float = 60.0) -> State:
        store = self.servers[0].store
        async with asyncio.timeout(seconds):
            while (await store.summary(execution_id)).finished_at is None:
                for worker in self.workers:
                    if worker.done():
                        worker.result()
                await asyncio.sleep(0.02)
        check = StoreCheck(store, self.blobs, lambda about, body: parse(body, ()))
        called = [
            each.execution_id
            for each in await store.find(limit=1_000)
            if each.parent_id == execution_id
        ]
        for name in (execution_id, *called):
            assert (await check.verify(name)).breaches == []
        return replay(await store.read(execution_id))

    async def state(self, execution_id: str) -> State:
        return replay(await self.servers[0].store.read(execution_id))

    async def reach(self, execution_id: str, seq: int) -> None:
        await self._until(execution_id, lambda events: len(events) >= seq)

    async def suspended(self, execution_id: str) -> None:
        """Until it waits for a child, or has done so."""
        await self._until(
            execution_id,
            lambda events: any(each.name == "task.suspended" for each in events),
        )

    async def _until(
        self, execution_id: str, true: Callable[[Sequence[Event]], bool]
    ) -> None:
        store = self.servers[0].store
        async with asyncio.timeout(30):
            while not true(await store.read(execution_id)):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # other processes ring no bell here

    async def is_leased(self, owner: str) -> bool:
        sql = "SELECT 1 FROM command WHERE state = 'leased' AND owner = $1"
        return bool(await self.servers[0].database.fetch(sql, owner))

    async def most_claims(self) -> int:
        sql = "SELECT coalesce(max(epoch), 0) FROM command"
        [(epoch,)] = await self.servers[0].database.fetch(sql)
        return int(epoch)

    def kill_worker(self, number: int) -> None:
        """It says nothing more: its leases must run out."""
        self.wires[number].cut = True

    async def kill_server(self, number: int) -> None:
        await self.servers.pop(number).close()

    async def close(self) -> None:
        for worker in self.workers:
            worker.cancel()
        for worker in self.workers:
            with suppress(asyncio.CancelledError):
                await worker
        for tools in self.tools:
            for tool in tools.values():
                await tool.close()
        for server in self.servers:
            await server.close()


@asynccontextmanager
async def running(
    address: str,
    *,
    servers: int = 2,
    workers: int = 2,
    faults: Faults | None = None,
    ttl: float = TTL,
) -> AsyncIterator[Cluster]:
    cluster = Cluster(address, faults, ttl)
    for _ in range(servers):
        await cluster.add_server()
    for _ in range(workers):
        cluster.add_worker()
    try:
        yield cluster
    finally:
        await cluster.close()


@pytest.fixture
def cluster_of(postgres: str) -> Any:
    def make(**how: Any) -> Any:
        return running(postgres, **how)

    return make


@pytest.fixture(scope="session")
def faults() -> type[Faults]:
    return Faults
