"""The server's side of the worker protocol: claims, reports, heartbeats, values."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Protocol

import msgspec

from noetl.engine.values.references import is_reference
from noetl.errors import (
    BlobCorrupt,
    BlobNotOwned,
    LeaseLost,
    ProtocolError,
    SecretError,
    SetAside,
    StoreError,
)
from noetl.ports import Blobs, Lease, LogChunk, LogSource, TaskLogs, TaskPlace
from noetl.ports.task_logs import MAX_ATTEMPT_BYTES, LogText
from noetl.runtime.dispatcher import ReportAnswer, WorkItem
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.worker.result_writer import new_draft
from noetl.runtime.worker_protocol import messages as wire
from noetl.runtime.worker_protocol.leases import MAX_CACHED, Caller, WorkerLeases
from noetl.runtime.worker_protocol.long_poll import IsGone, LongPoll, never_gone
from noetl.runtime.worker_protocol.reports import WorkerReports
from noetl.runtime.worker_protocol.sealing import (
    HandleScan,
    Seal,
    UploadReceipts,
    check_upload,
    foreign_names,
    seal_secrets,
    seal_value,
    unseal_value,
)


class Tenancy(Protocol):
    """Whether a server has accounts besides its owner's and those of workers."""

    @property
    def has_accounts(self) -> bool: ...


class OneUser:
    """The tenancy of a server that only its owner uses."""

    has_accounts = False


