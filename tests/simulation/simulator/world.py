"""A whole simulation: servers, workers, clients and faults, made from a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from memory_blobs import MemoryBlobs

from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.engine.events import Event
from noetl.ports import Snapshot
from noetl.runtime.worker_protocol import messages

from .clients import Client
from .hosts import Server, ServerClock, Texts, Worker
from .ledger import Ledger
from .loop import Process, SimLoop
from .network import Network
from .plan import FAULTY_UNTIL, HEALED_BY, Fault, Options, make_plan
from .playbooks import TEXTS, USUAL, make_jobs
from .store import Database

RESTART_S = 1.0
"""The longest time until a process that died is started again."""
PATIENCE_S = 60.0
"""Virtual seconds after the last fault in which every execution must end (I-45)."""


class World:
    """Everything of one run. ``run`` returns whether all of its work has ended."""

    def __init__(self, options: Options) -> None:
        seed = str(options.seed)
        self.options = options
        self.plan = plan = make_plan(options)
        self.loop = loop = SimLoop(seed)
        self.random = random.Random(f"{seed}:world")
        self.database = Database(loop, seed, plan.rates)
        self.network = Network(loop, seed, plan.rates)
        self.blobs = MemoryBlobs()
        self.sealed = MemorySealed()
        self.catalog = Texts(self.blobs, TEXTS)
        self.ledger = Ledger(loop)
        self.happened: dict[str, int] = {}
        self.healed = False
        self.addresses = [f"server-{n}" for n in range(plan.servers)]
        self.servers: dict[str, Server] = {}
        self.workers: dict[int, Worker] = {}
        self.reports: list[
            Callable[[messages.ReportBatch, messages.ReportBatchReply], None]
        ] = []
        self.shown: list[Callable[[Sequence[Event]], None]] = []
        self.on_start: list[Callable[[str], None]] = []
        self._incarnations = 0
        self._quiet_bus_until = 0.0
        self._clocks: dict[str, ServerClock] = {}
        poison = any(each.kind == "killer" for each in plan.faults)
        self.jobs = make_jobs(
            seed,
            options.executions,
            options.paths or USUAL,
            poison=poison,
            more=options.has_more and not (options.kinds or options.paths),
        )
        self.client = Client(self)

    def count(self, what: str, times: int = 1) -> None:
        if times:
            self.happened[what] = self.happened.get(what, 0) + times

    # -- the run -------------------------------------------------------------------

    def run(self, is_over: Callable[[], bool]) -> bool:
        """Run until all work has ended and the faults are over, or time is up."""
        for address in self.addresses:
            self._clocks[address] = ServerClock(self.loop, self._draw_skew())
            self._start_server(address)
        for number in range(self.plan.workers):
            self._start_worker(number)
        self.loop.world.spawn(self._suffer())
        self.client.begin()
        try:
            return self.loop.run(is_over, HEALED_BY + PATIENCE_S)
        finally:
            for server in self.servers.values():
                self.count("fence", server.fenced)
                self.count("quarantine", server.set_aside)
            for happened in (self.database.happened, self.network.happened):
                for what, times in happened.items():
                    self.count(what, times)

    def close(self) -> None:
        self.loop.close()

    # -- processes -----------------------------------------------------------------

    def _start_server(self, address: str) -> None:
        self._incarnations += 1
        process = self.loop.process(f"{address}.{self._incarnations}")
        process.on_death = lambda: self._server_died(address)
        process.context.run(self._make_server, process, address)

    def _make_server(self, process: Process, address: str) -> None:
        self.servers[address] = self.network.hosts[address] = Server(
            process,
            address,
            self.database,
            self.blobs,
            self.catalog,
            self.sealed,
            self._clocks[address],
            lambda: self._ring(address),
            self._note_report,
            self._note_events,
        )

    def _server_died(self, address: str) -> None:
        server = self.servers[address]
        self.count("fence", server.fenced)
        self.count("quarantine", server.set_aside)
        server.fenced = server.set_aside = 0
        self.count("server crash")
        self.network.reset(address)
        self._later(lambda: self._start_server(address))

    def _start_worker(self, number: int) -> None:
        self._incarnations += 1
        process = self.loop.process(f"worker-{number}.{self._incarnations}")
        process.on_death = lambda: self._worker_died(number)
        process.context.run(self._make_worker, process, number)

    def _make_worker(self, process: Process, number: int) -> None:
        self.workers[number] = Worker(
            process,
            self.loop,
            self.network,
            self.addresses,
            self.blobs,
            self.ledger,
            self.plan.slots,
        )

    def _worker_died(self, number: int) -> None:
        self.count("worker crash")
        self._later(lambda: self._start_worker(number))

    def _later(self, act: Callable[[], None]) -> None:
        seconds = self.random.random() * RESTART_S
        self.loop.call_later(seconds, act, context=self.loop.world.context)

    def _draw_skew(self) -> float:
        return (self.random.random() * 2 - 1) * self.plan.rates.skew

    # -- between processes ---------------------------------------------------------

    def _ring(self, sender: str) -> None:
        """Carry a wake-up to the other servers: late, twice, or not at all."""
        for address in self.addresses:
            if address == sender:
                continue
            draw = self.random.random
            is_lost = draw() < self.plan.rates.wakeup_lost
            if is_lost or self.loop.time() < self._quiet_bus_until:
                self.count("wake-up lost")
                self.database.unrung.add(address)
                continue
            self.database.unrung.discard(address)
            times = 2 if draw() < 0.1 else 1
            for _ in range(times):
                self._ring_at(address, draw() * 0.02)

    def _ring_at(self, address: str, after: float) -> None:
        server = self.servers[address]
        notify = server.orchestrator.wakeup.notify
        self.loop.call_later(after, notify, context=server.process.context)

    def _note_report(
        self, asked: messages.ReportBatch, answer: messages.ReportBatchReply
    ) -> None:
        for reply in answer.replies:
            self.count("duplicate report", reply.duplicate)
        for look in self.reports:
            look(asked, answer)

    def _note_events(self, events: Sequence[Event]) -> None:
        for look in self.shown:
            look(events)

    def any_server(self) -> str:
        return self.random.choice(self.addresses)

    # -- faults --------------------------------------------------------------------

    async def _suffer(self) -> None:
        """Bring the faults about, in their order, then heal everything."""
        for fault in self.plan.faults:
            await asyncio.sleep(max(0.0, fault.at - self.loop.time()))
            self.count(fault.kind)
            self._strike(fault)
        await asyncio.sleep(max(0.0, FAULTY_UNTIL - self.loop.time()))
        rates = self.plan.rates
        for name in vars(rates):
            setattr(rates, name, 0.0)
        for clock in self._clocks.values():
            clock.skew = 0.0
        await self.client.heal()
        self.healed = True

    def _strike(self, fault: Fault) -> None:
        kind, database = fault.kind, self.database
        until = self.loop.time() + fault.seconds
        if kind.endswith(" server"):
            server = self.servers[self.addresses[fault.victim % len(self.addresses)]]
            self._hit(server.process, fault)
        elif kind.endswith(" worker"):
            worker = self.workers[fault.victim % len(self.workers)]
            self._hit(worker.process, fault)
        elif kind == "partition":
            self._cut(fault, until)
        elif kind in ("outage", "disk full"):
            kinds = ("store.unreachable", "store.busy", "store.io")
            is_full = kind == "disk full"
            database.outage = "store.full" if is_full else kinds[fault.victim % 3]
            database.outage_until = until
        elif kind == "flaky store":
            database.flaky_until = until
        elif kind == "damage":
            self._damage(fault)
        elif kind == "clock":
            clocks = list(self._clocks.values())
            clocks[fault.victim % len(clocks)].skew = self._draw_skew()
        elif kind == "drop wakeups":
            self._quiet_bus_until = until
        elif kind == "wrong snapshot":
            self._change_snapshot(fault)
        elif kind == "upgrade":
            self._upgrade(fault)
        elif kind in ("fork", "retry"):
            self.client.fork(kind, fault)
        elif kind in ("cancel", "pause", "resume"):
            self.client.control(kind, fault)

    def _hit(self, process: Process, fault: Fault) -> None:
        if not process.alive:
            return
        if fault.kind.startswith("crash"):
            process.fuse = fault.fuse
            return
        process.freeze(fault.seconds)

    def _cut(self, fault: Fault, until: float) -> None:
        worker = self.workers[fault.victim % len(self.workers)]
        server = self.addresses[fault.victim // 7 % len(self.addresses)]
        to = "*" if fault.victim % 3 else server
        self.network.cut[worker.name, to] = until

    def _change_snapshot(self, fault: Fault) -> None:
        """Change a byte of a snapshot: it must not be believed."""
        for each in self.database.memory._executions.values():
            if each.snapshot is not None:
                body = bytearray(each.snapshot.body)
                body[fault.victim * 7919 % len(body)] ^= 1 << fault.fuse % 7
                each.snapshot = Snapshot(each.snapshot.seq, bytes(body))
                self.count("changed snapshot")

    def _upgrade(self, fault: Fault) -> None:
        """Restart the servers one after another, then the workers: until then these
        speak an older version of the protocol, and get no work."""
        for worker in self.workers.values():
            worker.wire.is_old = True
        for number in range(len(self.addresses) + len(self.workers)):
            at = number * 0.4 + fault.seconds * (number >= len(self.addresses))
            context = self.loop.world.context
            self.loop.call_later(at, self._replace, number, context=context)

    def _replace(self, number: int) -> None:
        servers = len(self.addresses)
        if number < servers:
            self.servers[self.addresses[number]].process.kill()
        else:
            self.workers[number - servers].process.kill()

    def _damage(self, fault: Fault) -> None:
        known = self.client.started
        if not known:
            return
        name = known[fault.victim % len(known)]
        self.database.damaged.add(name)
        for server in self.servers.values():
            if fault.fuse % 2:
                server.orchestrator.cache.drop(name)
        self.loop.call_later(
            fault.seconds,
            self.database.damaged.discard,
            name,
            context=self.loop.world.context,
        )
