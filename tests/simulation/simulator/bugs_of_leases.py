"""Planted bugs of leases, and of workers that hold them."""

from __future__ import annotations

from typing import Any

from noetl.adapters.stores.memory import commands as memory_commands
from noetl.runtime.executions import (
    placement,
    sweep,
)
from noetl.runtime.worker import (
    executor,
    lease_ages,
    remote_dispatcher,
)

from .patching import Patch
from .planting import bug

LONG = ("chain", "deadline", "keyed", "sequential")
"""Playbooks with calls that may outlast a lease."""


@bug("lease without epoch", "The store accepts reports under an earlier epoch.")
def _(patch: Patch) -> None:
    def is_held(self: Any, lease: Any) -> bool:
        return lease.command_id in self._by_id

    patch.set(memory_commands.Commands, "is_held", is_held)


@bug(
    "epoch starts again",
    "An expired lease gives its epoch back, and the next owner gets the same one.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def make_ready(self: Any, row: Any) -> None:
            row.epoch = max(0, row.epoch - 1)
            real(self, row)

        return make_ready

    patch.wrap(memory_commands.Commands, "_make_ready", make)


@bug("sweep of a live lease", "The sweep takes leases before they have expired.")
def _(patch: Patch) -> None:
    patch.set(memory_commands, "GRACE", -1.2)


@bug("no sweep of leases", "Expired leases are never offered again.", held_back=True)
def _(patch: Patch) -> None:
    patch.set(memory_commands.Commands, "expire", lambda self, now: None)


@bug("sweep by a wrong clock", "The sweep asks the store with a time in the future.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def call(self: Any) -> None:
            before = self._clock

            class Fast:
                @staticmethod
                def now() -> float:
                    return float(before.now()) + 4.0

            self._clock = Fast()
            try:
                await real(self)
            finally:
                self._clock = before

        return call

    patch.wrap(sweep.Sweep, "__call__", make)


@bug(
    "no self-fence",
    "A worker whose leases are in danger goes on with its tools.",
    kinds=("partition",),
    paths=LONG,
)
def _(patch: Patch) -> None:
    patch.set(lease_ages.LeaseAges, "in_danger", lambda self, leases: False)


@bug(
    "lease as old as its answer",
    "A worker counts the time of a lease from the answer that it reads.",
    kinds=("freeze worker",),
    paths=("slow",),
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def note(self: Any, message: Any, answer: Any, sent: float) -> None:
            real(self, message, answer, self._monotonic())

        return note

    patch.wrap(lease_ages.LeaseAges, "note", make)


@bug(
    "reports taken for renewals",
    "Whatever a server answers, a worker takes its leases for renewed.",
    kinds=("flaky store",),
    paths=("chain", "parallel", "slots"),
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def note(self: Any, message: Any, answer: Any, sent: float) -> None:
            real(self, message, answer, sent)
            self._begin(list(self._since), sent)

        return note

    patch.wrap(lease_ages.LeaseAges, "note", make)


@bug(
    "later lease stopped",
    "A lost lease stops the tool of its command's next lease.",
    kinds=("freeze worker",),
    paths=LONG,
)
def _(patch: Patch) -> None:
    def lose(self: Any, lost: Any) -> None:
        self._lost.update(lost)
        self.revoke([lease.command_id for lease in lost])

    patch.set(executor.Executor, "_lose", lose)


@bug(
    "lost leases ignored",
    "A worker does not stop what it was told that it lost.",
    kinds=("partition",),
    paths=LONG,
)
def _(patch: Patch) -> None:
    patch.set(executor.Executor, "_lose", lambda self, lost: None)


@bug(
    "first renewal too late",
    "A worker renews by the default lease time until its first renewal.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def beat(self: Any) -> None:
            await self.clock.sleep(10.0)
            await real(self)

        return beat

    patch.wrap(executor.Executor, "_beat", make)


@bug(
    "work accepted twice",
    "A worker runs work that two answers contain twice.",
    kinds=("drop wakeups",),
    paths=("parallel", "slots", "cycle", "nested"),
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def accept_work(self: Any, message: Any) -> Any:
            self._seen.clear()
            return await real(self, message)

        return accept_work

    async def take_all(self: Any, works: Any) -> Any:
        return works

    patch.wrap(remote_dispatcher.RemoteDispatcher, "_accept", make)
    patch.set(executor.Executor, "_sort_out", take_all)


@bug(
    "poison has no end",
    "A command that kills its workers is offered for ever.",
    held_back=True,
)
def _(patch: Patch) -> None:
    patch.set(placement, "MAX_LOST_WORKERS", None)


@bug("release of another's lease", "A worker that leaves ends leases it has lost.")
def _(patch: Patch) -> None:
    def renew(self: Any, given: Any, expires_at: float) -> list[Any]:
        for lease in given:
            row = self._leased.get(lease.command_id)
            if row is not None:
                row.expires_at = expires_at
        return []

    patch.set(memory_commands.Commands, "renew", renew)
