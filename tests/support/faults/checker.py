"""What must hold of the database after a campaign, whatever was done to the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from lease_history import lease_counts

from faults.history import check_ledger
from faults.ledger import Ledger
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.state import State
from noetl.service.executions.verification import StoreCheck

ENDS = ("loop.iteration.done", "loop.iteration.failed")


class Findings(msgspec.Struct):
    """``wrong`` must be empty; the figures say what the cluster went through."""

    wrong: list[str] = msgspec.field(default_factory=list)
    iterations: int = 0
    events: int = 0
    steals: int = 0
    in_doubt: int = 0
    retries: int = 0
    duplicates: int = 0


class Checker:
    def __init__(
        self, database: Postgres, store: PostgresStore, ledger: Ledger
    ) -> None:
        self._database = database
        self._store = store
        self._ledger = ledger
        self.found = Findings()

    async def check(
        self,
        runs: dict[str, int],
        others: Iterable[str] = (),
        *,
        overlaps: bool = False,
    ) -> Findings:
        """``runs`` are executions, and how many iterations each of them has; ``others``
        have no part in the ledger. ``overlaps`` says that two owners may meet."""
        found = self.found
        await self._check_rows({*runs, *others})
        for execution_id, count in runs.items():
            await self._check_log(execution_id, count)
        leased = await lease_counts(self._database)
        found.steals = sum(count - 1 for count in leased.values() if count)
        if self._ledger.overlaps and not overlaps:
            self._blame(f"{self._ledger.overlaps} effects had two owners at once")
        return found

    async def _check_rows(self, started: set[str]) -> None:
        """No start is lost or doubled, and nothing is left to do."""
        rows = await self._database.fetch("SELECT execution_id FROM noetl.execution")
        if {name for (name,) in rows} != started:
            self._blame(f"{len(rows)} are stored, {len(started)} were started")
        for stray in await self._store.strays():
            self._blame(f"{stray.table} {stray.name}: {stray.message}")

    async def _check_log(self, execution_id: str, count: int) -> None:
        store = self._store
        check = StoreCheck(store, None, lambda about, body: None)
        for breach in (await check.verify(execution_id)).breaches:
            self._blame(f"{execution_id}: {breach}")
        events = await store.read(execution_id)
        state = replay(events)
        self._check_end(execution_id, state, (await store.summary(execution_id)).status)
        self._check_iterations(execution_id, events, count)
        await self._check_effects(execution_id, events, count)
        self.found.iterations += count
        self.found.events += len(events)

    def _check_end(self, execution_id: str, state: State, status: str) -> None:
        if not state.finished or (state.status, status) != ("completed",) * 2:
            why = f"{state.status}, listed as {status}: {state.error}"
            self._blame(f"{execution_id} is {why}")

    def _check_iterations(
        self, execution_id: str, events: Sequence[Event], count: int
    ) -> None:
        ends = Counter(
            int((event.iteration_id or "").rpartition("/")[2])
            for event in events
            if event.name in ENDS
        )
        if ends != Counter(range(count)):
            self._blame(f"{execution_id}: iterations do not end exactly once")

    async def _check_effects(
        self, execution_id: str, events: Sequence[Event], count: int
    ) -> None:
        sql = "SELECT i FROM public.kept WHERE run = $1 ORDER BY i"
        kept = [i for (i,) in await self._database.fetch(sql, execution_id)]
        if kept != list(range(count)):
            self._blame(f"{execution_id}: the keyed sink has {len(kept)} of {count}")
        begun: Counter[tuple[str, int]] = Counter()
        for event in events:
            if event.name != "task.started":
                continue
            doubted = event.payload.get("in_doubt") is not None
            self.found.in_doubt += doubted
            self.found.retries += (event.attempt or 1) > 1 and not doubted
            if event.task_label == "tell":
                index = int((event.iteration_id or "/-1").rpartition("/")[2])
                begun[execution_id, index] += 1
        ended = [(execution_id, index) for index in range(count)]
        calls = {each: self._ledger.calls[each] for each in {*ended, *begun}}
        self.found.duplicates += sum(max(calls[each] - 1, 0) for each in ended)
        self.found.wrong += check_ledger(calls, begun, ended)

    def _blame(self, message: str) -> None:
        self.found.wrong.append(message)
