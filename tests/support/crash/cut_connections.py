"""PostgreSQL whose connection is cut at one protocol message of a workload."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore, group_commit
from noetl.engine.events import Event
from noetl.errors import LogConflict, StoreError
from noetl.ports import (
    Append,
    Command,
    CommandChanges,
    ConcurrencySlot,
    Reports,
    Summary,
    Timer,
    TimerChanges,
    Transition,
)

NOW = "2026-11-15T08:00:00.000000Z"
NEVER = 1_000_000


class Cut(NamedTuple):
    """The message of both directions at which the connection is lost, and whether the
    message arrives before that."""

    number: int
    moment: Literal["before", "after"]


class MessageProxy:
    """Forwards protocol messages, and cuts one connection at one of them."""

    def __init__(self, target: int, cut: Cut) -> None:
        self._target = target
        self._cut = cut
        self._tasks: set[asyncio.Task[None]] = set()
        self.messages = 0

    def accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(
        self, client: asyncio.StreamReader, answers: asyncio.StreamWriter
    ) -> None:
        server, requests = await asyncio.open_connection("127.0.0.1", self._target)
        ways = [
            asyncio.ensure_future(self._pass(client, requests, typed=False)),
            asyncio.ensure_future(self._pass(server, answers, typed=True)),
        ]
        try:
            await asyncio.wait(ways, return_when="FIRST_COMPLETED")
        finally:
            for way in ways:
                way.cancel()
            for writer in (requests, answers):
                writer.close()  # what was written arrives before the end
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, typed: bool
    ) -> None:
        """Forward messages until the end, or until the cut; the first message of a
        client has no type."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(5 if typed else 4)
                size = int.from_bytes(head[-4:]) - 4
                message = head + await reader.readexactly(size)
                typed = True
                self.messages += 1
                is_cut = self.messages == self._cut.number
                if not is_cut or self._cut.moment == "after":
                    writer.write(message)
                    await writer.drain()
                if is_cut:
                    return


@contextlib.asynccontextmanager
async def cutting(address: str, cut: Cut) -> AsyncIterator[tuple[MessageProxy, str]]:
    port = urlsplit(address).port
    assert port is not None
    middle = MessageProxy(port, cut)
    server = await asyncio.start_server(middle.accept, "127.0.0.1", 0)
    mine = server.sockets[0].getsockname()[1]
    try:
        yield middle, address.replace(f":{port}/", f":{mine}/") + "?sslmode=disable"
    finally:
        server.close()
        await middle.end()


def transition(
    execution_id: str, after: int, count: int = 1, **changes: Any
) -> Transition:
    events = [_event(execution_id, after + 1 + n) for n in range(count)]
    key = changes.pop("request_key", None)
    slot = changes.pop("slot", None)
    summary = Summary(execution_id, changes.pop("status", "running"), {}, NOW)
    names = [*changes.pop("commands", ())]
    timers = [
        Timer(execution_id, each, 5.0, "delay") for each in changes.pop("arm", ())
    ]
    leases = changes.pop("leases", ())
    done = [each.command_id for each in leases]
    pool = execution_id.rpartition("-")[0]  # that of this case alone
    planned = [Command(name, execution_id, pool) for name in names]
    return Transition(
        execution_id=execution_id,
        log=Append(after, events),
        summary=summary,
        reports=Reports(leases, {}),
        commands=CommandChanges(planned, None, done),
        timers=TimerChanges(timers),
        slot=slot,
        request_key=key,
    )


def _event(execution_id: str, seq: int) -> Event:
    return Event(
        event_id=f"{execution_id}.{seq}",
        execution_id=execution_id,
        seq=seq,
        timestamp=NOW,
        source="server",
        name="task.done",
        entity_type="task",
        parent_id=None,
        entity_id=execution_id,
        status="success",
        payload={"text": "x" * 100},
    )


