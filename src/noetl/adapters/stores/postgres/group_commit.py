"""Group commit: what is queued while one commit runs goes into the next one."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.chain import FIRST, link
from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.leasing import OPEN
from noetl.adapters.stores.postgres.places import (
    change_place,
    is_refused,
    lock_keys,
)
from noetl.adapters.stores.postgres.plain import LOST, commit, plain
from noetl.adapters.stores.postgres.plans import Group
from noetl.adapters.stores.postgres.statements import statement
from noetl.adapters.stores.refusals import Aside, Conflict, Known, Lost, Taken
from noetl.errors import StoreError

MOST_BYTES = 8 * 1024 * 1024
MOST_HEADS = 10_000
PATIENCE = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.2, 3.2, 3.2, 3.2)
"""Seconds to wait, one after the other, for a database that does not answer."""

_HASH = (
    "SELECT e.hash FROM event AS e JOIN execution AS x ON x.number = e.execution "
    "WHERE x.execution_id = $1 AND e.seq = $2"
)


class Head(NamedTuple):
    """Where a log ends; whether its execution offers its commands."""

    seq: int
    last_hash: bytes
    is_open: bool = False


class Commit(msgspec.Struct):
    item: Encoded
    future: asyncio.Future[None]
    hashes: Sequence[bytes] = ()
    last_hash: bytes = b""

    def link(self, head: Head) -> None:
        """Its events follow those up to there."""
        self.hashes = hashes_of(self.item, head)
        self.last_hash = self.hashes[-1] if self.hashes else head.last_hash


class Committer:
    """One group at a time; each execution once in a group."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
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
        """All of them or none, also several of one execution. Raises the refusal."""
        heads = {item.transition.execution_id: await self._head(item) for item in items}

        async def work(connection: Any) -> None:
            async with connection.transaction():
                await lock_keys(connection, items)
                for item in items:
                    if await is_refused(connection, item.transition):
                        raise Taken(item.transition)
                    group, execution_id = Group(), item.transition.execution_id
                    before = heads[execution_id]
                    hashes = hashes_of(item, before)
                    heads[execution_id] = Head(0, [before.last_hash, *hashes][-1])
                    group.add(item, hashes, heads[execution_id].last_hash)
                    sql, values = statement(group.parts(), group.arguments())
                    for row in await connection.fetch(sql, *values):
                        raise _refusal(item, row["last_seq"], row["lost"])
                    await change_place(connection, item.transition)

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
            place = each.item.transition.place
            waits = place is not None and place.key in keys
            if execution_id in taken or waits or size > MOST_BYTES:
                left.append(each)
            else:
                keys |= {place.key} if place is not None else set()
                taken[execution_id] = each
                size += sum(map(len, each.item.bodies))
        self._queue = left
        return [taken[name] for name in sorted(taken)]

    async def _commit(self, commits: Sequence[Commit]) -> None:
        """Until it is known what became of it: a lost connection says nothing."""
        waits = iter(PATIENCE)
        while commits:
            try:
                await self._try(commits)
                return
            except StoreError as error:
                if error.kind != "store.unreachable":
                    raise
                commits = await self._missing(commits, waits, error)

    async def _missing(
        self, commits: Sequence[Commit], waits: Iterator[float], error: StoreError
    ) -> Sequence[Commit]:
        """Those that are not in the log, as soon as somebody can be asked."""
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
        seq = commit.item.after + len(commit.item.bodies)
        if not commit.item.bodies:
            return False  # doing it twice does no harm
        found = await self._postgres.run(
            lambda c: c.fetchval(_HASH, transition.execution_id, seq)
        )
        return bool(found == commit.last_hash)

    async def _try(self, commits: Sequence[Commit]) -> None:
        heads = [await self._head(each.item) for each in commits]
        for each, head in zip(commits, heads, strict=True):
            each.link(head)
        if any(each.item.transition.place is not None for each in commits):
            refused = await self._try_with_places(commits, heads)
        elif len(commits) == 1 and (values := _plain(commits[0], heads[0])):
            found = await self._postgres.run(lambda c: commit(c, values))
            refused = _plain_refusal(commits[0], found)
        else:
            sql, columns = _statement(commits, heads)
            rows = await self._postgres.run(lambda c: c.fetch(sql, *columns))
            refused = _refusals(commits, rows)
        for place, each in enumerate(commits):
            if place not in refused:
                self._remember(each.item, each.last_hash)
                if not each.future.done():
                    each.future.set_result(None)
                continue
            self._heads.pop(each.item.transition.execution_id, None)
            if not each.future.done():
                each.future.set_exception(refused[place])

    async def _try_with_places(
        self, commits: Sequence[Commit], heads: Sequence[Head]
    ) -> dict[int, StoreError]:
        """Who has a place is asked when nobody else can take or give one back."""

        async def work(connection: Any) -> dict[int, StoreError]:
            async with connection.transaction():
                await lock_keys(connection, [each.item for each in commits])
                refused: dict[int, StoreError] = {}
                for place, each in enumerate(commits):
                    if await is_refused(connection, each.item.transition):
                        refused[place] = Taken(each.item.transition)
                left = [n for n in range(len(commits)) if n not in refused]
                if not left:
                    return refused
                some = [commits[place] for place in left]
                sql, values = _statement(some, [heads[place] for place in left])
                found = _refusals(some, await connection.fetch(sql, *values))
                refused |= {left[place]: error for place, error in found.items()}
                for place, each in enumerate(commits):
                    if place not in refused:
                        await change_place(connection, each.item.transition)
                return refused

        return await self._postgres.run(work)

    async def _head(self, item: Encoded) -> Head:
        """The hash that its first event is linked to; if the log has moved on
        meanwhile, the position refuses it anyway."""
        execution_id, after = item.transition.execution_id, item.after
        if after == 0:
            return Head(0, FIRST)
        head = self._heads.get(execution_id)
        if head is not None and head.seq == after:
            return head
        sql = "SELECT last_hash FROM execution WHERE execution_id = $1"
        found = await self._postgres.run(lambda c: c.fetchval(sql, execution_id))
        return Head(after, found or FIRST)

    def _remember(self, item: Encoded, last_hash: bytes) -> None:
        transition = item.transition
        seq = item.after + len(item.bodies)
        is_open = transition.summary.status in OPEN
        self._heads[transition.execution_id] = Head(seq, last_hash, is_open)
        self._heads.move_to_end(transition.execution_id)
        while len(self._heads) > MOST_HEADS:
            self._heads.popitem(last=False)


