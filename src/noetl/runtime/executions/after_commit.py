"""The reactions to a commit, in their order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

import msgspec

from noetl.engine.effects import Effects
from noetl.engine.events import Event
from noetl.engine.times import NEVER
from noetl.ports import Lease
from noetl.runtime.dispatcher import Wakeup, WakeupBus
from noetl.runtime.event_loop import DueTimer
from noetl.runtime.executions.cache import ExecutionCache
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.placement import Placement
from noetl.runtime.worker_protocol.idle_workers import IdleWorkers
from noetl.runtime.worker_protocol.leases import KnownLeases

log = logging.getLogger("noetl.executions")


class Commit(msgspec.Struct):
    """A stored batch of one execution: events, their effects, and granted leases.

    ``reported`` are the commands whose workers reported in this batch.
    """

    loaded: LoadedExecution
    events: Sequence[Event]
    effects: Effects
    granted: Sequence[Lease]
    reported: Container[str] = ()


class Reaction(NamedTuple):
    """A reaction, and the commits that it is for: all, if ``applies`` is None."""

    react: Callable[[Commit], None]
    applies: Callable[[Commit], bool] | None = None


Watcher = Callable[[Sequence[Event]], None]


class AfterCommit:
    """Calls the reactions with each commit. Nothing outside of the process may learn of
    events before they are stored."""

    def __init__(self, reactions: Sequence[Reaction]) -> None:
        self._reactions = reactions

    def __call__(self, commit: Commit) -> None:
        for react, applies in self._reactions:
            if applies is None or applies(commit):
                react(commit)


def concerns_relatives(commit: Commit) -> bool:
    """Return whether a child or the caller of the execution must learn of it."""
    loaded, state = commit.loaded, commit.loaded.state
    if commit.effects.children or loaded.children:
        return True
    return state.finished or state.cancelling is not None


def has_concurrency_key(commit: Commit) -> bool:
    return commit.loaded.state.concurrency is not None


class RememberLeases:
    """Remembers granted leases: their reports need no look into the store first."""

    def __init__(self, known: KnownLeases, placement: Placement) -> None:
        self._known = known
        self._placement = placement

    def __call__(self, commit: Commit) -> None:
        for lease in commit.granted:
            self.note(commit.loaded, lease)
        self._known.end(commit.effects.over)

    def note(self, loaded: LoadedExecution, lease: Lease) -> None:
        self._known.note(lease, self._placement.pool_of(loaded, lease.command_id))


class SetTimers:
    """Sets the timer of this process to the due times of the commit."""

    def __init__(self, timer: DueTimer) -> None:
        self._timer = timer

    def __call__(self, commit: Commit) -> None:
        for due in commit.effects.parked.values():
            if 0 < due < NEVER:
                self._timer.set(due)
        for due in commit.effects.timers.values():
            self._timer.set(due)


def is_debugging(commit: Commit) -> bool:
    return log.isEnabledFor(logging.DEBUG)


def log_execution(commit: Commit) -> None:
    """Log the first and the last batch of an execution."""
    state, about = commit.loaded.state, commit.loaded.about
    fields = {"execution_id": state.execution_id, "path": about.get("path")}
    if commit.events[0].seq == 1:
        log.debug("an execution starts", extra=fields)
    if state.finished:
        status = commit.events[-1].payload.get("status")
        log.debug("an execution ended", extra={**fields, "status": status})


class NotifyWatchers:
    """Passes committed events to watchers: subscriptions, metrics, progress."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self._of_ends: list[Watcher] = []

    def add(self, watcher: Watcher, *, ends_only: bool) -> None:
        (self._of_ends if ends_only else self._watchers).append(watcher)

    def __call__(self, commit: Commit) -> None:
        for watcher in self._watchers:
            watcher(commit.events)
        if commit.loaded.state.finished:
            for watcher in self._of_ends:
                watcher(commit.events)


class StopWorkers:
    """Stops the workers of this process on ended commands and cancelled executions."""

    def __init__(self, idle_workers: IdleWorkers) -> None:
        self._idle_workers = idle_workers

    def __call__(self, commit: Commit) -> None:
        # A pipeline that ended by its own report has no tool that still runs.
        stopped = [each for each in commit.effects.over if each not in commit.reported]
        if stopped:
            self._idle_workers.revoke(stopped)
        state = commit.loaded.state
        if state.cancelling is not None:
            self._idle_workers.stop(state.execution_id)


class EvictFinished:
    """Sets ``changed`` when an execution finishes; a server evicts it."""

    def __init__(
        self, cache: ExecutionCache, changed: asyncio.Event, *, is_server: bool
    ) -> None:
        self._cache = cache
        self._changed = changed
        self._is_server = is_server

    def __call__(self, commit: Commit) -> None:
        state = commit.loaded.state
        if state.finished:
            self._changed.set()
            if self._is_server:
                self._cache.evict(state.execution_id)


class WakeWorkers:
    """Wakes those who wait for work, in this process and at other servers."""

    def __init__(
        self, wakeup: Wakeup, bus: WakeupBus | None, placement: Placement
    ) -> None:
        self._wakeup = wakeup
        self._bus = bus
        self._placement = placement
        self._is_server = placement.pool is None

    def __call__(self, commit: Commit) -> None:
        effects, granted = commit.effects, len(commit.granted)
        # An embedded run has no sweep that would look for work again.
        idle = not self._is_server and not commit.loaded.state.runs
        if len(effects.ready) > granted or effects.parked or effects.freed or idle:
            self._wakeup.notify()
        woken = [name for name, due in effects.parked.items() if due == 0.0]
        if len(effects.ready) + len(woken) > granted:
            ready = {*effects.ready, *woken} - {*effects.over}
            self.wake_servers(commit.loaded, ready)

    def wake_servers(self, loaded: LoadedExecution, commands: Iterable[str]) -> None:
        """Announce these commands to other servers, by their pools."""
        if self._bus is not None:
            pools = {self._placement.pool_of(loaded, name) for name in commands}
            self._bus.wake(pools)
