"""A server elsewhere as a dispatcher: the worker's side of the wire."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from noetl.dsl.model import Playbook
from noetl.engine.reports import Fact, OutOfOrder
from noetl.engine.secrets import Secrets
from noetl.errors import (
    LeaseLost,
    Refused,
    SecretError,
    Unreachable,
)
from noetl.ports import Blobs, Lease, TaskPlace
from noetl.runtime import wire
from noetl.runtime.bell import Bell
from noetl.runtime.dispatch import Shelf, Worker
from noetl.runtime.line import PAUSES, Line
from noetl.runtime.live import Answer, Work
from noetl.runtime.planning import TURN
from noetl.runtime.postbox import Postbox
from noetl.runtime.quarantine import number_of
from noetl.runtime.receipts import claimed_by
from noetl.runtime.remote_shelves import DirectShelf, RemoteShelf
from noetl.runtime.seals import Seal, open_secrets, seal_value, unseal_value
from noetl.runtime.turns import Turns
from noetl.types import JSON

log = logging.getLogger("noetl.worker")

T = TypeVar("T")

WAIT = 20.0
FAREWELL = 2.0
"""Seconds for the last call of a worker."""
PLAYBOOKS = 256
SEEN = 10_000
"""Leases that are remembered, so that none of them is worked on twice."""

Parse = Callable[[bytes, Sequence[str]], Playbook]


class RemoteDispatcher:
    """Without the server its executor goes on until its leases are in danger.

    ``results`` is the store of the servers, or a folder for what is on its way there
    by way of a server.
    """

    def __init__(
        self,
        line: Line,
        parse: Parse,
        seal: Seal,
        results: Blobs | str,
        *,
        worker: str,
        pool: str,
        slots: int,
    ) -> None:
        self.bell = Bell()
        self.turns = Turns()
        self.tokens = RemoteKeys(self)
        self.line = line
        self.seal = seal
        self._parse = parse
        self._results = results
        self._worker = worker
        self._pool = pool
        self._slots = slots
        self._postbox = Postbox(line, worker, pool)
        self._workers: list[Worker] = []
        self._works: dict[str, Work] = {}
        self._stopped: set[str] = set()
        self._receipts: dict[str, dict[str, str]] = {}
        self._seen: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._unsure = False
        self._asking: asyncio.Future[wire.Orders] | None = None
        self._playbooks: OrderedDict[str, Playbook] = OrderedDict()

    @property
    def ttl(self) -> float:
        return self.line.ttl

    @property
    def turn(self) -> float | None:
        return TURN

    def employ(self, worker: Worker) -> None:
        self._workers.append(worker)

    async def claim(self, owner: str, slots: int) -> Sequence[Work]:
        """Waits until there is some: whoever has a free slot has nothing else to do."""
        failures = 0
        while True:
            again, self._unsure = self._unsure, False
            holds = list(self._works) if again else []
            asked = wire.Claim(
                owner, self._pool, slots, WAIT, again, holds, wire.PROTOCOL
            )
            self._asking = asyncio.ensure_future(
                self.line.call("claim", asked, wire.Orders, WAIT + 10)
            )
            try:
                found = await self._asking
            except Unreachable:
                self._unsure = True
                await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
                failures += 1
                continue
            except asyncio.CancelledError:
                if not self._asking.cancelled() or _is_being_stopped():
                    raise
                continue
            failures = 0
            self.line.ttl = found.ttl
            works = [await self._try(order) for order in found.orders]
            if taken := [work for work in works if work is not None]:
                return taken

    async def report(
        self, lease: Lease, facts: Sequence[Fact], *, wants: str | None = None
    ) -> Answer:
        try:
            reply = await self._postbox.send(
                lease,
                facts,
                wants=wants is not None,
                receipts=self._shown(lease, facts),
            )
        except LeaseLost:
            self._forget(lease)
            raise
        if reply.stop:
            self._forget(lease)
        if reply.error is not None:
            kind, message = reply.error
            raise OutOfOrder(message) if kind == "event.order" else LeaseLost(message)
        if reply.duplicate and wants is not None:
            self._unsure = True  # the first answer may have had an order in it
            if self._asking is not None:  # it waits for others, and does not ask for it
                self._asking.cancel()
        work = await self._try(reply.order) if reply.order is not None else None
        return Answer(reply.stop, reply.ctx, work, reply.spilled)

    def _shown(self, lease: Lease, facts: Sequence[Fact]) -> dict[str, str]:
        """The receipts for what these facts name."""
        mine = self._receipts.get(lease.command_id)
        if not mine:
            return {}
        return {key: mine[key] for key in claimed_by(facts) if key in mine}

    def _forget(self, lease: Lease) -> None:
        self._receipts.pop(lease.command_id, None)
        self._works.pop(lease.command_id, None)
        self._stopped.discard(lease.command_id)

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Each server hears of the executions whose reports it hears."""
        homes: dict[str, list[Lease]] = {}
        for lease in leases:
            homes.setdefault(self.line.home_of(lease.execution_id), []).append(lease)
        lost = await asyncio.gather(*(self._renew(each) for each in homes.values()))
        return [lease for some in lost for lease in some]

    async def _renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        beat = wire.Beat(self._worker, self._pool, self._slots, _keys(leases))
        about = leases[0].execution_id
        try:
            pulse = await self.line.call(
                "heartbeat", beat, wire.Pulse, self.ttl / 6, about
            )
        except Unreachable:
            return list(leases) if self.line.in_danger else []
        self._stopped.update(pulse.cancelled)
        for worker in self._workers:
            worker.revoke(pulse.cancelled)
        return [lease for lease in leases if lease.command_id in pulse.lost]

    async def release(self, leases: Sequence[Lease]) -> None:
        keys = _keys(leases)
        beat = wire.Beat(self._worker, self._pool, self._slots, keys, leaving=True)
        with suppress(Unreachable, Refused):
            await self.line.call("heartbeat", beat, wire.Pulse, FAREWELL)

    async def shelf_of(self, work: Work) -> Shelf:
        if isinstance(self._results, str):
            receipts = self._receipts.setdefault(work.lease.command_id, {})
            return RemoteShelf(self.line, work.lease, self._results, receipts)
        return DirectShelf(self.line, work.lease, self._results)

    def is_stopped(self, lease: Lease) -> bool:
        return lease.command_id in self._stopped

    def lease_of(self, at: TaskPlace) -> Lease:
        """A lease of the task's step. Raises ``LeaseLost``."""
        for work in self._works.values():
            frame = work.frame
            if (frame.execution_id, frame.step) == (at.execution_id, at.step):
                return work.lease
        raise LeaseLost(f"nothing of {at.execution_id} runs here")

    def secrets_of(self, execution_id: str) -> Sequence[Secrets]:
        works = self._works.values()
        return [w.secrets for w in works if w.lease.execution_id == execution_id]

    async def _try(self, order: wire.Order) -> Work | None:
        """None for what others do by now, if this worker was frozen since it asked, and
        for what it cannot read: the lease ends, and the server counts that (I-20)."""
        try:
            return await self._accept(order)
        except LeaseLost:
            return None
        except Exception as error:
            about = {"command_id": order.lease.command_id, "defect": number_of(error)}
            log.error("an order cannot be read", extra=about, exc_info=error)
            return None

    async def _accept(self, order: wire.Order) -> Work | None:
        """None for what was accepted before: an order may come by two ways."""
        given, execution_id = order.lease, order.frame.execution_id
        lease = Lease(given.command_id, execution_id, self._worker, given.epoch)
        key = (lease.command_id, lease.epoch)
        if key in self._seen:
            return None
        self._seen[key] = None
        if len(self._seen) > SEEN:
            self._seen.popitem(last=False)
        work = Work(
            lease,
            await self._playbook(order),
            order.frame,
            order.progress,
            open_secrets(self.seal, order),
            order.source,
            order.folder,
            order.begun,
        )
        self._works[lease.command_id] = work
        self._postbox.begin(lease)
        self._stopped.discard(lease.command_id)
        return work

    async def _playbook(self, order: wire.Order) -> Playbook:
        known = self._playbooks.get(order.source)
        if known is None:
            asked = wire.Source(self._worker, order.lease)
            text = await self.line.ask("source", asked, bytes)
            known = self._playbooks[order.source] = self._parse(text, order.extensions)
            if len(self._playbooks) > PLAYBOOKS:
                self._playbooks.popitem(last=False)
        return known


