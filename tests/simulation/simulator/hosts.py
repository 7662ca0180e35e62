"""Servers and workers of a simulation: production objects, wired to simulated ports."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import IO, Any

from msgspec.structs import replace

from noetl.adapters.catalogs.files import pin
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.tools import BUILTIN
from noetl.adapters.tools.engine_kinds import NoopTool
from noetl.dsl.load import Loaded, load
from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.errors import (
    BlobCorrupt,
    BlobGone,
    BlobNotOwned,
    LeaseLost,
    LeaseNotOwned,
    ProtocolError,
    Refused,
    SecretError,
    SetAside,
    StoreError,
    Unreachable,
)
from noetl.ports import Blobs, CatalogEntry
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker.remote_dispatcher import RemoteDispatcher
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.leases import Caller

from .ledger import EffectTool, Ledger
from .loop import Process, SimLoop
from .network import IsGone, Network
from .plan import TTL
from .store import Connection, Database

EPOCH = 1_790_000_000.0
"""The time at which every simulation begins."""
SWEEP = 1.0
POOL = "default"

_METHODS: dict[str, tuple[type[Any], str]] = {
    messages.PATHS[shape]: (shape, method)
    for shape, method in (
        (messages.ClaimRequest, "claim"),
        (messages.ReportBatch, "report"),
        (messages.Heartbeat, "heartbeat"),
        (messages.PlaybookRequest, "playbook"),
        (messages.ValueRequest, "value"),
        (messages.PermitRequest, "permit"),
    )
}
_REFUSALS = (
    *(BlobGone, BlobCorrupt, BlobNotOwned, LeaseLost, LeaseNotOwned),
    *(ProtocolError, SecretError, SetAside),
)


class Plain:
    """No cipher: the simulation has no secrets."""

    def seal(self, text: bytes, purpose: str) -> bytes:
        return text

    def open(self, sealed: bytes, purpose: str) -> bytes:
        return sealed


@cache
def loaded(text: bytes) -> Loaded:
    """Load a playbook; one text is loaded once for all runs."""
    found = load(text, BUILTIN)
    assert found.playbook is not None, found.diagnostics
    return found


def parse(text: bytes, extensions: Sequence[str]) -> Playbook:
    playbook = loaded(text).playbook
    assert playbook is not None
    return playbook


class Texts:
    """A catalog of texts that all servers share."""

    place = "memory"

    def __init__(self, blobs: Blobs, texts: Mapping[str, bytes]) -> None:
        self._blobs = blobs
        self._texts = texts

    async def find(self, path: str, version: str | None) -> CatalogEntry | None:
        if path not in self._texts:
            return None
        text = self._texts[path]
        about = await pin(loaded(text), text, None, self._blobs)
        return CatalogEntry(parse(text, ()), about)

    async def paths(self) -> Sequence[str]:
        return sorted(self._texts)

    async def pinned(self, about: dict[str, Any]) -> Playbook:
        return parse(await self._blobs.get(about["source"]), ())


class ServerClock:
    """The clock of a server: wrong by ``skew`` seconds."""

    def __init__(self, loop: SimLoop, skew: float) -> None:
        self._loop = loop
        self.skew = skew

    def now(self) -> float:
        return EPOCH + self._loop.time() + self.skew

    sleep = staticmethod(asyncio.sleep)


class Stopwatch:
    """The time that decisions seem to take: some are long, so that others wait."""

    def __init__(self, loop: SimLoop, draw: random.Random) -> None:
        self._loop = loop
        self._draw = draw.random
        self._spent = 0.0

    def __call__(self) -> float:
        self._spent += self._draw() * 0.01
        return self._loop.time() + self._spent


class Bus:
    """Carries wake-ups between servers, or does not."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def wake(self, pools: Collection[str]) -> None:
        self._ring()


