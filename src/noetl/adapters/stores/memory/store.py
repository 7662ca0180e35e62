"""The store in memory: every promise of the ports except durability."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice

import msgspec

from noetl.adapters.stores.batches import FIRST, Row, chain, first_damage, unpack_rows
from noetl.adapters.stores.encoding import Encoded, encode
from noetl.adapters.stores.memory.commands import Commands, idle_in
from noetl.adapters.stores.memory.exports import ExportTimers
from noetl.adapters.stores.memory.slots import ConcurrencySlots
from noetl.adapters.stores.rules import (
    OVER,
    TIMER_ID,
    Aside,
    outlives,
    refuse_stale,
)
from noetl.adapters.stores.summaries import (
    EncodedSummary,
    decode_summary,
    encode_summary,
)
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.ports import (
    NO_LABELS,
    Backlog,
    CallLimit,
    Claimed,
    CommandRow,
    ConcurrencySlot,
    Damage,
    IdlePage,
    Lease,
    LogHead,
    Parked,
    QueuedExecution,
    Records,
    Snapshot,
    Stray,
    Summary,
    Timer,
    Transition,
)


class _Execution(msgspec.Struct):
    execution_id: str
    number: int
    status: ExecutionStatus
    summary: EncodedSummary
    family: int
    rows: list[Row] = msgspec.field(default_factory=list)
    snapshot: Snapshot | None = None
    tallies: dict[tuple[int, int], bytes] = msgspec.field(default_factory=dict)

    @property
    def last_seq(self) -> int:
        return self.rows[-1].last_seq if self.rows else 0

    @property
    def last_hash(self) -> bytes:
        return self.rows[-1].hash if self.rows else FIRST


def _read(execution: _Execution) -> Summary:
    text, key, line = execution.summary
    return decode_summary(execution.execution_id, text, {key or "": line})


class MemoryStore:
    """Keeps bytes, not objects: an event cannot be changed after its commit."""

    shared = False

    def __init__(self) -> None:
        self._executions: dict[str, _Execution] = {}
        self._by_number: list[_Execution] = []
        self._commands = Commands(lambda number: self._by_number[number - 1].status)
        self.oldest_ready = self._commands.oldest_ready
        self._timers: dict[int, dict[str, Timer]] = {}
        exports = ExportTimers(self._timers)
        self.claim_exports, self.postpone_exports = exports.claim, exports.postpone
        self.end_exports, self.count_exports = exports.end, exports.count
        self._requests: dict[str, str] = {}
        self._slots = ConcurrencySlots(self._is_over)

    async def close(self) -> None:
        """Do nothing: the store holds no file and no connection."""

    async def check_writable(self) -> None:
        """Do nothing: memory takes writes at any time."""

    async def commit(self, transitions: Sequence[Transition]) -> None:
        group = encode(transitions)
        refuse_stale(
            transitions,
            self._position,
            self._commands.is_held,
            self._requests.__contains__,
            self._slots.is_free,
        )
        for item in group:
            self._write(item)

    async def claim(
        self,
        owner: str,
        *,
        pool: str,
        slots: int,
        now: float,
        ttl: float,
        waits: bool = False,
    ) -> Claimed:
        expires_at = now + ttl
        found = self._commands.claim(owner, pool, slots, expires_at, now, waits)
        return Claimed(found)

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        return self._commands.renew(leases, now + ttl)

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        return self._commands.rows(command_ids)

    async def permit(
        self, lease: Lease, limits: Sequence[CallLimit], *, now: float
    ) -> float:
        return self._commands.permit(lease, limits, now)

    async def forgive(self, leases: Sequence[Lease]) -> None:
        self._commands.forgive(leases)

    async def held(self, owner: str) -> Sequence[Lease]:
        return self._commands.held(owner)

    async def count_commands(self) -> Mapping[str, Backlog]:
        return self._commands.count()

    async def count_delayed(self, *, limit: int) -> Mapping[str, int]:
        return Counter(row.command.pool for row in self._commands.delayed(limit))

    async def parked(self, *, limit: int) -> Sequence[Parked]:
        numbers = {row.execution for row in self._commands.delayed(limit)}
        found = [self._by_number[n - 1] for n in sorted(numbers, reverse=True)]
        return [
            Parked(_read(each), each.last_seq)
            for each in found
            if each.status in ("running", "waiting", "paused")
        ]

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        self._commands.expire(now)
        due = [
            (timer.due_at, number, timer.timer_id, timer)
            for number, timers in self._timers.items()
            for timer in timers.values()
            if timer.due_at <= now
            and timer.kind != "export"
            and self._by_number[number - 1].status != "quarantined"
        ]
        return [timer for *_, timer in sorted(due, key=lambda entry: entry[:3])]

    async def idle(self, *, after: int, limit: int) -> IdlePage:
        busy = self._commands.executions() | self._timers.keys()
        return idle_in(self._by_number[after:], busy, self._slots.queued(), limit)

    async def set_status(self, summary: Summary) -> None:
        execution = self._known(summary.execution_id)
        if execution.status in OVER:
            return
        execution.status = summary.status
        execution.summary = encode_summary(summary)

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        execution = self._executions.get(execution_id)
        if execution is None:
            return []
        if limit == 0:
            return []
        first = bisect_right(execution.rows, after, key=lambda row: row.last_seq)
        rows = islice(execution.rows, first, None)
        return unpack_rows(rows, execution_id, after, limit)

    async def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        while events := await self.read(execution_id, after=after, limit=size):
            yield events
            after = events[-1].seq

    async def length(self, execution_id: str) -> int:
        execution = self._executions.get(execution_id)
        return 0 if execution is None else execution.last_seq

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        execution = self._executions.get(execution_id)
        return execution.snapshot if execution else None

    async def tally(
        self, execution_id: str, version: int, *, at: int | None = None
    ) -> Snapshot | None:
        execution = self._executions.get(execution_id)
        kept = execution.tallies if execution is not None else {}
        found = [
            (seq, body)
            for (of, seq), body in kept.items()
            if of == version and (at is None or seq <= at)
        ]
        return Snapshot(*max(found)) if found else None

    async def keep_tally(
        self, execution_id: str, version: int, tally: Snapshot
    ) -> None:
        execution = self._executions.get(execution_id)
        if execution is not None and tally.seq <= execution.last_seq:
            execution.tallies[version, tally.seq] = tally.body

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> Sequence[Summary]:
        last = len(self._by_number)
        if before is not None:
            last = self._last_before(before)
        found: list[Summary] = []
        for execution in reversed(self._by_number[:last]):
            if len(found) == limit:
                break
            if status is None or execution.status == status:
                summary = _read(execution)
                if labels.items() <= summary.labels.items():
                    found.append(summary)
        return found

    def _last_before(self, execution_id: str) -> int:
        known = self._executions.get(execution_id)
        if known is not None:
            return known.number - 1
        older = (name for name in self._executions if name < execution_id)
        newest = max(older, default=None)
        return self._executions[newest].number if newest is not None else 0

    async def summary(self, execution_id: str) -> Summary:
        return _read(self._known(execution_id))

    async def disarm(self, timer: Timer) -> None:
        execution = self._executions.get(timer.execution_id)
        if execution is not None:
            self._timers.get(execution.number, {}).pop(timer.timer_id, None)

    async def find_request(self, request_key: str) -> str | None:
        return self._requests.get(request_key)

    async def count_family(self, execution_id: str, *, limit: int) -> int:
        family = self._known(execution_id).family
        count = sum(
            each.family == family and each.number != family and each.status not in OVER
            for each in self._by_number
        )
        return min(count, limit)

    async def slots_of(self, key: str) -> Sequence[QueuedExecution]:
        return self._slots.queue(key)

    async def resolve(self, part: str, *, limit: int = 10) -> Sequence[str]:
        if part in self._executions:
            return [part]
        names = sorted(self._executions)
        found = [name for name in names if name.startswith(part)]
        return (found or [name for name in names if name.endswith(part)])[:limit]

    async def verify(self, execution_id: str) -> Damage | None:
        execution = self._known(execution_id)
        last_seq, last_hash = execution.last_seq, execution.last_hash
        return first_damage(execution.rows, last_seq, last_hash, execution_id)

    async def records(self, execution_id: str) -> Records:
        execution = self._known(execution_id)
        keys = [key for key, name in self._requests.items() if name == execution_id]
        return Records(
            execution.last_seq,
            execution.status,
            _read(execution),
            keys[0] if keys else None,
            self._commands.records(execution_id),
            list(self._timers.get(execution.number, {}).values()),
            execution.snapshot,
            [(*key, body) for key, body in execution.tallies.items()],
            self._slots.slot_of(execution_id),
        )

    async def strays(self, *, limit: int = 100) -> Sequence[Stray]:
        return [
            Stray("place", key, f"{len(held)} executions hold it")
            for key, queue in self._slots.queues()
            if (held := [each for each in queue if not each.queued])
            if len(held) > max(each.limit for each in queue)
        ][:limit]

    async def heads(self, *, after: int = 0, limit: int = 500) -> Sequence[LogHead]:
        return [
            LogHead(each.number, each.last_seq, _read(each))
            for each in self._by_number[after : after + limit]
        ]

    def _known(self, execution_id: str) -> _Execution:
        execution = self._executions.get(execution_id)
        if execution is None:
            raise StoreError(f"there is no execution {execution_id}", "store.missing")
        return execution

    def _position(self, execution_id: str) -> int:
        execution = self._executions.get(execution_id)
        if execution is not None and execution.status == "quarantined":
            raise Aside(execution_id)
        return execution.last_seq if execution else 0

    def _write(self, item: Encoded) -> None:
        transition = item.transition
        execution = self._executions.get(transition.execution_id)
        status = transition.summary.status
        if execution is None:
            number = len(self._by_number) + 1
            caller = self._executions.get(transition.summary.parent_id or "")
            family = caller.family if caller is not None else number
            name = transition.execution_id
            execution = _Execution(name, number, status, item.summary, family)
            self._executions[name] = execution
            self._by_number.append(execution)
            if transition.request_key is not None:
                self._requests[transition.request_key] = transition.execution_id
        execution.status, execution.summary = status, item.summary
        end = execution.last_seq, execution.last_hash
        execution.rows += chain(item.batches, *end)
        snapshot = transition.log.snapshot
        if snapshot is not None:
            execution.snapshot = Snapshot(execution.last_seq, snapshot)
        self._commands.change(execution.number, execution.family, transition)
        self._change_timers(execution.number, transition)
        if transition.slot is not None:
            self._change_slot(transition, transition.slot)
        for timer in transition.timers.relatives:
            relative = self._executions.get(timer.execution_id)
            if relative is not None and relative.status not in OVER:
                timers = self._timers.setdefault(relative.number, {})
                timers[timer.timer_id] = timer

    def _is_over(self, execution_id: str) -> bool:
        return self._executions[execution_id].status in OVER

    def _change_slot(self, transition: Transition, slot: ConcurrencySlot) -> None:
        following = self._slots.change(transition, slot)
        if following is not None:
            timers = self._timers.setdefault(self._executions[following].number, {})
            timers[TIMER_ID] = Timer(following, TIMER_ID, 0.0, "place")

    def _change_timers(self, execution: int, transition: Transition) -> None:
        timers = self._timers.pop(execution, {})
        for timer_id in transition.timers.disarmed:
            timers.pop(timer_id, None)
        timers.update((timer.timer_id, timer) for timer in transition.timers.armed)
        if transition.summary.status in OVER:
            timers = {n: timer for n, timer in timers.items() if outlives(timer)}
        if timers:
            self._timers[execution] = timers