def _is_being_stopped() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _keys(leases: Sequence[Lease]) -> list[wire.LeaseKey]:
    return [wire.LeaseKey(each.command_id, each.epoch) for each in leases]


class RemoteKeys:
    """Secrets, by way of the server: it looks them up, and seals them."""

    def __init__(self, dispatcher: RemoteDispatcher) -> None:
        self._dispatcher = dispatcher

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None,
        path: str | None,
    ) -> dict[str, JSON]:
        """The server knows by itself what the playbook says literally."""
        dispatcher = self._dispatcher
        lease = dispatcher.lease_of(at)
        [key] = _keys([lease])
        asked = wire.Fetch(lease.owner, key, at.task, name)
        found = await self._ask("secret", asked, wire.Fetched)
        value = unseal_value(dispatcher.seal, found.secret, lease.command_id)
        for secrets in dispatcher.secrets_of(at.execution_id):
            secrets.put(found.handle["secret"], value)
        return found.handle

    async def authorize(
        self, at: TaskPlace, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        dispatcher = self._dispatcher
        lease = dispatcher.lease_of(at)
        [key] = _keys([lease])
        sealed = seal_value(dispatcher.seal, dict(auth), lease.command_id)
        asked = wire.Authorize(lease.owner, key, at.task, sealed, fresh)
        found = await self._ask("token", asked, wire.Authorized)
        token: dict[str, JSON] = unseal_value(
            dispatcher.seal, found.auth, lease.command_id
        )
        for secrets in dispatcher.secrets_of(at.execution_id):
            secrets.learn([dict(auth), token])
        return token

    async def _ask(self, path: str, asked: wire.Message, answer: type[T]) -> T:
        try:
            return await self._dispatcher.line.ask(path, asked, answer)
        except Refused as error:
            raise SecretError(error.kind, str(error)) from None
