"""Where workers on other machines ask and report: the server's side of the wire."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from hashlib import sha256

import msgspec

from noetl.engine.references import is_reference
from noetl.errors import (
    BlobCorrupt,
    BlobNotOwned,
    LeaseLost,
    ProtocolError,
    SecretError,
    SetAside,
    StoreError,
)
from noetl.ports import Blobs, Lease, TaskPlace
from noetl.runtime import wire
from noetl.runtime.claims import Claims, IsGone, stays
from noetl.runtime.drafts import new_draft
from noetl.runtime.live import Answer, Live, Work
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.receipts import Receipts
from noetl.runtime.seals import Seal, seal_secrets, seal_value, unseal_value
from noetl.runtime.worker_leases import Caller, WorkerLeases
from noetl.runtime.worker_reports import WorkerReports


class Desk:
    """Knows no HTTP. A request says which lease it is about; the execution, step, task
    and pool of that lease come from the store, and its owner from the ``Caller``.

    ``on_fenced`` is called for each report or beat of a worker that lost its lease.
    Without ``receipts`` workers are believed what they have stored: they can read
    everything there themselves. Each answer says whether the server ``has_accounts``.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        on_fenced: Callable[[], None] = lambda: None,
        receipts: Receipts | None = None,
        has_accounts: Callable[[], bool] = lambda: False,
    ) -> None:
        self._has_accounts = has_accounts
        self._orchestrator = orchestrator
        self._receipts = receipts
        self._on_fenced = on_fenced
        self._claims = Claims(orchestrator)
        self._leases = WorkerLeases(orchestrator.store, orchestrator.known)
        self._reports = WorkerReports(orchestrator, self._leases, receipts, on_fenced)

    def close(self) -> None:
        """Workers that wait for work are told that there is none, and ask elsewhere."""
        self._claims.close()

    async def claim(
        self, caller: Caller, asked: wire.Claim, is_gone: IsGone = stays
    ) -> wire.Orders:
        """Pipelines for a worker; if there are none, some as soon as there are.

        What a worker gets that ``is_gone`` meanwhile is given back. Raises
        ``AccessError`` for another pool, ``ProtocolError`` for another version.
        """
        caller.require(asked.pool)
        if asked.protocol != wire.PROTOCOL:
            raise ProtocolError(_other_version(asked.protocol))
        mine = msgspec.structs.replace(asked, worker=caller.owner)
        works = await self._claims.answer(mine, is_gone)
        orders = [await self._order(work, caller.seal) for work in works]
        found = [order for order in orders if order is not None]
        return wire.Orders(found, self._orchestrator.ttl, self._has_accounts())

    async def _order(self, work: Work, seal: Seal) -> wire.Order | None:
        """None for what cannot be handed over: others of the same answer can (I-38)."""
        async with self._orchestrator.quarantine.apart(work.lease.execution_id):
            return _order(work, seal)
        return None

    async def report(self, caller: Caller, asked: wire.Reports) -> wire.Replies:
        """Each is answered on its own; those of one execution are decided together."""
        caller.require(asked.pool)
        answers = await self._reports.take(caller, asked)
        replies = [await self._reply(each, caller.seal) for each in answers]
        return wire.Replies(replies, self._has_accounts())

    async def _reply(self, answer: Answer | wire.Reply, seal: Seal) -> wire.Reply:
        if isinstance(answer, wire.Reply):
            return answer
        order = None
        if answer.work is not None:
            order = await self._order(answer.work, seal)
        return wire.Reply(answer.stop, answer.ctx, order, answer.spilled)

    async def beat(self, caller: Caller, asked: wire.Beat) -> wire.Pulse:
        caller.require(asked.pool)
        found = await self._leases.find(caller, asked.leases)
        held = [each.lease for each in found if each.lease and each.refusal is None]
        if asked.leaving:
            await self._orchestrator.release(held)
            await self._orchestrator.sweep()
            return wire.Pulse(has_accounts=self._has_accounts())
        gone = set(await self._orchestrator.renew(held)) if held else set()
        held = [lease for lease in held if lease not in gone]
        kept = {lease.command_id for lease in held}
        lost = {key.command_id for key in asked.leases} - kept
        for _ in lost:
            self._on_fenced()
        ended = {
            execution_id
            for execution_id in {lease.execution_id for lease in held}
            if await self._is_cancelled(execution_id)
        }
        cancelled = [each.command_id for each in held if each.execution_id in ended]
        return wire.Pulse(sorted(lost), cancelled, self._has_accounts())

    async def _is_cancelled(self, execution_id: str) -> bool:
        """What is known here may be old. It says nothing about single commands, whose
        leases are held; and what was cancelled once stays so."""
        if not self._orchestrator.is_loaded(execution_id):
            return False
        with suppress(StoreError):
            await self._orchestrator.refresh(execution_id)
        live = self._orchestrator.live(execution_id)
        return live is not None and live.state.cancelling is not None

    async def source(self, caller: Caller, asked: wire.Source) -> bytes:
        """The playbook's text. Raises ``LeaseLost`` or ``LeaseNotOwned``."""
        _, live = await self._held(caller, asked)
        return await self._orchestrator.blobs.get(live.about["source"])

    async def value(self, caller: Caller, asked: wire.Value) -> bytes:
        """Raises ``LeaseLost``, ``LeaseNotOwned``, ``BlobNotOwned``, ``BlobGone``,
        ``BlobCorrupt`` or ``BlobFormat``."""
        lease, _ = await self._held(caller, asked)
        reference = asked.reference
        if not is_reference(reference):
            raise BlobNotOwned("that is not a reference that a server has made")
        owners = self._orchestrator.owners
        await owners.check(lease.execution_id, reference["key"])
        return msgspec.json.encode(await owners.loader.get(reference))

    async def look(self, caller: Caller, asked: wire.Result) -> Blobs:
        """Where a stored value is, for a worker that may read it.

        Raises ``LeaseLost``, ``LeaseNotOwned`` or ``BlobNotOwned``.
        """
        lease, _ = await self._held(caller, asked)
        await self._orchestrator.owners.check(lease.execution_id, asked.key)
        return self._orchestrator.blobs

    async def keep(
        self, caller: Caller, asked: wire.Upload, parts: AsyncIterator[bytes]
    ) -> wire.Kept:
        """Store what a worker sends. Raises ``LeaseLost``, ``LeaseNotOwned``, or
        ``BlobCorrupt`` if it is not what was announced."""
        lease, live = await self._held(caller, asked)
        blobs = await self._orchestrator.results.of(live.playbook)
        draft = await asyncio.to_thread(new_draft, blobs.drafts)
        try:
            digest, size = sha256(), 0
            with await asyncio.to_thread(open, draft, "xb") as file:
                async for part in parts:
                    size += len(part)
                    if size > asked.size:
                        break
                    digest.update(part)
                    await asyncio.to_thread(file.write, part)
            if size != asked.size or digest.hexdigest() != asked.key:
                raise BlobCorrupt("what came is not what was announced")
            kept = await blobs.adopt(draft)
            receipt = None
            if self._receipts is not None:
                receipt = self._receipts.give(lease.execution_id, kept.key)
            return wire.Kept(kept.key, kept.size, kept.at, receipt)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    async def fetch(self, caller: Caller, asked: wire.Fetch) -> wire.Fetched:
        """Raises ``LeaseLost``, ``LeaseNotOwned`` or ``SecretError``."""
        lease, _ = await self._held(caller, asked)
        at = await self._place(lease, asked.task)
        handle = await self._orchestrator.task_secrets.fetch(at, asked.name)
        live = self._orchestrator.live(lease.execution_id)
        if live is None:
            raise SecretError("secret.sealed", f"{lease.execution_id} has ended")
        value = live.secrets.open(handle)
        sealed = seal_value(caller.seal, value, lease.command_id)
        return wire.Fetched(handle, sealed)

    async def authorize(self, caller: Caller, asked: wire.Authorize) -> wire.Authorized:
        """Raises ``LeaseLost``, ``LeaseNotOwned`` or ``SecretError``."""
        lease, _ = await self._held(caller, asked)
        at = await self._place(lease, asked.task)
        auth = unseal_value(caller.seal, asked.auth, lease.command_id)
        if not isinstance(auth, dict):
            raise SecretError("secret.wrong", "what was sealed is not a credential")
        secrets = self._orchestrator.task_secrets
        token = await secrets.authorize(at, auth, fresh=asked.fresh)
        return wire.Authorized(seal_value(caller.seal, token, lease.command_id))

    async def _held(self, caller: Caller, asked: wire.Asked) -> tuple[Lease, Live]:
        """The lease, and its execution. Raises ``LeaseLost`` or ``LeaseNotOwned``."""
        lease = await self._leases.hold(caller, asked.lease)
        try:
            await self._orchestrator.load(lease.execution_id)
        except SetAside as error:
            raise LeaseLost(str(error)) from None
        live = self._orchestrator.live(lease.execution_id)
        if live is None:
            raise LeaseLost(f"{lease.execution_id} has ended")
        return lease, live

    async def _place(self, lease: Lease, label: str) -> TaskPlace:
        """A task of the step that the lease is for. Raises ``LeaseLost``."""
        run_id, execution_id = lease.command_id.split("/")[0], lease.execution_id
        live = self._orchestrator.live(execution_id)
        if live is None or run_id not in live.state.runs:
            # Another server has scheduled it since this one read the log.
            await self._orchestrator.refresh(execution_id)
            live = self._orchestrator.live(execution_id)
        if live is None or run_id not in live.state.runs:
            raise LeaseLost(f"the command {lease.command_id} has ended")
        return TaskPlace(execution_id, live.state.runs[run_id].step, label)


def _other_version(version: int) -> str:
    return (
        f"this worker speaks version {version} of the workers' protocol, this server "
        f"version {wire.PROTOCOL}: install the same version of noetl on both"
    )


def _reply(answer: Answer | wire.Reply, seal: Seal) -> wire.Reply:
    if isinstance(answer, wire.Reply):
        return answer
    order = _order(answer.work, seal) if answer.work is not None else None
    return wire.Reply(answer.stop, answer.ctx, order, answer.spilled)


def _order(work: Work, seal: Seal) -> wire.Order:
    return wire.Order(
        wire.LeaseKey(work.lease.command_id, work.lease.epoch),
        work.source,
        sorted(work.playbook.extensions),
        work.frame,
        work.progress,
        seal_secrets(seal, work),
        work.folder,
        work.begun,
    )
