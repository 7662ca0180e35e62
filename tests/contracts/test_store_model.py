"""Random interleavings against a model small enough to be believed.

Seqs without gaps (I-04), one owner per epoch (I-16), nothing lost (I-18).
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.memory.store import MemoryStore
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import LeaseLost, LogConflict
from noetl.ports import Command, Lease

TTL, GRACE = 30.0, 2.0
NUMBERS = itertools.count(1)
EXECUTIONS = st.sampled_from("abc")
OWNERS = st.sampled_from(["w1", "w2"])
POOLS = st.sampled_from(["default", "gpu"])


@dataclass
class Modelled:
    """A command as it should be."""

    execution_id: str
    pool: str
    not_before: float
    state: str = "ready"
    epoch: int = 0
    owner: str = ""
    expires_at: float = 0.0
    together: str | None = None


class Machine(RuleBasedStateMachine):
    def __init__(self, kind: str, facts: Any, address: str = "") -> None:
        super().__init__()
        self.facts = facts
        self.kind = kind
        self.address = address
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.schema = f"model_{next(NUMBERS)}"
        self.store: Any = self.open()
        self.now = 1000.0
        self.lengths: dict[str, int] = {}
        self.statuses: dict[str, str] = {}
        self.commands: dict[str, Modelled] = {}
        self.granted: list[Lease] = []
        self.owners: dict[tuple[str, int], str] = {}
        self.keepers: dict[str, tuple[str, float]] = {}

    def open(self) -> Any:
        if self.kind == "memory":
            return MemoryStore()
        if self.kind == "postgres":
            self.database = Postgres(self.address, schema=self.schema)
            return self.runner.run(PostgresStore.open(self.database))
        path = Path(self.folder.name) / "log.db"
        return SqliteStore.open(path, threaded=self.kind == "sqlite-threaded")

    async def close(self) -> None:
        await (self.database if self.kind == "postgres" else self.store).close()

    def commit(self, execution_id: str, **changes: Any) -> None:
        changes.setdefault("status", self.statuses.get(execution_id, "running"))
        batch = self.facts.transition(
            execution_id, self.lengths.get(execution_id, 0), **changes
        )
        self.runner.run(self.store.commit([batch]))
        self.statuses[execution_id] = changes["status"]
        self.lengths[execution_id] = batch.log.after + len(batch.log.events)

    @property
    def left(self) -> list[str]:
        """Commands that have not ended: the log has no decision that plans an ended
        one again."""
        commands = self.commands.items()
        return sorted(name for name, each in commands if each.state != "done")

    def holds(self, lease: Lease) -> bool:
        command = self.commands[lease.command_id]
        return (command.state, command.epoch, command.owner) == (
            "leased",
            lease.epoch,
            lease.owner,
        )

    def is_offered(self, command: Modelled) -> bool:
        return (
            command.state == "ready"
            and command.not_before <= self.now
            and self.statuses[command.execution_id] == "running"
        )

    def is_kept(self, command: Modelled, owner: str) -> bool:
        keeper, until = self.keepers.get(command.together or "", (owner, 0.0))
        return keeper != owner and until > self.now

    @rule(
        execution_id=EXECUTIONS,
        count=st.integers(1, 3),
        plans=st.lists(
            st.tuples(POOLS, st.sampled_from([0.0, 60.0]), st.booleans()), max_size=4
        ),
    )
    def advance(self, execution_id, count, plans):
        commands = []
        for pool, delay, local in plans:
            name = f"{execution_id}-{len(self.commands)}"
            not_before = self.now + delay if delay else 0.0
            loop = f"{execution_id}-loop" if local else None
            commands.append(Command(name, execution_id, pool, not_before, loop))
            planned = Modelled(execution_id, pool, not_before, together=loop)
            self.commands[name] = planned
        self.commit(execution_id, count=count, commands=commands)

    @rule(execution_id=EXECUTIONS, behind=st.integers(1, 3))
    def decide_on_old_facts(self, execution_id, behind):
        after = self.lengths.get(execution_id, 0) - behind
        if after >= 0:
            late = self.facts.transition(execution_id, after, done=list(self.commands))
            with pytest.raises(LogConflict):
                self.runner.run(self.store.commit([late]))

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def plan_again(self, data):
        name = data.draw(st.sampled_from(self.left))
        execution_id = self.commands[name].execution_id
        self.commit(execution_id, commands=[Command(name, execution_id)])

    @rule(owner=OWNERS, pool=POOLS, slots=st.integers(0, 5))
    def claim(self, owner, pool, slots):
        leases = self.runner.run(
            self.store.claim(owner, pool=pool, slots=slots, now=self.now, ttl=TTL)
        )
        offered = {
            name
            for name, command in self.commands.items()
            if command.pool == pool and self.is_offered(command)
            if not self.is_kept(command, owner)
        }
        assert len(leases) == min(slots, len(offered))
        for lease in leases:
            assert lease.command_id in offered
            offered.remove(lease.command_id)
            command = self.commands[lease.command_id]
            assert lease.epoch == command.epoch + 1
            assert (lease.command_id, lease.epoch) not in self.owners
            self.owners[lease.command_id, lease.epoch] = owner
            command.state, command.owner = "leased", owner
            command.epoch, command.expires_at = lease.epoch, self.now + TTL
            if command.together is not None:
                self.keepers[command.together] = (owner, self.now + TTL)
            self.granted.append(lease)

    @precondition(lambda self: self.granted)
    @rule(data=st.data(), change=st.sampled_from(["none", "done", "release"]))
    def report(self, data, change):
        lease = data.draw(st.sampled_from(self.granted))
        changes = {} if change == "none" else {change: [lease.command_id]}
        if not self.holds(lease):
            with pytest.raises(LeaseLost):
                self.commit(lease.execution_id, leases=[lease], **changes)
            return
        self.commit(lease.execution_id, leases=[lease], **changes)
        if changes:
            state = "done" if change == "done" else "ready"
            self.commands[lease.command_id].state = state

    @precondition(lambda self: self.granted)
    @rule(data=st.data())
    def renew(self, data):
        leases = data.draw(st.lists(st.sampled_from(self.granted), unique=True))
        lost = self.runner.run(self.store.renew(leases, now=self.now, ttl=TTL))
        assert list(lost) == [lease for lease in leases if not self.holds(lease)]
        for lease in leases:
            if lease not in lost:
                command = self.commands[lease.command_id]
                command.expires_at = self.now + TTL
                loop = command.together or ""
                if self.keepers.get(loop, ("",))[0] == lease.owner:
                    self.keepers[loop] = (lease.owner, self.now + TTL)

    @rule(seconds=st.sampled_from([0.0, 1.0, 10.0, 31.0, 33.0]))
    def sweep(self, seconds):
        self.now += seconds
        self.runner.run(self.store.sweep(now=self.now))
        for command in self.commands.values():
            expired = command.expires_at <= self.now - GRACE
            if command.state == "leased" and expired:
                command.state = "ready"
        self.keepers = {
            name: (owner, until)
            for name, (owner, until) in self.keepers.items()
            if until > self.now - GRACE
        }

    @precondition(lambda self: self.lengths)
    @rule(data=st.data(), status=st.sampled_from(["running", "paused"]))
    def steer(self, data, status):
        execution_id = data.draw(st.sampled_from(sorted(self.lengths)))
        self.commit(execution_id, status=status)

    @precondition(lambda self: self.kind != "memory")
    @rule()
    def restart(self):
        self.runner.run(self.close())
        self.store = self.open()
        for command in self.commands.values():
            if command.state == "leased" and self.kind != "postgres":
                command.state = "ready"
        if self.kind != "postgres":  # a new process: nobody of the old one is left
            self.keepers.clear()

    @invariant()
    def logs_have_no_gaps(self):
        for execution_id, count in self.lengths.items():
            events = self.runner.run(self.store.read(execution_id))
            assert [event.seq for event in events] == list(range(1, count + 1))

    def teardown(self):
        try:
            for execution_id in self.lengths:
                assert self.runner.run(self.store.verify(execution_id)) is None
                self.commit(execution_id, status="running")
            self.now += 1000.0
            self.sweep(0.0)
            for pool in ("default", "gpu"):
                self.claim("last", pool, len(self.commands))
            left = [c for c in self.commands.values() if c.state == "ready"]
            assert left == []
        finally:
            self.runner.run(self.close())
            self.runner.close()
            self.folder.cleanup()


@pytest.mark.spec("WKR-02", "S-44", "S-45")
@pytest.mark.parametrize(
    ("kind", "examples"),
    [("memory", 150), ("sqlite", 25), ("sqlite-threaded", 10), ("postgres", 20)],
)
def test_every_interleaving_agrees_with_the_model(kind, examples, facts, request):
    address = request.getfixturevalue("postgres") if kind == "postgres" else ""
    run_state_machine_as_test(
        lambda: Machine(kind, facts, address),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
