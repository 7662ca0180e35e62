"""Group commit: transitions that arrive during one commit share the next one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import asyncpg
import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.batches import FIRST, Row, chain
from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.postgres.commit_rows import (
    Group,
    changed_commands,
    offers_of,
    planned_commands,
    statement,
)
from noetl.adapters.stores.postgres.queries import (
    SQL,
    PlaybookLines,
    change_slot,
    is_refused,
    lock_keys,
)
from noetl.adapters.stores.rules import OPEN, Aside, Conflict, Known, Lost, Taken
from noetl.errors import StoreError

LOST = -1
_NO_LEASE: tuple[Any, ...] = (None,) * 3
_NO_COMMAND: tuple[Any, ...] = (None,) * 9


async def commit(connection: Any, arguments: Sequence[Any]) -> int | None:
    """Store a plain transition; return None, or why it is refused.

    A refusal is ``LOST``, or the position at which the log was found.
    """
    try:
        found: int | None
        found = await connection.fetchval(SQL["commit_plain"], *arguments)
    except asyncpg.RaiseError:
        return LOST
    return found


def plain(
    item: Encoded, rows: Sequence[Row], last_hash: bytes, was_open: bool
) -> Sequence[Any] | None:
    """Return the arguments of ``commit``; None if the transition is not plain."""
    transition, reports = item.transition, item.transition.reports
    commands, timers = transition.commands, transition.timers
    if (
        len(reports.leases) > 1
        or len(commands.planned) > 1
        or timers.armed
        or timers.disarmed
        or timers.relatives
        or transition.log.snapshot is not None
        or transition.slot is not None
    ):
        return None
    offers, lease, ends, number = offers_of(transition), _NO_LEASE, False, None
    if offers != "over" and not (offers == "open" and (was_open or item.after == 0)):
        return None
    for each in reports.leases:
        lease = each.command_id, each.epoch, each.owner
        number = reports.numbers.get(each.command_id)
        ends = each.command_id in commands.ended
    if len(list(changed_commands(transition))) > ends:
        return None
    command = _NO_COMMAND
    for planned in planned_commands(transition):
        command = (*planned, commands.planned[0].affinity)
    return (
        transition.execution_id,
        item.after,
        transition.summary.status,
        item.summary.text,
        last_hash,
        transition.request_key,
        offers == "over",
        item.last_seq,
        [row.last_seq for row in rows],
        [row.events for row in rows],
        [row.dictionary for row in rows],
        [row.hash for row in rows],
        [row.body for row in rows],
        *lease,
        ends,
        number,
        *command,
        transition.summary.parent_id if item.after == 0 else None,
    )


MAX_GROUP_BYTES = 8 * 1024 * 1024
MAX_HEADS = 10_000
PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2, 3.2, 3.2)
"""Seconds between attempts to reach a database that does not answer."""


class Head(NamedTuple):
    """The end of a log; ``is_open`` says whether its execution offers commands."""

    seq: int
    last_hash: bytes
    is_open: bool = False


class Commit(msgspec.Struct):
    """A queued transition with the future of its caller."""

    item: Encoded
    future: asyncio.Future[None]
    rows: Sequence[Row] = ()
    last_hash: bytes = b""

    def link(self, head: Head) -> None:
        """Make the rows of its batches, which follow this head."""
        self.rows = chain(self.item.batches, self.item.after, head.last_hash)
        self.last_hash = self.rows[-1].hash if self.rows else head.last_hash


class Committer:
    """Commits one group at a time; a group has one transition of each execution."""

    def __init__(self, postgres: Postgres, playbooks: PlaybookLines) -> None:
        self._postgres = postgres
        self._playbooks = playbooks
        self._queue: list[Commit] = []
        self._task: asyncio.Task[None] | None = None
        self._heads: OrderedDict[str, Head] = OrderedDict()

    async def commit(self, item: Encoded) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._queue.append(Commit(item, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._serve())
        await future

    async def commit_together(self, items: Sequence[Encoded]) -> None:
        """Commit all or none, also several of one execution. Raises the refusal."""
        await self._playbooks.keep(item.summary for item in items)
        heads = {item.transition.execution_id: await self._head(item) for item in items}

        async def work(connection: Any) -> None:
            async with connection.transaction():
                await lock_keys(connection, items)
                for item in items:
                    if await is_refused(connection, item.transition):
                        raise Taken(item.transition)
                    group, execution_id = Group(), item.transition.execution_id
                    last_hash = heads[execution_id].last_hash
                    rows = chain(item.batches, item.after, last_hash)
                    last_hash = rows[-1].hash if rows else last_hash
                    heads[execution_id] = Head(0, last_hash)
                    group.add(item, rows, last_hash)
                    sql, values = statement(group.parts(), group.arguments())
                    for row in await connection.fetch(sql, *values):
                        raise _refusal(item, row["last_seq"], row["lost"])
                    await change_slot(connection, item.transition)

        await self._postgres.run(work)
        for item in items:
            execution_id = item.transition.execution_id
            self._remember(item, heads[execution_id].last_hash)

    async def _serve(self) -> None:
        while self._queue:
            group = self._take()
            try:
                await self._commit(group)
            except Exception as error:
                for each in group:
                    if not each.future.done():
                        each.future.set_exception(error)

    def _take(self) -> list[Commit]:
        taken: dict[str, Commit] = {}
        left: list[Commit] = []
        keys: set[str] = set()
        size = 0
        for each in self._queue:
            execution_id = each.item.transition.execution_id
            slot = each.item.transition.slot
            waits = slot is not None and slot.key in keys
            if execution_id in taken or waits or size > MAX_GROUP_BYTES:
                left.append(each)
            else:
                keys |= {slot.key} if slot is not None else set()
                taken[execution_id] = each
                size += each.item.size
        self._queue = left
        return [taken[name] for name in sorted(taken)]

    async def _commit(self, commits: Sequence[Commit]) -> None:
        """Commit a group; after a lost connection find out which of it is stored."""
        waits = iter(PATIENCE)
        is_repeated = False
        while commits:
            try:
                await self._try(commits, is_repeated=is_repeated)
                return
            except StoreError as error:
                if error.kind != "store.unreachable":
                    raise
                commits = await self._missing(commits, waits, error)
                is_repeated = True

    async def _missing(
        self, commits: Sequence[Commit], waits: Iterator[float], error: StoreError
    ) -> Sequence[Commit]:
        """Return the commits that are not stored, once the database answers again."""
        for seconds in waits:
            await asyncio.sleep(seconds)
            try:
                missing = []
                for each in commits:
                    if not await self._is_stored(each):
                        missing.append(each)
                    elif not each.future.done():
                        self._remember(each.item, each.last_hash)
                        each.future.set_result(None)
                return missing
            except StoreError as another:
                if another.kind != "store.unreachable":
                    raise
        raise error

    async def _is_stored(self, commit: Commit) -> bool:
        transition = commit.item.transition
        if not commit.item.batches:
            return False  # storing it twice changes nothing
        seq = commit.item.last_seq
        found = await self._postgres.run(
            lambda c: c.fetchval(SQL["hash_at"], transition.execution_id, seq)
        )
        return bool(found == commit.last_hash)

    async def _try(
        self, commits: Sequence[Commit], *, is_repeated: bool = False
    ) -> None:
        await self._playbooks.keep(each.item.summary for each in commits)
        heads = [await self._head(each.item) for each in commits]
        for each, head in zip(commits, heads, strict=True):
            if not each.last_hash:  # the head may be this commit's, if it is repeated
                each.link(head)
        if any(each.item.transition.slot is not None for each in commits):
            refused = await self._try_with_slots(commits, heads)
        elif len(commits) == 1 and (values := _plain(commits[0], heads[0])):
            found = await self._postgres.run(lambda c: commit(c, values))
            refused = _plain_refusal(commits[0], found)
        else:
            sql, columns = _statement(commits, heads)
            rows = await self._postgres.run(lambda c: c.fetch(sql, *columns))
            refused = _refusals(commits, rows)
        if is_repeated:
            # The database may have been at work on the first attempt until now.
            for index in list(refused):
                if await self._is_stored(commits[index]):
                    del refused[index]
        for index, each in enumerate(commits):
            if index not in refused:
                self._remember(each.item, each.last_hash)
                if not each.future.done():
                    each.future.set_result(None)
                continue
            self._heads.pop(each.item.transition.execution_id, None)
            if not each.future.done():
                each.future.set_exception(refused[index])

    async def _try_with_slots(
        self, commits: Sequence[Commit], heads: Sequence[Head]
    ) -> dict[int, StoreError]:
        """Read the slots while their keys are locked, then commit what has a slot."""

        async def work(connection: Any) -> dict[int, StoreError]:
            async with connection.transaction():
                await lock_keys(connection, [each.item for each in commits])
                refused: dict[int, StoreError] = {}
                for index, each in enumerate(commits):
                    if await is_refused(connection, each.item.transition):
                        refused[index] = Taken(each.item.transition)
                left = [n for n in range(len(commits)) if n not in refused]
                if not left:
                    return refused
                some = [commits[index] for index in left]
                sql, values = _statement(some, [heads[index] for index in left])
                found = _refusals(some, await connection.fetch(sql, *values))
                refused |= {left[index]: error for index, error in found.items()}
                for index, each in enumerate(commits):
                    if index not in refused:
                        await change_slot(connection, each.item.transition)
                return refused

        return await self._postgres.run(work)

    async def _head(self, item: Encoded) -> Head:
        """Return the head that its first event follows.

        If the log has moved on, the commit is refused by its position.
        """
        execution_id, after = item.transition.execution_id, item.after
        if after == 0:
            return Head(0, FIRST)
        head = self._heads.get(execution_id)
        if head is not None and head.seq == after:
            return head
        found = await self._postgres.run(
            lambda c: c.fetchval(SQL["last_hash"], execution_id)
        )
        return Head(after, found or FIRST)

    def _remember(self, item: Encoded, last_hash: bytes) -> None:
        transition = item.transition
        is_open = transition.summary.status in OPEN
        self._heads[transition.execution_id] = Head(item.last_seq, last_hash, is_open)
        self._heads.move_to_end(transition.execution_id)
        while len(self._heads) > MAX_HEADS:
            self._heads.popitem(last=False)


def _statement(
    commits: Sequence[Commit], heads: Sequence[Head]
) -> tuple[str, Sequence[Any]]:
    group = Group()
    for each, head in zip(commits, heads, strict=True):
        group.add(each.item, each.rows, each.last_hash, head.is_open)
    return statement(group.parts(), group.arguments())


def _plain(commit: Commit, head: Head) -> Sequence[Any] | None:
    return plain(commit.item, commit.rows, commit.last_hash, head.is_open)


def _plain_refusal(commit: Commit, found: int | None) -> dict[int, StoreError]:
    if found is None:
        return {}
    if found == LOST:
        lease = commit.item.transition.reports.leases[0]
        return {0: _refusal(commit.item, 0, lease.command_id)}
    return {0: _refusal(commit.item, found, None)}


def _refusals(commits: Sequence[Commit], rows: Sequence[Any]) -> dict[int, StoreError]:
    """Return the refusals of a group, by the index of the commit."""
    return {
        row["place"] - 1: _refusal(
            commits[row["place"] - 1].item, row["last_seq"], row["lost"]
        )
        for row in rows
    }


def _refusal(item: Encoded, last_seq: int, lost: str | None) -> StoreError:
    transition = item.transition
    if lost is None and transition.log.after == last_seq == 0:
        return Known(transition)
    if lost is None and item.after == last_seq > 0:
        return Aside(transition.execution_id)
    if lost is None:
        return Conflict(transition.execution_id, transition.log.after, last_seq)
    for lease in transition.reports.leases:
        if lease.command_id == lost:
            return Lost(lease)
    raise AssertionError(lost)
