"""Planted bugs: mutants of the protocol, put into the production code for a run.

A test proves that the simulation notices each of them. Those with ``held_back`` were
written before the checks were last extended, and were not looked at for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from noetl.adapters.stores import rules
from noetl.adapters.stores.memory import commands as memory_commands
from noetl.adapters.stores.memory import store as memory_store
from noetl.engine import decide as decisions
from noetl.engine.reports import accept
from noetl.engine.steps import admission, loops
from noetl.errors import LogConflict, StoreError
from noetl.runtime.executions import (
    after_commit,
    assignment,
    children,
    inbox,
    loaded,
    placement,
    start,
    sweep,
    transition,
)
from noetl.runtime.worker import (
    executor,
    remote_dispatcher,
    server_connection,
    tool_call,
)
from noetl.runtime.worker_protocol import leases, long_poll, reports

from .patching import Patch

Plant = Callable[[Patch], None]


@dataclass(frozen=True)
class Bug:
    """A planted bug: its name, what it does wrong, and how it is planted."""

    name: str
    sentence: str
    plant: Plant
    held_back: bool
    first: int = 0
    within: int = 150
    """Seeds of the test: the first, and how many. Those of a rare one begin near a seed
    that is known to show it."""


BUGS: list[Bug] = []


def bug(
    name: str,
    sentence: str,
    *,
    held_back: bool = False,
    first: int = 0,
    within: int = 150,
) -> Callable[[Plant], Plant]:
    def note(plant: Plant) -> Plant:
        BUGS.append(Bug(name, sentence, plant, held_back, first, within))
        return plant

    return note


# -- leases -------------------------------------------------------------------------


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
    held_back=True,
)
def _(patch: Patch) -> None:
    never = property(lambda self: False)
    patch.set(server_connection.ServerConnection, "in_danger", never)


@bug("later lease stopped", "A lost lease stops the tool of its command's next lease.")
def _(patch: Patch) -> None:
    def lose(self: Any, lost: Any) -> None:
        self._lost.update(lost)
        self.revoke([lease.command_id for lease in lost])

    patch.set(executor.Executor, "_lose", lose)


@bug("lost leases ignored", "A worker does not stop what it was told that it lost.")
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
    "old leases given again",
    "A repeated claim gets leases of the lost answer without a renewal.",
)
def _(patch: Patch) -> None:
    async def lost(self: Any, asked: Any) -> Any:
        if not asked.is_retry:
            return []
        given = await self._orchestrator.store.held(asked.worker)
        left = [x for x in given if x.command_id not in asked.held_commands]
        return await self._orchestrator.assignment.work_for(left[: asked.slots], {})

    patch.set(long_poll.LongPoll, "_lost", lost)


@bug("work accepted twice", "A worker runs work that two answers contain twice.")
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


# -- reports ------------------------------------------------------------------------


@bug(
    "report accepted twice",
    "The outcome of a task that has ended is recorded again, and so is its next one.",
)
def _(patch: Patch) -> None:
    patch.set(accept, "_check", lambda progress, fact: None)
    patch.wrap(
        reports.WorkerReports,
        "_report",
        lambda real: (
            lambda self, lease, reported, each, wants: real(self, lease, 0, each, wants)
        ),
    )


@bug(
    "answer before commit",
    "A server answers a report, and stores it afterwards.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def commit(self: Any, *given: Any) -> None:
            store = self._store

            class Hasty:
                shared = True

                def __getattr__(self, name: str) -> Any:
                    return getattr(store, name)

                async def commit(self, transitions: Any) -> None:
                    task = asyncio.ensure_future(store.commit(transitions))
                    task.add_done_callback(lambda done: done.exception())

            self._store = Hasty()
            try:
                await real(self, *given)
            finally:
                self._store = store

        return commit

    patch.wrap(inbox.ExecutionInbox, "_commit_batch", make)


@bug("stop without a commit", "A worker is sent away on a state that may be outdated.")
def _(patch: Patch) -> None:
    patch.set(inbox, "_changes_store", lambda item: item.disarm is not None)


@bug("failed commit taken for stored", "An error of a commit is swallowed.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def commit(self: Any, *given: Any) -> None:
            try:
                await real(self, *given)
            except LogConflict:
                raise
            except StoreError as error:
                if error.kind not in ("store.unreachable", "store.busy", "store.io"):
                    raise
                for item in given[2]:
                    inbox._reply(item)

        return commit

    patch.wrap(inbox.ExecutionInbox, "_commit_batch", make)


@bug(
    "decision on an unrestored state",
    "After a refused commit the inbox decides on the state that was not stored.",
    held_back=True,
)
def _(patch: Patch) -> None:
    async def restore(self: Any, execution_id: str, live: Any, error: Any) -> None:
        try:
            live.state = await loaded.fold(self._store, execution_id)
        except Exception:
            self._cache.drop(execution_id)

    patch.set(inbox.ExecutionInbox, "_restore", restore)


@bug("cache without position", "A commit is accepted at any position of the log.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def refuse(transitions: Any, position: Any, *more: Any) -> None:
            ends = {x.execution_id: x.log.after for x in transitions}
            real(transitions, lambda name: ends[name], *more)

        return refuse

    patch.wrap(memory_store, "refuse_stale", make)


@bug(
    "seen before the commit",
    "Watchers are shown events before they are stored.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        async def commit(self: Any, *given: Any) -> None:
            store = self._store
            reactions = self._after_commit._reactions
            [watchers] = [
                each.react
                for each in reactions
                if isinstance(each.react, after_commit.NotifyWatchers)
            ]

            class Early:
                shared = True

                def __getattr__(self, name: str) -> Any:
                    return getattr(store, name)

                async def commit(self, transitions: Any) -> None:
                    for each in transitions:
                        if each.log.events:
                            for watcher in watchers._watchers:
                                watcher(each.log.events)
                    await store.commit(transitions)

            self._store = Early()
            try:
                await real(self, *given)
            finally:
                self._store = store

        return commit

    patch.wrap(inbox.ExecutionInbox, "_commit_batch", make)


@bug("effect before its record", "A tool is called before its start is recorded.")
def _(patch: Patch) -> None:
    patch.set(tool_call.Invocation, "has_effect", property(lambda self: False))


@bug(
    "attempts counted by the worker",
    "A worker begins to count attempts at one when it takes a pipeline.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def item(*given: Any, **named: Any) -> Any:
            work = real(*given, **named)
            work.progress.attempt = 1
            return work

        return item

    patch.wrap(assignment, "make_work_item", make)


@bug("doubt is not recorded", "A second owner begins an attempt as if it were new.")
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def emit(batch: Any, command: Any, name: str, payload: Any) -> None:
            if name == "task.started":
                command.progress.started = False
            real(batch, command, name, payload)

        return emit

    patch.wrap(accept, "_emit_task", make)


# -- timers, waits, children ---------------------------------------------------------


@bug("timer disarmed too early", "A timer is disarmed before it is served.")
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
)
def _(patch: Patch) -> None:
    patch.set(transition, "relative_timers", lambda *given: ([], []))


@bug("wait without a memory", "A pipeline that waits is never due.")
def _(patch: Patch) -> None:
    patch.set(memory_commands.Commands, "_make_due", lambda self, now: None)


# -- tokens, loops, capacity ---------------------------------------------------------


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
    patch.set(memory_store, "is_slot_free", lambda transition, front: True)


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


# -- control, requests, snapshots ----------------------------------------------------


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
    held_back=True,
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

    patch.wrap(transition, "freeze", make)


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
    "The gateway takes the lease of whoever names it for that of the caller.",
    held_back=True,
)
def _(patch: Patch) -> None:
    def make(real: Any) -> Any:
        def find(self: Any, command_id: str, epoch: int, owner: str) -> Any:
            return self._by_command.get(command_id)

        return find

    patch.wrap(leases.KnownLeases, "find", make)
