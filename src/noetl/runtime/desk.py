"""Where workers on other machines ask and report: the server's side of the wire."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec

from noetl.engine.references import is_reference
from noetl.engine.reports import OutOfOrder
from noetl.errors import (
    BlobCorrupt,
    BlobNotOwned,
    LeaseLost,
    SecretError,
    SetAside,
    StoreError,
)
from noetl.ports import Blobs, Lease
from noetl.runtime import wire
from noetl.runtime.claims import Claims, IsGone, stays
from noetl.runtime.drafts import new_draft
from noetl.runtime.live import Answer, Live, Wanting, Work
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.recall import recall
from noetl.runtime.receipts import Receipts
from noetl.runtime.seals import Seal, seal_secrets, seal_value, unseal_value
from noetl.types import JSON

_OVER = frozenset({LeaseLost.kind, SetAside.kind, "store.missing"})
"""Why nobody wants to hear of a lease any more."""


class Desk:
    """Knows no HTTP. What a worker may say was checked before it came here.

    ``on_fenced`` is called for each report or beat of a worker that lost its lease.
    Without ``receipts`` workers are believed what they have stored: they can read
    everything there themselves.
    """

    def __init__(
        self,
        orchestrator: Orchestrator,
        on_fenced: Callable[[], None] = lambda: None,
        receipts: Receipts | None = None,
    ) -> None:
        self._orchestrator = orchestrator
        self._receipts = receipts
        self._on_fenced = on_fenced
        self._claims = Claims(orchestrator)

    def close(self) -> None:
        """Whoever waits for work is told that there is none, and asks elsewhere."""
        self._claims.close()

    async def claim(
        self, asked: wire.Claim, seal: Seal, is_gone: IsGone = stays
    ) -> wire.Orders:
        """Pipelines for a worker; if there are none, some as soon as there are.

        What a worker gets that ``is_gone`` meanwhile is given back.
        """
        works = await self._claims.answer(asked, is_gone)
        orders = [await self._order(work, seal) for work in works]
        found = [order for order in orders if order is not None]
        return wire.Orders(found, self._orchestrator.ttl)

    async def _order(self, work: Work, seal: Seal) -> wire.Order | None:
        """None for what cannot be handed over: others of the same answer can (I-38)."""
        async with self._orchestrator.quarantine.apart(work.lease.execution_id):
            return _order(work, seal)
        return None

    async def report(self, asked: wire.Reports, seal: Seal) -> wire.Replies:
        """Each is answered on its own; those of one execution are decided together."""
        answers = await asyncio.gather(
            *(self._put(asked, each) for each in asked.reports), return_exceptions=True
        )
        return wire.Replies(
            [
                await self._reply(each, answer, seal)
                for each, answer in zip(asked.reports, answers, strict=True)
            ]
        )

    async def beat(self, asked: wire.Beat) -> wire.Pulse:
        if asked.leaving:
            await self._orchestrator.release(asked.leases)
            await self._orchestrator.sweep()
            return wire.Pulse()
        lost = await self._orchestrator.renew(asked.leases)
        for _ in lost:
            self._on_fenced()
        gone = {lease.command_id for lease in lost}
        held = [each for each in asked.leases if each.command_id not in gone]
        ended = {
            execution_id
            for execution_id in {lease.execution_id for lease in held}
            if await self._is_cancelled(execution_id)
        }
        cancelled = [each.command_id for each in held if each.execution_id in ended]
        return wire.Pulse(sorted(gone), cancelled)

    async def _is_cancelled(self, execution_id: str) -> bool:
        """What is known here may be old. It says nothing about single commands, whose
        leases are held; and what was cancelled once stays so."""
        if not self._orchestrator.is_loaded(execution_id):
            return False
        with suppress(StoreError):
            await self._orchestrator.refresh(execution_id)
        live = self._orchestrator.live(execution_id)
        return live is not None and live.state.cancelling is not None

    async def source(self, asked: wire.Source) -> bytes:
        """The playbook's text. Raises ``LeaseLost``."""
        live = await self._held(asked.lease)
        return await self._orchestrator.blobs.get(live.about["source"])

    async def value(self, asked: wire.Value) -> bytes:
        """Raises ``LeaseLost``, ``BlobNotOwned``, ``BlobGone``, ``BlobCorrupt`` or
        ``BlobFormat``."""
        live = await self._held(asked.lease)
        reference = asked.reference
        if not is_reference(reference):
            raise BlobNotOwned("that is not a reference that a server has made")
        owners, name = self._orchestrator.owners, live.state.execution_id
        await owners.check(name, reference["key"])
        return msgspec.json.encode(await owners.loader.get(reference))

    async def look(self, asked: wire.Result) -> Blobs:
        """Where a stored value is, for a worker that may read it.

        Raises ``LeaseLost`` or ``BlobNotOwned``.
        """
        live = await self._held(asked.lease)
        await self._orchestrator.owners.check(live.state.execution_id, asked.key)
        return self._orchestrator.blobs

    async def keep(self, asked: wire.Upload, parts: AsyncIterator[bytes]) -> wire.Kept:
        """Store what a worker sends. Raises ``LeaseLost``, or ``BlobCorrupt`` if it
        is not what was announced."""
        live = await self._held(asked.lease)
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
                receipt = self._receipts.give(asked.lease.execution_id, kept.key)
            return wire.Kept(kept.key, kept.size, kept.at, receipt)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)

    async def fetch(self, asked: wire.Fetch, seal: Seal) -> wire.Fetched:
        """Raises ``LeaseLost`` or ``SecretError``."""
        lease = asked.lease
        await self._held(lease)
        handle = await self._orchestrator.keys.fetch(
            lease.execution_id, asked.name, asked.provider, asked.path
        )
        live = self._orchestrator.live(lease.execution_id)
        if live is None:
            raise SecretError("secret.sealed", f"{lease.execution_id} has ended")
        value = live.secrets.open(handle)
        return wire.Fetched(handle, seal_value(seal, value, lease))

    async def authorize(self, asked: wire.Authorize, seal: Seal) -> wire.Authorized:
        """Raises ``LeaseLost`` or ``SecretError``."""
        lease = asked.lease
        await self._held(lease)
        auth = unseal_value(seal, asked.auth, lease)
        token = await self._orchestrator.keys.authorize(
            lease.execution_id, auth, fresh=asked.fresh
        )
        return wire.Authorized(seal_value(seal, token, lease))

    async def _held(self, lease: Lease) -> Live:
        """The execution of a lease. Raises ``LeaseLost`` if it is not held."""
        if await self._orchestrator.store.reported(lease) is None:
            raise LeaseLost(f"{lease.owner} does not hold {lease.command_id}")
        try:
            await self._orchestrator.load(lease.execution_id)
        except SetAside as error:
            raise LeaseLost(str(error)) from None
        live = self._orchestrator.live(lease.execution_id)
        if live is None:
            raise LeaseLost(f"{lease.execution_id} has ended")
        return live

    def _put(
        self, asked: wire.Reports, each: wire.Report
    ) -> Awaitable[Answer | wire.Reply]:
        """What is loaded is put in line at once: a task for each report would cost as
        much as to decide on it."""
        lease = each.lease
        loaded = self._orchestrator.is_loaded(lease.execution_id)
        if each.again or not loaded or self._unproven(each):
            return self._report(asked, each)
        wants = Wanting(asked.worker, asked.pool) if each.wants else None
        return self._orchestrator.submit(lease, each.facts, wants, each.number)

    async def _report(
        self, asked: wire.Reports, each: wire.Report
    ) -> Answer | wire.Reply:
        name = each.lease.execution_id
        for key in self._unproven(each):
            await self._orchestrator.owners.check(name, key)
        if each.again and (known := await self._known(each)) is not None:
            return known
        return await self._orchestrator.report(
            each.lease,
            each.facts,
            wants=asked.worker if each.wants else None,
            pool=asked.pool,
            number=each.number,
        )

    async def _reply(
        self,
        each: wire.Report,
        answer: Answer | wire.Reply | BaseException,
        seal: Seal,
    ) -> wire.Reply:
        if isinstance(answer, Answer):
            order = None
            if answer.work is not None:
                order = await self._order(answer.work, seal)
            return wire.Reply(answer.stop, answer.ctx, order, answer.spilled)
        if isinstance(answer, wire.Reply):
            return answer
        lease = each.lease
        if isinstance(answer, BlobNotOwned):
            return await self._not_held(lease, _refused_reply(answer.kind, str(answer)))
        try:
            if isinstance(answer, Exception):
                await self._orchestrator.quarantine.judge(lease.execution_id, answer)
            raise answer
        except StoreError as error:
            if error.kind not in _OVER:
                raise
            self._on_fenced()
            return await self._not_held(
                lease, _refused_reply(LeaseLost.kind, str(error))
            )
        except OutOfOrder as error:
            last = await self._orchestrator.store.reported(lease)
            if last is not None and each.number <= last:
                return await self._repeated(each, is_held=True)
            return await self._not_held(
                lease, _refused_reply("event.order", str(error))
            )

    def _unproven(self, each: wire.Report) -> Sequence[JSON]:
        """What a report says it has stored must have come from there, or have been its
        execution's before."""
        if self._receipts is None:
            return ()
        name = each.lease.execution_id
        return self._receipts.unproven(name, each.facts, each.receipts)

    async def _not_held(self, lease: Lease, refused: wire.Reply) -> wire.Reply:
        """Lost, or made up: of what was never leased nobody can be the owner. If it is
        held all the same, it was ``refused`` for another reason."""
        if (
            not 0
            < lease.epoch
            <= await self._orchestrator.store.epoch(lease.command_id)
        ):
            message = f"{lease.command_id} was never leased at epoch {lease.epoch}"
            return _refused_reply("lease.not_owner", message)
        if await self._orchestrator.store.reported(lease) is None:
            message = f"{lease.owner} does not hold {lease.command_id} any more"
            return _refused_reply(LeaseLost.kind, message)
        return refused

    async def _known(self, each: wire.Report) -> wire.Reply | None:
        """The answer to a report that is recorded, though its answer was lost."""
        store, lease = self._orchestrator.store, each.lease
        last = await store.reported(lease)
        if last is not None and last < each.number:
            return None
        if last is None and await store.epoch(lease.command_id) != lease.epoch:
            return wire.Reply(stop=True, duplicate=True)  # it is somebody else's
        return await self._repeated(each, is_held=last is not None)

    async def _repeated(self, each: wire.Report, *, is_held: bool) -> wire.Reply:
        """Its number was used before: the log says whether for the same report. What
        is not held has ended with it, or nobody knows of it: it is over."""
        lease = each.lease
        verdict = await recall(self._orchestrator.store, lease, each.facts)
        if verdict == "other" or (verdict == "unknown" and is_held):
            message = (
                f"report {each.number} of {lease.command_id} is recorded, and says "
                "something else"
            )
            return _refused_reply("event.id_reused", message)
        if not is_held:
            return wire.Reply(stop=True, duplicate=True)
        state = await self._orchestrator.load(lease.execution_id)
        return wire.Reply(ctx=state.ctx, spilled=state.spilled, duplicate=True)


def _refused_reply(kind: str, message: str) -> wire.Reply:
    return wire.Reply(stop=True, error=(kind, message))


def _order(work: Work, seal: Seal) -> wire.Order:
    return wire.Order(
        work.lease,
        work.source,
        sorted(work.playbook.extensions),
        work.frame,
        work.progress,
        seal_secrets(seal, work),
        work.folder,
        work.begun,
    )