class Server:
    """One server process. ``on_report`` is told what it answers to reports."""

    def __init__(
        self,
        process: Process,
        address: str,
        database: Database,
        blobs: Blobs,
        catalog: Texts,
        sealed: MemorySealed,
        clock: ServerClock,
        ring: Callable[[], None],
        on_report: Callable[[messages.ReportBatch, messages.ReportBatchReply], None],
        on_events: Callable[[Sequence[Event]], None],
    ) -> None:
        self.process = process
        self.address = address
        self.clock = clock
        self.fenced = 0
        self.set_aside = 0
        self._on_report = on_report
        self.orchestrator = make_orchestrator(
            Connection(database, process),
            Results(blobs),
            catalog,
            clock,
            Keyring({}, sealed),
            ttl=TTL,
            wakeup_bus=Bus(ring),
            on_error=self._note_error,
        )
        stopwatch = Stopwatch(database.loop, database.random)
        self.orchestrator.turns.use(stopwatch, stopwatch)
        self.orchestrator.watch(on_events)
        self.gateway = WorkerGateway(self.orchestrator, self._note_fence)
        process.spawn(self._tend(self.orchestrator.serve))
        process.spawn(self._tend(self._tick))

    async def handle(self, path: str, body: bytes, is_gone: IsGone) -> bytes:
        """Answer a worker as the HTTP routes do."""
        shape, method = _METHODS[path]
        asked = messages.codec.decode(body, shape)
        caller = Caller(asked.worker, lambda pool: True, Plain())
        more = (is_gone,) if method == "claim" else ()
        try:
            answer = await getattr(self.gateway, method)(caller, asked, *more)
        except _REFUSALS as error:
            raise Refused(error.kind, str(error)) from None
        except StoreError as error:  # the routes answer 503
            raise Unreachable(str(error)) from None
        if isinstance(answer, messages.ReportBatchReply):
            self._on_report(asked, answer)
        return answer if isinstance(answer, bytes) else messages.codec.encode(answer)

    def _note_fence(self) -> None:
        self.fenced += 1

    def _note_error(self, execution_id: str, error: Exception) -> None:
        self.set_aside += 1

    async def _tick(self) -> None:
        while True:
            self.orchestrator.timer.set(self.clock.now())
            await asyncio.sleep(SWEEP)

    @staticmethod
    async def _tend(work: Callable[[], Any]) -> None:
        while True:
            try:
                await work()
            except Exception:
                await asyncio.sleep(SWEEP)


class Wire:
    """The HTTP client of a worker."""

    def __init__(self, process: Process, network: Network) -> None:
        self._process = process
        self._network = network
        self.server_ids: dict[str, str] = {}
        self.is_old = False
        """Whether the servers have a newer version of the protocol by now."""

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        if self.is_old and path == messages.PATHS[messages.ClaimRequest]:
            claim = messages.codec.decode(body, messages.ClaimRequest)
            older = replace(claim, protocol=messages.PROTOCOL - 1)
            body = messages.codec.encode(older)
        answer: bytes = await self._network.call(
            self._process,
            server,
            lambda host, is_gone: host.handle(path, body, is_gone),
            seconds=seconds,
        )
        return answer

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        raise NotImplementedError("values outside of the log are not simulated")

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        raise NotImplementedError("values outside of the log are not simulated")


class Worker:
    """One worker process: connection, dispatcher, executor, and a scripted tool."""

    def __init__(
        self,
        process: Process,
        loop: SimLoop,
        network: Network,
        servers: Sequence[str],
        blobs: Blobs,
        ledger: Ledger,
        slots: int,
    ) -> None:
        self.process = process
        self.name = process.name
        self.wire = Wire(process, network)
        dispatcher = RemoteDispatcher(
            ServerConnection(
                self.wire,
                servers,
                worker=process.name,
                pool=POOL,
                monotonic=loop.time,
                sleep=asyncio.sleep,
            ),
            parse,
            Plain(),
            blobs,
            slots=slots,
        )
        dispatcher.turns.use(loop.time, loop.time)
        tools = {"http": EffectTool(ledger, process), "noop": NoopTool()}
        clock = ServerClock(loop, 0.0)
        self.executor = Executor(
            dispatcher, tools, clock, owner=process.name, slots=slots
        )
        process.spawn(self._serve())

    async def _serve(self) -> None:
        while True:
            try:
                await self.executor.serve()
            except Exception:  # the process manager starts it again
                await asyncio.sleep(1.0)


__all__ = ["EPOCH", "Server", "ServerClock", "Texts", "Worker", "parse"]