def _statement(
    commits: Sequence[Commit], heads: Sequence[Head]
) -> tuple[str, Sequence[Any]]:
    group = Group()
    for each, head in zip(commits, heads, strict=True):
        group.add(each.item, each.hashes, each.last_hash, head.is_open)
    return statement(group.parts(), group.arguments())


def _plain(commit: Commit, head: Head) -> Sequence[Any] | None:
    return plain(commit.item, commit.hashes, commit.last_hash, head.is_open)


def _plain_refusal(commit: Commit, found: int | None) -> dict[int, StoreError]:
    if found is None:
        return {}
    if found == LOST:
        lease = commit.item.transition.leases[0]
        return {0: _refusal(commit.item, 0, lease.command_id)}
    return {0: _refusal(commit.item, found, None)}


def _refusals(commits: Sequence[Commit], rows: Sequence[Any]) -> dict[int, StoreError]:
    """Why each of those is not stored that are not, by their places in the group."""
    return {
        row["place"] - 1: _refusal(
            commits[row["place"] - 1].item, row["last_seq"], row["lost"]
        )
        for row in rows
    }


def hashes_of(item: Encoded, head: Head) -> list[bytes]:
    hashes, last_hash = [], head.last_hash
    for body in item.bodies:
        last_hash = link(last_hash, body)
        hashes.append(last_hash)
    return hashes


def _refusal(item: Encoded, last_seq: int, lost: str | None) -> StoreError:
    transition = item.transition
    if lost is None and transition.after == last_seq == 0:
        return Known(transition)
    if lost is None and item.after == last_seq > 0:
        return Aside(transition.execution_id)
    if lost is None:
        return Conflict(transition.execution_id, transition.after, last_seq)
    for lease in transition.leases:
        if lease.command_id == lost:
            return Lost(lease)
    raise AssertionError(lost)
