"""Clients of a simulation: they start executions, answer them, cancel and pause them.

Every request goes through the network to a random server, and is repeated with the
same key until a server has answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from noetl.access.initiator import Initiator
from noetl.errors import NoetlError, Refused, StoreError, Unreachable
from noetl.runtime.forks.plan import Edits
from noetl.service.errors import RequestRefused
from noetl.service.executions.control import ExecutionControl
from noetl.service.executions.forks import ForkService
from noetl.service.executions.path_limits import PathLimits
from noetl.service.executions.start import (
    ExecutionStarter,
    ResolvedPlaybook,
    StartInputs,
)

from .plan import Fault
from .playbooks import Job

if TYPE_CHECKING:
    from .hosts import Server
    from .world import World

CALL_S = 3.0
OVER = ("completed", "failed", "cancelled")


class Client:
    """``started`` are the accepted executions in their order, ``answers`` the ids that
    each job was answered with."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = world.loop
        self._ids = 0
        self.started: list[str] = []
        self.answers: dict[int, set[str]] = {}
        self.jobs_of: dict[str, Job] = {}
        self.cancelled: set[str] = set()
        self.cancel_wanted: set[str] = set()
        self.paused: set[str] = set()
        self.open_jobs = len(world.jobs)

    def begin(self) -> None:
        for job in self._world.jobs:
            self._loop.world.spawn(self._start(job))
            if job.is_repeated:
                self._loop.world.spawn(self._start(job, again=True))

    # -- requests ------------------------------------------------------------------

    async def call(self, act: Callable[[Server], Awaitable[Any]]) -> Any:
        """Call any server. Raises ``Unreachable`` or ``Refused``."""

        async def work(host: Server, is_gone: Callable[[], bool]) -> Any:
            try:
                return await act(host)
            except RequestRefused as error:
                raise Refused(error.kind, error.message) from None
            except StoreError as error:
                raise Unreachable(str(error)) from None
            except NoetlError as error:
                raise Refused("error", str(error)) from None

        world = self._world
        address = world.any_server()
        return await world.network.call(self._loop.world, address, work, seconds=CALL_S)

    async def _start(self, job: Job, *, again: bool = False) -> None:
        await asyncio.sleep(job.at)
        while True:
            try:
                name = await self.call(lambda host: self._accept(host, job))
                break
            except (Unreachable, Refused):
                await asyncio.sleep(0.3)
        self.answers.setdefault(job.number, set()).add(name)
        for look in self._world.on_start:
            look(name)
        if name not in self.jobs_of:
            self.jobs_of[name] = job
            self.started.append(name)
        if not again:
            self.open_jobs -= 1

    async def _accept(self, host: Server, job: Job) -> str:
        entry = await self._world.catalog.find(job.path, None)
        assert entry is not None
        starter = ExecutionStarter(
            host.orchestrator,
            self._world.blobs,
            None,  # type: ignore[arg-type]  # the playbook is resolved already
            self._new_id,
        )
        asked = StartInputs(path=job.path, workload=job.workload)
        found = await starter.start(
            asked, ResolvedPlaybook(entry), "client", None, job.key
        )
        return found.execution_id

    def _new_id(self) -> str:
        self._ids += 1
        mark = self._world.random.getrandbits(12)
        text = f"{1_790_000_000_000 + self._ids:012x}7{mark:03x}8{self._ids:015x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    # -- orders --------------------------------------------------------------------

    def control(self, kind: str, fault: Fault) -> None:
        """Cancel or pause one of the executions of the plan, or resume it: rather one
        that is set aside, and until that is possible."""
        known = self.started
        if kind == "resume":
            rows = self._world.database.memory._executions
            aside = [name for name in known if rows[name].status == "quarantined"]
            known = aside or known
        if known:
            name = known[fault.victim % len(known)]
            self._loop.world.spawn(self._order(kind, name))

    async def _order(self, kind: str, name: str) -> None:
        if kind == "cancel":
            self.cancel_wanted.add(name)
        for _ in range(12 if kind == "resume" else 4):
            try:
                status = await self.call(
                    lambda host: getattr(ExecutionControl(host.orchestrator), kind)(
                        name
                    )
                )
                if kind == "cancel" and status == "cancelled":
                    self.cancelled.add(name)
                return
            except Refused:
                if kind != "resume":
                    return
                await asyncio.sleep(0.3)
            except Unreachable:
                await asyncio.sleep(0.2)

    def fork(self, kind: str, fault: Fault) -> None:
        """Fork an execution at any event, or retry its failed steps or its first one;
        once, since a fork has no key."""
        if self.started:
            name = self.started[fault.victim % len(self.started)]
            self._loop.world.spawn(self._fork(kind, name, fault))

    async def _fork(self, kind: str, name: str, fault: Fault) -> None:
        number, step = fault.victim, None
        if kind == "retry":
            await asyncio.sleep(fault.seconds)  # it may have ended by then
            step = "start" if number % 3 else None

        async def act(host: Server) -> None:
            store = host.orchestrator.store
            service = ForkService(
                host.orchestrator,
                store,  # type: ignore[arg-type]  # it has all that a fork reads
                self._world.catalog,  # type: ignore[arg-type]
                self._new_id,
                PathLimits((), store, host.orchestrator.clock),
            )
            summary = await store.summary(name)
            last = await store.length(name)
            at = None if kind == "retry" else 1 + number % last
            plan = await service.plan(
                summary, Edits({}, {}), newer=None, at=at, step=step
            )
            await service.begin(plan, None, Initiator("client"))
            self._world.count(f"begun {kind}")

        with suppress(Refused, Unreachable):
            await self.call(act)

    async def heal(self) -> None:
        """From now on look after all executions, until they have ended."""
        self._loop.world.spawn(self._tend())

    async def _tend(self) -> None:
        """Resume what is paused or set aside, and answer what waits for a signal."""
        while True:
            for name in self.unfinished():
                await self._look_after(name)
            await asyncio.sleep(1.0)

    def unfinished(self) -> list[str]:
        """Return the executions of the store, also children, that have not ended."""
        memory = self._world.database.memory
        return [
            name for name, each in memory._executions.items() if each.status not in OVER
        ]

    async def _look_after(self, name: str) -> None:
        status = self._world.database.memory._executions[name].status
        try:
            if status in ("paused", "quarantined"):
                await self.call(
                    lambda host: ExecutionControl(host.orchestrator).resume(name)
                )
            elif status == "waiting":
                await self.call(
                    lambda host: ExecutionControl(host.orchestrator).signal(
                        name, "go", {"n": 4}
                    )
                )
        except (Unreachable, Refused):
            return