class WorkerGateway:
    """Answers workers on other machines, without knowing HTTP.

    A request names its lease; the execution, step, task and pool of that lease come
    from the store, and its owner from the ``Caller``. ``on_fenced`` is called for each
    report or heartbeat of a worker that lost its lease. Without ``receipts`` the
    gateway trusts workers about what they have stored: such workers can read the whole
    store themselves. ``task_logs`` keeps what tasks print. Each answer contains whether
    the server has accounts.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        on_fenced: Callable[[], None] = lambda: None,
        receipts: UploadReceipts | None = None,
        tenancy: Tenancy | None = None,
        task_logs: TaskLogs | None = None,
    ) -> None:
        self._task_logs = task_logs
        self._log_budget = LogBudget()
        self._tenancy = tenancy or OneUser()
        self._orchestrator = orchestrator
        self._receipts = receipts
        self._on_fenced = on_fenced
        self._long_poll = LongPoll(orchestrator)
        self._leases = WorkerLeases(orchestrator.store, orchestrator.known)
        self._reports = WorkerReports(orchestrator, self._leases, receipts, on_fenced)

    def close(self) -> None:
        """Answers waiting claims without work, so that workers ask another server."""
        self._long_poll.close()

    async def claim(
        self, caller: Caller, asked: wire.ClaimRequest, is_gone: IsGone = never_gone
    ) -> wire.ClaimReply:
        """Return pipelines for a worker, at once or as soon as there are some.

        If the worker ``is_gone`` by then, they are released. Raises ``AccessError`` for
        another pool, ``ProtocolError`` for another version.
        """
        caller.require(asked.pool)
        if not wire.is_served(asked.protocol):
            raise ProtocolError(wire.wrong_version(asked.protocol))
        mine = msgspec.structs.replace(asked, worker=caller.owner)
        works, waited = await self._long_poll.answer(mine, is_gone)
        messages = [await self._message(work, caller.seal) for work in works]
        found = [message for message in messages if message is not None]
        ttl = self._orchestrator.placement.ttl
        known = waited if asked.protocol >= wire.SAYS_WAITED else 0.0
        return wire.ClaimReply(found, ttl, self._tenancy.has_accounts, known)

    async def _message(self, work: WorkItem, seal: Seal) -> wire.WorkMessage | None:
        """Return the message, or None for work that cannot be encoded (I-38)."""
        try:
            return _message(work, seal)
        except Exception:
            async with self._orchestrator.quarantine.apart(work.lease.execution_id):
                raise
        return None

    async def report(
        self, caller: Caller, asked: wire.ReportBatch
    ) -> wire.ReportBatchReply:
        """Answers each report; those of one execution are decided together."""
        caller.require(asked.pool)
        answers = await self._reports.take(caller, asked)
        replies = [await self._reply(each, caller.seal) for each in answers]
        return wire.ReportBatchReply(replies, self._tenancy.has_accounts)

    async def _reply(
        self, answer: ReportAnswer | wire.ReportReply, seal: Seal
    ) -> wire.ReportReply:
        if isinstance(answer, wire.ReportReply):
            return answer
        message = None
        if answer.work is not None:
            message = await self._message(answer.work, seal)
        return wire.ReportReply(answer.stop, answer.ctx, message, answer.spilled)

    async def heartbeat(
        self, caller: Caller, asked: wire.Heartbeat
    ) -> wire.HeartbeatReply:
        caller.require(asked.pool)
        found = await self._leases.find(caller, asked.leases)
        held = [each.lease for each in found if each.lease and each.refusal is None]
        if asked.leaving:
            await self._orchestrator.assignment.release(held)
            await self._orchestrator.sweep()
            return wire.HeartbeatReply(has_accounts=self._tenancy.has_accounts)
        gone = set(await self._orchestrator.assignment.renew(held)) if held else set()
        held = [lease for lease in held if lease not in gone]
        kept = {lease.command_id for lease in held}
        lost = {key.command_id for key in asked.leases} - kept
        for _ in lost:
            self._on_fenced()
        ended = {
            execution_id
            for execution_id in dict.fromkeys(lease.execution_id for lease in held)
            if await self._is_cancelled(execution_id)
        }
        cancelled = [each.command_id for each in held if each.execution_id in ended]
        return wire.HeartbeatReply(sorted(lost), cancelled, self._tenancy.has_accounts)

    async def _is_cancelled(self, execution_id: str) -> bool:
        """Check the execution, whose leases are held. The state in memory may be old,
        but a cancelled execution stays cancelled.
        """
        if execution_id not in self._orchestrator.cache:
            return False
        with suppress(StoreError):
            await self._orchestrator.refresh(execution_id)
        live = self._orchestrator.cache.get(execution_id)
        return live is not None and live.state.cancelling is not None

    async def log(self, caller: Caller, asked: wire.LogBatch) -> wire.LogBatchReply:
        """Store what tasks of leased pipelines printed. Raises ``StoreError``.

        A worker can only append to the logs of leases that it holds, or held until
        their commands ended.
        """
        caller.require(asked.pool)
        found = await self._leases.find(caller, [each.lease for each in asked.entries])
        chunks: list[LogChunk] = []
        refused: set[str] = set()
        for entry, finding in zip(asked.entries, found, strict=True):
            source = None
            if finding.lease is not None:
                source = await self._log_source(finding.lease, entry)
            if source is None or not self._log_budget.take(source, entry.texts):
                refused.add(entry.lease.command_id)
            else:
                chunks.append(LogChunk(source, entry.part, entry.texts))
        if chunks and self._task_logs is not None:
            await self._task_logs.append(chunks)
        return wire.LogBatchReply(sorted(refused))

    async def _log_source(self, lease: Lease, entry: wire.LogEntry) -> LogSource | None:
        """Return the attempt; None for a task that the leased step does not have."""
        try:
            await self._orchestrator.load(lease.execution_id)
            at = await self._place(lease, entry.task)
        except (LeaseLost, SetAside):
            return None
        live = self._orchestrator.cache.get(lease.execution_id)
        tasks = live.playbook.steps[at.step].tasks if live is not None else ()
        if entry.task not in {task.label for task in tasks}:
            return None
        return LogSource(
            lease.execution_id,
            at.step,
            lease.command_id,
            entry.task,
            f"{lease.command_id}:{entry.task}.{entry.visit}",
            entry.attempt,
            lease.epoch,
        )

    async def playbook(self, caller: Caller, asked: wire.PlaybookRequest) -> bytes:
        """Return the playbook's text. Raises ``LeaseLost`` or ``LeaseNotOwned``."""
        _, live = await self._held(caller, asked)
        return await self._orchestrator.blobs.get(live.about["source"])

    async def value(self, caller: Caller, asked: wire.ValueRequest) -> bytes:
        """Return the value. Raises ``LeaseLost``, ``LeaseNotOwned``, ``BlobNotOwned``,
        ``BlobGone``, ``BlobCorrupt`` or ``BlobFormat``.
        """
        lease, _ = await self._held(caller, asked)
        reference = asked.reference
        if not is_reference(reference):
            raise BlobNotOwned("that is not a reference that a server has made")
        owners = self._orchestrator.owners
        await owners.check(lease.execution_id, reference["key"])
        return msgspec.json.encode(await owners.loader.get(reference))

    async def blob(self, caller: Caller, asked: wire.BlobRequest) -> Blobs:
        """Return the store of a value, for a worker that may read the value.

        Raises ``LeaseLost``, ``LeaseNotOwned`` or ``BlobNotOwned``.
        """
        lease, _ = await self._held(caller, asked)
        await self._orchestrator.owners.check(lease.execution_id, asked.key)
        return self._orchestrator.blobs

    async def upload(
        self, caller: Caller, asked: wire.UploadRequest, parts: AsyncIterator[bytes]
    ) -> wire.UploadReply:
        """Store a value that a worker sends.

        Raises ``LeaseLost``, ``LeaseNotOwned``, ``BlobCorrupt`` if the bytes differ
        from the announcement, or ``BlobNotOwned`` if they hold the handle of a secret
        that was not given to the worker.
        """
        lease, live = await self._held(caller, asked)
        blobs = await self._orchestrator.results.of(live.playbook)
        scan = HandleScan(foreign_names(live, lease))
        draft = await asyncio.to_thread(new_draft, blobs.drafts)
        try:
            digest, size = sha256(), 0
            with await asyncio.to_thread(open, draft, "xb") as file:
                async for part in parts:
                    size += len(part)
                    if size > asked.size:
                        break
                    digest.update(part)
                    scan.feed(part)
                    await asyncio.to_thread(file.write, part)
            if size != asked.size or digest.hexdigest() != asked.key:
                raise BlobCorrupt(
                    "the uploaded bytes differ from the announced hash or size"
                )
            owners = self._orchestrator.owners
            await check_upload(owners, live, lease, scan.found)
            kept = await blobs.adopt(draft)
            receipt = None
            if self._receipts is not None:
                receipt = self._receipts.give(lease.execution_id, kept.key)
            return wire.UploadReply(kept.key, kept.size, kept.at, receipt)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    async def secret(
        self, caller: Caller, asked: wire.SecretRequest
    ) -> wire.SecretReply:
        """Fetch and encrypt a secret.

        Raises ``LeaseLost``, ``LeaseNotOwned`` or ``SecretError``.
        """
        lease, _ = await self._held(caller, asked)
        at = await self._place(lease, asked.task)
        handle = await self._orchestrator.task_secrets.fetch(at, asked.name)
        live = self._orchestrator.cache.get(lease.execution_id)
        if live is None:
            raise SecretError("secret.sealed", f"{lease.execution_id} has ended")
        value = live.secrets.open(handle)
        sealed = seal_value(caller.seal, value, lease.command_id)
        return wire.SecretReply(handle, sealed)

    async def token(self, caller: Caller, asked: wire.TokenRequest) -> wire.TokenReply:
        """Return an encrypted token.

        Raises ``LeaseLost``, ``LeaseNotOwned`` or ``SecretError``.
        """
        lease, _ = await self._held(caller, asked)
        at = await self._place(lease, asked.task)
        auth = unseal_value(caller.seal, asked.auth, lease.command_id)
        if not isinstance(auth, dict):
            raise SecretError("secret.wrong", "the decrypted value is not a credential")
        secrets = self._orchestrator.task_secrets
        token = await secrets.authorize(at, auth, fresh=asked.fresh)
        return wire.TokenReply(seal_value(caller.seal, token, lease.command_id))

    async def permit(
        self, caller: Caller, asked: wire.PermitRequest
    ) -> wire.PermitReply:
        """Permit one call of a tool, or return when the worker may ask again.

        Raises ``LeaseLost`` or ``LeaseNotOwned``.
        """
        lease = await self._leases.hold(caller, asked.lease)
        assignment = self._orchestrator.assignment
        return wire.PermitReply(await assignment.permit(lease, asked.limits))

    async def _held(
        self, caller: Caller, asked: wire.LeaseRequest
    ) -> tuple[Lease, LoadedExecution]:
        """Return lease and execution. Raises ``LeaseLost`` or ``LeaseNotOwned``."""
        lease = await self._leases.hold(caller, asked.lease)
        try:
            await self._orchestrator.load(lease.execution_id)
        except SetAside as error:
            raise LeaseLost(str(error)) from None
        live = self._orchestrator.cache.get(lease.execution_id)
        if live is None:
            raise LeaseLost(f"{lease.execution_id} has ended")
        return lease, live

    async def _place(self, lease: Lease, label: str) -> TaskPlace:
        """Return a task of the step of the lease. Raises ``LeaseLost``."""
        run_id, execution_id = lease.command_id.split("/")[0], lease.execution_id
        live = self._orchestrator.cache.get(execution_id)
        if live is None or run_id not in live.state.runs:
            # Another server has scheduled it since this one read the log.
            await self._orchestrator.refresh(execution_id)
            live = self._orchestrator.cache.get(execution_id)
        if live is None or run_id not in live.state.runs:
            raise LeaseLost(f"the command {lease.command_id} has ended")
        return TaskPlace(execution_id, live.state.runs[run_id].step, label)


class LogBudget:
    """Bounds what workers append to the log of one attempt; they bound it, too."""

    def __init__(self, most: int = MAX_ATTEMPT_BYTES + MAX_ATTEMPT_BYTES // 8) -> None:
        self._most = most
        self._sizes: OrderedDict[LogSource, int] = OrderedDict()

    def take(self, source: LogSource, texts: Sequence[LogText]) -> bool:
        size = self._sizes.pop(source, 0) + sum(len(each.text) for each in texts)
        self._sizes[source] = size
        if len(self._sizes) > MAX_CACHED:
            self._sizes.popitem(last=False)
        return size <= self._most


def _message(work: WorkItem, seal: Seal) -> wire.WorkMessage:
    return wire.WorkMessage(
        wire.LeaseKey(work.lease.command_id, work.lease.epoch),
        work.source,
        sorted(work.playbook.extensions),
        work.frame,
        work.progress,
        seal_secrets(seal, work),
        work.folder,
        work.begun,
    )
