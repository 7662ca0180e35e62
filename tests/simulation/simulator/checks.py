"""Checks of a simulation: what must hold after each commit, and at the end.

A checker observes the database and the ledger, and reports violations. It knows the
facts that it has seen, and nothing of how servers and workers decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from noetl.adapters.stores.batches import first_damage
from noetl.engine.event_codec import unpack
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.invariants import Audit
from noetl.engine.times import seconds_of
from noetl.ports import CallLimit, Lease, Transition
from noetl.runtime.executions.loaded import freeze, thaw
from noetl.runtime.executions.snapshots import body_of, refusals

from .hosts import EPOCH
from .plan import TTL
from .playbooks import IN_FLIGHT

if TYPE_CHECKING:
    from .world import World

Report = Callable[[str, str], None]
"""Takes the name of an invariant, and what breaks it."""
OVER = ("completed", "failed", "cancelled")
FAILED = ("step.failed", "loop.iteration.failed")
NEW = ("step.scheduled", "loop.iteration.started")
GOES_ON = ("workflow.resumed", "workflow.cancelled", "workflow.forked")
FROZEN_S = TTL + 2.5
"""Seconds before a call in which its process must not have been frozen: a lease that
was given before has ended in the meantime."""
ENDS = ("loop.iteration.done", "loop.iteration.failed")


class Checker:
    """A checker that looks at nothing. ``report`` takes what it finds."""

    def __init__(self, world: World, report: Report) -> None:
        self.world = world
        self.report = report

    def committed(self, transitions: Sequence[Transition], by: str) -> None: ...
    def claimed(
        self, owner: str, leases: Sequence[Lease], expires_at: float, *, waits: bool
    ) -> None: ...
    def renewed(self, leases: Sequence[Lease], expires_at: float) -> None: ...
    def before_sweep(self, now: float) -> None: ...
    def swept(self) -> None: ...
    def permitted(self, limits: Sequence[CallLimit], now: float) -> None: ...
    def set_aside(self, execution_id: str) -> None: ...
    def end(self) -> None: ...


def events_of(transition: Transition) -> list[Event]:
    """Return the events of a commit; a fork begins with those of its origin."""
    name, log = transition.execution_id, transition.log
    kept = [unpack(body, name, n) for n, body in enumerate(log.history, start=1)]
    return [*kept, *log.events]


class LogCheck(Checker):
    """The invariants of each log, event by event, and the events themselves."""

    def __init__(self, world: World, report: Report) -> None:
        super().__init__(world, report)
        self.logs: dict[str, list[Event]] = {}
        self._audits: dict[str, Audit] = {}

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            name = each.execution_id
            audit = self._audits.setdefault(name, Audit())
            events = events_of(each)
            self.logs.setdefault(name, []).extend(events)
            for event in events:
                for breach in audit.take(event):
                    self.report(breach.invariant, f"{name}: {breach.message}")
                if event.name in FAILED:
                    self._note_failure(event)

    def _note_failure(self, event: Event) -> None:
        kind = event.payload["error"]["kind"]
        if kind == "worker.lost":
            self.world.count("poison")
        elif kind == "worker.defect":
            self.report("defect", f"{event.execution_id}: {event.payload['error']}")

    def end(self) -> None:
        for name, audit in self._audits.items():
            for breach in audit.end():
                self.report(breach.invariant, f"{name}: {breach.message}")


class ReplayCheck(Checker):
    """I-07: the log adds up to the state in memory, and to each snapshot.

    The state of the committing server is compared some time after the commit.
    """

    def __init__(self, world: World, report: Report, logs: LogCheck) -> None:
        super().__init__(world, report)
        self._logs = logs.logs
        self._count = 0
        self._refused = refusals.count

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            if each.log.snapshot is not None:
                self._compare(
                    each.execution_id, thaw(body_of(each.log.snapshot)), "snapshot"
                )
        self._count += 1
        if self._count % 8 == 0:
            self.compare_all()

    def compare_all(self) -> None:
        for server in self.world.servers.values():
            if server.process.alive:
                for name, loaded in server.orchestrator.cache.items():
                    if not loaded.busy and not loaded.stale:
                        self._compare(name, loaded.state, server.process.name)

    def _compare(self, name: str, state: Any, where: str) -> None:
        events = self._logs.get(name, ())[: state.seq]
        if state.seq and len(events) < state.seq:
            self.report("I-03", f"{name}: {where} is at event {state.seq}")
            return
        if freeze(replay(events)) != freeze(state):
            self.report("I-07", f"{name}: {where} differs from its log")

    def end(self) -> None:
        self.compare_all()
        refused = refusals.count - self._refused
        self.world.count("refused snapshot", refused)
        if refused and not self.world.happened.get("wrong snapshot"):
            self.report("I-07", f"{refused} snapshots are refused, and none is wrong")


class LeaseCheck(Checker):
    """I-16, I-18, I-32, I-33: who may hold a command, and when.

    ``held`` are the leases that the database has given and not ended, with the time
    until which each is certain.
    """

    def __init__(self, world: World, report: Report) -> None:
        super().__init__(world, report)
        self.held: dict[str, tuple[Lease, float]] = {}
        self._epochs: dict[str, int] = {}
        self._owners: dict[tuple[str, int], str] = {}
        self._last: dict[str, str] = {}
        self._lately: set[str] = set()
        self._waits: dict[str, float] = {}

    def claimed(
        self, owner: str, leases: Sequence[Lease], expires_at: float, *, waits: bool
    ) -> None:
        memory = self.world.database.memory
        for lease in leases:
            self._grant(lease, expires_at)
            status = memory._executions[lease.execution_id].status
            if status not in ("running", "waiting"):
                self.report("I-32", f"{lease.command_id} is leased while {status}")
            until = self._waits.get(lease.command_id, 0.0)
            if until > EPOCH + self.world.loop.time() + self.world.plan.skew:
                self.report("I-28", f"{lease.command_id} is leased before its time")

    def _grant(self, lease: Lease, expires_at: float) -> None:
        name = lease.command_id
        if name in self.held:
            self.report("I-16", f"{name} is leased twice at a time")
        if lease.epoch <= self._epochs.get(name, 0):
            self.report("I-16", f"{name}: epoch {lease.epoch} does not grow")
        last = self._last.get(name)
        if last is not None and last != lease.owner and name in self._lately:
            self.world.count("steal")
        self._lately.discard(name)
        self._epochs[name] = lease.epoch
        self._last[name] = lease.owner
        self.held[name] = lease, expires_at

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            for lease in each.reports.leases:
                held = self.held.get(lease.command_id)
                if held is None or held[0] != lease:
                    self.report("I-16", f"a report of {lease} is recorded")
            grant, status = each.commands.grant, each.summary.status
            if grant is not None and status not in ("running", "waiting"):
                self.report("I-33", f"{each.execution_id} gives leases while {status}")
            for event in each.log.events:
                self._note_wait(event)
            for lease in grant.leases if grant is not None else ():
                self._grant(lease, grant.expires_at if grant is not None else 0.0)
            for name in (*each.commands.ended, *each.commands.released):
                self.held.pop(name, None)
                self._lately.discard(name)
            if each.summary.status in OVER:
                self._forget(each.execution_id)

    def _note_wait(self, event: Event) -> None:
        command = event.iteration_id or event.step_run_id or ""
        if event.name == "task.suspended" and event.payload["until"] is not None:
            self._waits[command] = seconds_of(event.payload["until"])
        elif event.name in ("task.resumed", "task.started"):
            self._waits.pop(command, None)

    def _forget(self, execution_id: str) -> None:
        rows = self.world.database.memory._commands._by_id.values()
        left = [row for row in rows if row.command.execution_id == execution_id]
        for row in left:
            self.report("I-32", f"{row.command.command_id} outlives its execution")

    def set_aside(self, execution_id: str) -> None:
        for name, (lease, _) in list(self.held.items()):
            if lease.execution_id == execution_id and not self._has(lease):
                del self.held[name]

    def renewed(self, leases: Sequence[Lease], expires_at: float) -> None:
        for lease in leases:
            held = self.held.get(lease.command_id)
            if held is None or held[0] != lease:
                self.report("I-16", f"{lease} is renewed")
            else:
                self.held[lease.command_id] = lease, expires_at

    def before_sweep(self, now: float) -> None:
        self._sync()

    def swept(self) -> None:
        """A lease that the sweep ended must have expired, whatever clock one takes."""
        now = EPOCH + self.world.loop.time()
        for name, (lease, until) in list(self.held.items()):
            if self._has(lease):
                continue
            del self.held[name]
            self._lately.add(name)
            if until + 2.0 > now + 1.01:
                self.report("I-18", f"{name} was taken from {lease.owner} too early")

    def _sync(self) -> None:
        for lease, _ in list(self.held.values()):
            if not self._has(lease):
                del self.held[lease.command_id]
                self.report("I-16", f"{lease} has ended by itself")

    def _has(self, lease: Lease) -> bool:
        """Return whether the table of commands has the lease."""
        row = self.world.database.memory._commands._leased.get(lease.command_id)
        return row is not None and (row.owner, row.epoch) == (lease.owner, lease.epoch)


class CapacityCheck(Checker):
    """I-21, I-23, I-33: open iterations, slots of keys, and nothing new in a pause."""

    def __init__(self, world: World, report: Report) -> None:
        super().__init__(world, report)
        self._open: dict[str, set[str]] = {}
        self._paths: dict[str, str] = {}
        self._paused: set[str] = set()

    def committed(self, transitions: Sequence[Transition], by: str) -> None:
        for each in transitions:
            for event in events_of(each):
                self._take(event)
        memory = self.world.database.memory
        for key, line in memory._slots.queues():
            held = [x for x in line if not x.queued]
            if held and len(held) > held[0].limit:
                self.report("I-21", f"{len(held)} executions hold the key {key}")

    def _take(self, event: Event) -> None:
        name = event.execution_id
        if event.name == "workflow.paused":
            self._paused.add(name)
        elif event.name in GOES_ON:
            self._paused.discard(name)
        elif event.name in NEW and name in self._paused:
            self.report("I-33", f"{event.name} is recorded while {name} is paused")
        if event.seq == 1:
            self._paths[name] = event.payload["playbook"]["path"]
        elif event.name == "loop.iteration.started":
            loop = (event.iteration_id or "").rpartition("/")[0]
            inner = "/" in loop
            most = 1 if inner else IN_FLIGHT.get(self._paths[name], 1)
            open_ = self._open.setdefault(loop, set())
            open_.add(event.iteration_id or "")
            if len(open_) > most:
                self.report("I-23", f"{loop} has {len(open_)} open iterations")
        elif event.name in ENDS:
            loop = (event.iteration_id or "").rpartition("/")[0]
            self._open.get(loop, set()).discard(event.iteration_id or "")


class EndCheck(Checker):
    """What the end of a run must look like."""

    def __init__(self, world: World, report: Report, logs: LogCheck) -> None:
        super().__init__(world, report)
        self._logs = logs.logs

    def end(self) -> None:
        memory = self.world.database.memory
        for name, each in memory._executions.items():
            last = each.last_seq, each.last_hash
            damage = first_damage(each.rows, *last, name)
            if damage is not None:
                self.report("I-04", f"{name}: {damage}")
            if each.status not in OVER:
                self.report("I-45", f"{name} is {each.status}: {self._stuck(name)}")
        left = [row.command.command_id for row in memory._commands._leased.values()]
        for command in left:
            self.report("I-18", f"{command} is leased at the end")
        timers = [t for each in memory._timers.values() for t in each.values()]
        for timer in timers:
            self.report("I-34", f"{timer.timer_id} of {timer.execution_id} is armed")

    def _stuck(self, name: str) -> str:
        memory = self.world.database.memory
        rows = [
            f"{row.command.command_id[-6:]} {row.state} {row.owner} {row.epoch}"
            for row in memory._commands._by_id.values()
            if row.command.execution_id == name
        ]
        timers = list(memory._timers.get(memory._executions[name].number, ()))
        last = self._logs[name][-1].name
        return f"last {last}, commands {rows}, timers {timers}"
