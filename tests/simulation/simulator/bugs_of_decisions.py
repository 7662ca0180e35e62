"""Planted bugs of timers, children, tokens, loops, limits and requests."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.adapters.stores import rules
from noetl.adapters.stores.memory import commands as memory_commands
from noetl.adapters.stores.memory import slots as memory_slots
from noetl.engine import decide as decisions
from noetl.engine.steps import admission, loops
from noetl.runtime.executions import (
    children,
    loaded,
    snapshots,
    start,
    sweep,
    transition,
)
from noetl.runtime.worker_protocol import leases

from .patching import Patch
from .planting import bug


@bug(
    "timer disarmed too early",
    "A timer is disarmed before it is served.",
    kinds=("flaky store", "crash server"),
    paths=("deadline", "keyed", "recaller"),
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def serve(self: Any, timer: Any) -> None:
            await self._store.disarm(timer)
            await real(self, timer)

        return serve

    patch.wrap(sweep.Sweep, "_serve", make)


@bug(
    "retry too early",
    "A delayed command is due at once.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def schedule(self: Any, row: Any, not_before: float) -> None:
            real(self, row, 0.0 if not_before < 2e9 else not_before)

        return schedule

    patch.wrap(memory_commands.Commands, "_schedule", make)


@bug(
    "child of another server",
    "A timer of a child that this server does not know is "
    "served without a look at the child.",
    kinds=("outage", "crash server"),
    paths=("callers", "caller", "recaller"),
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def check(self: Any, execution_id: str, timer_id: str) -> None:
            live = self._cache.get(execution_id)
            what, _, command_id = timer_id.partition(":")
            is_call = live is not None and what == "child"
            if is_call and command_id not in live.children.values():
                return
            await real(self, execution_id, timer_id)

        return check

    patch.wrap(children.ChildExecutions, "check", make)


@bug(
    "no timer for relatives",
    "A child that has ended leaves no timer with its caller.",
    held_back=True,
    kinds=("outage", "crash server"),
    paths=("callers", "caller"),
)
def _(patch: Patch) -> None:
    patch.set(transition, "relative_timers", lambda *given: ([], []))


@bug("wait without a memory", "A pipeline that waits is never due.")
def _(patch: Patch) -> None:
    patch.set(memory_commands.Commands, "_make_due", lambda self, now: None)


@bug(
    "join counted twice",
    "A join takes the tokens of its round, and leaves them for the next one.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def complete(batch: Any, step: Any, join: Any, arrived: int, missing: Any) -> bool:
        return arrived >= 2

    patch.set(admission, "_is_complete", complete)


@bug("cursor skipped", "A loop begins with the iteration after the next one.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def begin(batch: Any, run: Any, level: Any, path: Any, *more: Any) -> None:
            if path[-1] == 1:
                path = (*path[:-1], 2)
            real(batch, run, level, path, *more)

        return begin

    patch.wrap(loops, "_start", make)


@bug(
    "max_in_flight in memory",
    "Open iterations are counted by the server that began them.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def may_start(batch: Any, step: Any, level: Any, loop: Any) -> bool:
            begun = sum(e.name == "loop.iteration.started" for e in batch.events)
            full = begun >= (level.max_in_flight or 1)
            if loop.next < loop.total and batch.state.status == "running":
                return not full and batch.state.cancelling is None
            return bool(real(batch, step, level, loop))

        return may_start

    patch.wrap(loops, "_may_start", make)


@bug("concurrency key in memory", "The store does not look who holds a key.")
def _(patch: Patch) -> None:
    patch.set(memory_slots, "is_slot_free", lambda transition, front: True)


@bug(
    "slots of calls not counted",
    "A call takes a slot of its key although another call has it.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def answer(limits: Any, lines: Any, taken: Any, now: float) -> Any:
            return real(limits, lines, {}, now)

        return answer

    patch.wrap(memory_commands, "answer", make)


@bug("rates not kept", "A call of a rate is permitted whatever was permitted before.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def answer(limits: Any, lines: Any, taken: Any, now: float) -> Any:
            return real([x for x in limits if not x.interval], lines, taken, now)

        return answer

    patch.wrap(memory_commands, "answer", make)


@bug(
    "cancel not looked at by claims",
    "Commands of executions that are paused or set aside are leased.",
    held_back=True,
)
def _(patch: Patch) -> None:
    every = frozenset({*rules.OPEN, "paused", "quarantined", "cancelled"})
    patch.set(memory_commands, "OPEN", every)


@bug("cancel not looked at by starts", "A tool is begun in a cancelled execution.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def record(batch: Any, command: Any, facts: Any) -> bool:
            reason, batch.state.cancelling = batch.state.cancelling, None
            try:
                return bool(real(batch, command, facts))
            finally:
                batch.state.cancelling = reason

        return record

    patch.wrap(decisions, "record", make)


@bug(
    "work granted while paused",
    "A report gets the next pipeline although the execution is paused.",
    kinds=("pause",),
    paths=("chain", "cycle", "nested", "parallel"),
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def settle(batch: Any) -> None:
            before = batch.state.status
            if before == "paused":
                batch.state.status = "running"
            try:
                real(batch)
            finally:
                if before == "paused" and batch.state.status == "running":
                    batch.state.status = before

        return settle

    patch.wrap(decisions, "settle", make)


@bug("request key ignored", "A repeated request starts a second execution.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def begin(self: Any, playbook: Any, request: Any) -> Any:
            request = msgspec.structs.replace(request, request_key=None)
            return await real(self, playbook, request)

        return begin

    patch.wrap(start.ExecutionStarter, "start", make)


@bug(
    "snapshot one event late",
    "A snapshot says that it holds one event more than it does.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def freeze(state: Any) -> bytes:
            late = loaded.thaw(real(state))
            late.seq -= 1
            return bytes(real(late))

        return freeze

    patch.wrap(snapshots, "freeze", make)


@bug("leases of ended commands kept", "A command that has ended can be leased again.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def change(self: Any, execution: int, family: int, given: Any) -> None:
            commands = msgspec.structs.replace(given.commands, ended=())
            real(
                self,
                execution,
                family,
                msgspec.structs.replace(given, commands=commands),
            )

        return change

    patch.wrap(memory_commands.Commands, "change", make)


@bug(
    "stranger's lease accepted",
    "The gateway accepts a lease although another worker holds it.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def find(self: Any, command_id: str, epoch: int, owner: str) -> Any:
            return self._by_command.get(command_id)

        return find

    patch.wrap(leases.KnownLeases, "find", make)