async def work(store: PostgresStore, name: str) -> Mapping[str, int]:
    """Commit in all the ways of the store; return the ends of the logs.

    A commit whose outcome is unknown is resolved by the store; of a commit of several
    executions it says so, and it is looked up here.
    """
    a, b, c = (f"{name}-{each}" for each in "abc")
    await store.commit([transition(a, 0, 2, commands=[f"{a}-1"], request_key=a)])
    leases = await _claimed(store, owner=a, pool=name)
    await store.commit([transition(a, 2, 3, leases=leases, commands=[f"{a}-2"])])
    await asyncio.gather(
        store.commit([transition(a, 5, 2, arm=["t"])]),
        store.commit([transition(b, 0, 1, commands=[f"{b}-1", f"{b}-2"])]),
        store.commit([transition(c, 0, 4)]),
    )
    slot = ConcurrencySlot(f"key-{name}", 1)
    await store.commit([transition(b, 1, 1, slot=slot)])
    both = [transition(b, 2, 2), transition(c, 4, 1)]
    try:
        await store.commit(both)
    except StoreError as error:
        if error.kind != "store.unreachable":
            raise
        if await _length(store, b) == 2:
            await store.commit(both)
    await store.commit([transition(b, 4, 1, status="completed", slot=slot)])
    return {a: 7, b: 5, c: 5}


async def _claimed(store: PostgresStore, owner: str, pool: str) -> Sequence[Any]:
    """Claim a command; after a lost answer ask for what is held, as a worker does."""
    while True:
        with contextlib.suppress(StoreError):
            if held := await store.held(owner):
                return held
            if found := await store.claim(owner, pool=pool, slots=1, now=1.0, ttl=9.0):
                return found


async def _length(store: PostgresStore, execution_id: str) -> int:
    while True:
        with contextlib.suppress(StoreError):
            return await store.length(execution_id)


async def run_case(address: str, cut: Cut, name: str) -> tuple[int, list[str]]:
    """Run the workload once; return the messages, and what is wrong afterwards."""
    wrong = []
    async with cutting(address, cut) as (middle, mine):
        database = Postgres(mine)
        try:
            async with asyncio.timeout(60):
                ends = await work(PostgresStore(database), name)
        except (StoreError, LogConflict, TimeoutError) as error:
            return middle.messages, [f"the workload failed: {error!r}"]
        finally:
            await database.close()
        messages = middle.messages
    database = Postgres(address)
    store = PostgresStore(database)
    for execution_id, end in ends.items():
        seqs = [event.seq for event in await store.read(execution_id)]
        if seqs != list(range(1, end + 1)):
            wrong.append(f"{execution_id} has the events {seqs}, of {end}")
        if (damage := await store.verify(execution_id)) is not None:
            wrong.append(f"{execution_id}: {damage.message}")
    left = list(await store.commands([f"{name}-a-1", f"{name}-a-2"]))
    if left != [f"{name}-a-2"]:
        wrong.append(f"commands {left} are left")
    found = await store.find_request(f"{name}-a")
    if found != f"{name}-a":
        wrong.append(f"the request is of {found}")
    await database.close()
    return messages, wrong


def cuts(messages: int) -> Iterator[Cut]:
    for number in range(1, messages + 1):
        yield Cut(number, "before")
        yield Cut(number, "after")


async def run_cases(address: str, seed: int, count: int) -> dict[str, Any]:
    """Run the workload with a cut at each message, or at ``count`` random ones."""
    group_commit.PATIENCE = (0.002,) * 12
    opened = Postgres(address)
    await PostgresStore.open(opened)
    await opened.close()
    messages, wrong = await run_case(address, Cut(NEVER, "before"), "uncut")
    assert not wrong, wrong
    every = list(cuts(messages))
    if count:
        every = random.Random(seed).sample(every, min(count, len(every)))
    for cut in every:
        name = f"cut-{cut.number}-{cut.moment}"
        _, found = await run_case(address, cut, name)
        wrong += [f"{name}: {each}" for each in found]
    return {"messages": messages, "cases": len(every), "wrong": wrong}
