"""The dispatcher of a remote worker: its requests to the servers."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256

from noetl.dsl.model import Playbook
from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.errors import (
    BlobCorrupt,
    LeaseLost,
    Refused,
    Unreachable,
)
from noetl.ports import Blobs, CallLimit, Lease, LogChunk
from noetl.runtime.dispatcher import ReportAnswer, TaskValues, Wakeup, Worker, WorkItem
from noetl.runtime.event_loop import Turns
from noetl.runtime.executions.placement import TIME_SLICE_S
from noetl.runtime.executions.quarantine import number_of
from noetl.runtime.worker.remote_values import DirectValues, RemoteSecrets, RemoteValues
from noetl.runtime.worker.server_connection import PAUSES, ServerConnection
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.sealing import Seal, claimed_by, open_secrets

log = logging.getLogger("noetl.worker")

WAIT_SECONDS = 20.0
"""Seconds for which a server holds a claim open while it has no work."""
LAST_REQUEST_SECONDS = 2.0
MAX_PLAYBOOKS = 256
MAX_SEEN = 10_000
"""Leases that are remembered, so that none of them runs twice."""

Parse = Callable[[bytes, Sequence[str]], Playbook]


class RemoteDispatcher:
    """Claims work, reports, renews leases, and reads values and secrets.

    Without an answer the executor continues until its leases are in danger.
    ``results`` is the store of the servers, or a folder for values on their way there.
    """

    def __init__(
        self,
        connection: ServerConnection,
        parse: Parse,
        seal: Seal,
        results: Blobs | str,
        *,
        slots: int,
    ) -> None:
        self.wakeup = Wakeup()
        self.turns = Turns()
        self.connection = connection
        self._seal = seal
        self._parse = parse
        self._results = results
        self._worker = connection.worker
        self._pool = connection.pool
        self._slots = slots
        self._workers: list[Worker] = []
        self._works: dict[str, WorkItem] = {}
        self.tokens = RemoteSecrets(connection, seal, self._works)
        self._stopped: set[str] = set()
        self._receipts: dict[str, dict[str, str]] = {}
        self._seen: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._claim_was_lost = False
        self._claiming: asyncio.Future[messages.ClaimReply] | None = None
        self._playbooks: OrderedDict[str, Playbook] = OrderedDict()

    @property
    def ttl(self) -> float:
        return self.connection.ttl

    @property
    def time_slice(self) -> float:
        return TIME_SLICE_S

    @property
    def is_alone(self) -> bool:
        return False

    def register(self, worker: Worker) -> None:
        self._workers.append(worker)

    async def claim(
        self, owner: str, slots: int, *, waits: bool = False
    ) -> Sequence[WorkItem]:
        """Wait for work: the caller has a free slot. With ``waits`` it has none."""
        if waits:
            return await self._claim_waits(owner, slots)
        failures = 0
        while True:
            is_retry, self._claim_was_lost = self._claim_was_lost, False
            message = messages.ClaimRequest(
                owner,
                self._pool,
                slots,
                WAIT_SECONDS,
                is_retry=is_retry,
                held_commands=list(self._works) if is_retry else [],
                protocol=messages.PROTOCOL,
            )
            self._claiming = asyncio.ensure_future(
                self.connection.request_once(
                    message, messages.ClaimReply, seconds=WAIT_SECONDS + 10
                )
            )
            try:
                found = await self._claiming
            except Unreachable:
                self._claim_was_lost = True
                await asyncio.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
                failures += 1
                continue
            except asyncio.CancelledError:
                if not self._claiming.cancelled() or _is_being_stopped():
                    raise
                continue
            failures = 0
            self.connection.leases.ttl = found.lease_seconds
            works = [await self._try(each) for each in found.work]
            if taken := [work for work in works if work is not None]:
                return taken

    async def _claim_waits(self, owner: str, slots: int) -> Sequence[WorkItem]:
        message = messages.ClaimRequest(
            owner, self._pool, slots, waits=True, protocol=messages.PROTOCOL
        )
        try:
            found = await self.connection.request_once(
                message, messages.ClaimReply, seconds=WAIT_SECONDS
            )
        except Unreachable:
            self._claim_was_lost = True  # the next claim asks for its work
            return []
        works = [await self._try(each) for each in found.work]
        return [work for work in works if work is not None]

    async def report(
        self, lease: Lease, facts: Sequence[Fact], *, wants: str | None = None
    ) -> ReportAnswer:
        try:
            reply = await self.connection.report(
                lease,
                facts,
                prefetch=wants is not None,
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
            self._claim_was_lost = True  # the first answer may have contained work
            if self._claiming is not None:  # the open claim does not ask for it
                self._claiming.cancel()
        work = await self._try(reply.work) if reply.work is not None else None
        return ReportAnswer(reply.stop, reply.ctx, work, reply.spilled)

    def _shown(self, lease: Lease, facts: Sequence[Fact]) -> dict[str, str]:
        """Return the receipts of the values that these facts name."""
        mine = self._receipts.get(lease.command_id)
        if not mine:
            return {}
        return {key: mine[key] for key in claimed_by(facts) if key in mine}

    def _forget(self, lease: Lease) -> None:
        self._receipts.pop(lease.command_id, None)
        self._works.pop(lease.command_id, None)
        self._stopped.discard(lease.command_id)

    async def permit(self, lease: Lease, limits: Sequence[CallLimit]) -> float:
        key = messages.LeaseKey(lease.command_id, lease.epoch)
        asked = messages.PermitRequest(self._worker, key, limits)
        reply = await self.connection.request(
            asked, messages.PermitReply, execution_id=lease.execution_id
        )
        return reply.seconds

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Renew leases at the servers that get the reports of their executions."""
        by_server: dict[str, list[Lease]] = {}
        for lease in leases:
            server = self.connection.server_for(lease.execution_id)
            by_server.setdefault(server, []).append(lease)
        lost = await asyncio.gather(*(self._renew(each) for each in by_server.values()))
        return [lease for some in lost for lease in some]

    async def _renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        heartbeat = messages.Heartbeat(
            self._worker, self._pool, self._slots, _keys(leases)
        )
        reply = await self._beat(heartbeat, leases[0].execution_id)
        if reply is None:
            return list(leases)
        self._stopped.update(reply.cancelled)
        for worker in self._workers:
            worker.revoke(reply.cancelled)
        return [lease for lease in leases if lease.command_id in reply.lost]

    async def _beat(
        self, heartbeat: messages.Heartbeat, execution_id: str
    ) -> messages.HeartbeatReply | None:
        """Send a heartbeat until a server answers; return None if none has answered in
        time, before other workers may take the leases (I-19)."""
        attempt = 0
        while True:
            try:
                return await self.connection.request_once(
                    heartbeat,
                    messages.HeartbeatReply,
                    seconds=self.ttl / 6,
                    execution_id=execution_id,
                )
            except (Unreachable, Refused) as error:
                if attempt == 0:
                    log.warning("leases could not be renewed: %s", error)
                if self.connection.leases.in_danger(heartbeat.leases):
                    return None
            await self.connection.pause(attempt)
            attempt += 1

    async def release(self, leases: Sequence[Lease]) -> None:
        heartbeat = messages.Heartbeat(
            self._worker, self._pool, self._slots, _keys(leases), leaving=True
        )
        with suppress(Unreachable, Refused):
            await self.connection.request_once(
                heartbeat, messages.HeartbeatReply, seconds=LAST_REQUEST_SECONDS
            )

    async def append_logs(self, chunks: Sequence[LogChunk]) -> None:
        """Send what tasks printed to the servers of their executions.

        Raises ``Refused``, or ``LeaseLost`` if no server answers in time.
        """
        batches: dict[str, list[messages.LogEntry]] = {}
        first: dict[str, str] = {}
        for chunk in chunks:
            execution_id = chunk.source.execution_id
            server = self.connection.server_for(execution_id)
            batches.setdefault(server, []).append(_log_entry(chunk))
            first.setdefault(server, execution_id)
        for server, entries in batches.items():
            await self.connection.request(
                messages.LogBatch(self._worker, self._pool, entries),
                messages.LogBatchReply,
                execution_id=first[server],
            )

    async def values_for(self, work: WorkItem) -> TaskValues:
        if isinstance(self._results, str):
            receipts = self._receipts.setdefault(work.lease.command_id, {})
            return RemoteValues(self.connection, work.lease, self._results, receipts)
        return DirectValues(self.connection, work.lease, self._results)

    def is_stopped(self, lease: Lease) -> bool:
        if self.connection.leases.in_danger(_keys([lease])):
            # Renewals failed, or this process was suspended.
            raise LeaseLost(f"the lease of {lease.command_id} may be over by now")
        return lease.command_id in self._stopped

    async def _try(self, message: messages.WorkMessage) -> WorkItem | None:
        """Read a message. None for work that another worker may have by now, since this
        process was suspended or the answer was late, and for an unreadable message: its
        lease expires, and the server counts that (I-20).
        """
        if self.connection.leases.in_danger([message.lease]):
            log.warning("%s came too late", message.lease.command_id)
            return None
        try:
            return await self._accept(message)
        except LeaseLost:
            return None
        except Exception as error:
            about = {"command_id": message.lease.command_id, "defect": number_of(error)}
            log.error("a work message cannot be read", extra=about, exc_info=error)
            return None

    async def _accept(self, message: messages.WorkMessage) -> WorkItem | None:
        """Accept work; None if it was accepted before: two replies may contain it."""
        key, execution_id = message.lease, message.frame.execution_id
        lease = Lease(key.command_id, execution_id, self._worker, key.epoch)
        if (key.command_id, key.epoch) in self._seen:
            return None
        self._seen[key.command_id, key.epoch] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        work = WorkItem(
            lease,
            await self._playbook(message),
            message.frame,
            message.progress,
            open_secrets(self._seal, message),
            message.playbook_key,
            message.folder,
            message.started,
        )
        self._works[lease.command_id] = work
        self.connection.begin(lease)
        self._stopped.discard(lease.command_id)
        return work

    async def _playbook(self, message: messages.WorkMessage) -> Playbook:
        key = message.playbook_key
        known = self._playbooks.get(key)
        if known is None:
            asked = messages.PlaybookRequest(self._worker, message.lease)
            text = await self.connection.request(asked, bytes)
            if sha256(text).hexdigest() != key:
                raise BlobCorrupt(f"the received playbook {key} has another hash")
            known = self._playbooks[key] = self._parse(text, message.extensions)
            if len(self._playbooks) > MAX_PLAYBOOKS:
                self._playbooks.popitem(last=False)
        return known


def _log_entry(chunk: LogChunk) -> messages.LogEntry:
    source = chunk.source
    return messages.LogEntry(
        messages.LeaseKey(source.command_id, source.epoch),
        source.task,
        int(source.task_run_id.rpartition(".")[2]),
        source.attempt,
        chunk.part,
        chunk.texts,
    )


def _is_being_stopped() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _keys(leases: Sequence[Lease]) -> list[messages.LeaseKey]:
    return [messages.LeaseKey(each.command_id, each.epoch) for each in leases]
