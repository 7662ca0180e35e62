"""Reports of workers elsewhere: each recorded once, under a lease that is held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from noetl.engine.reports import OutOfOrder
from noetl.errors import BlobNotOwned, LeaseLost, SetAside, StoreError
from noetl.ports import Lease
from noetl.runtime import wire
from noetl.runtime.live import Answer, Wanting
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.recall import recall
from noetl.runtime.receipts import Receipts
from noetl.runtime.worker_leases import Caller, Finding, WorkerLeases
from noetl.types import JSON

_OVER = frozenset({LeaseLost.kind, SetAside.kind, "store.missing"})
"""Errors after which nothing more can be recorded under a lease."""

Outcome = Answer | wire.Reply | BaseException


class WorkerReports:
    """Without ``receipts`` workers are believed what they have stored."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        leases: WorkerLeases,
        receipts: Receipts | None,
        on_fenced: Callable[[], None],
    ) -> None:
        self._orchestrator = orchestrator
        self._leases = leases
        self._receipts = receipts
        self._on_fenced = on_fenced

    async def take(
        self, caller: Caller, asked: wire.Reports
    ) -> list[Answer | wire.Reply]:
        """An answer to each; those of one execution are decided together."""
        reports = asked.reports
        found = await self._find(caller, reports)
        wants = Wanting(caller.owner, asked.pool)
        outcomes: list[Outcome] = await asyncio.gather(
            *(
                self._put(finding, each, wants)
                for finding, each in zip(found, reports, strict=True)
            ),
            return_exceptions=True,
        )
        return [
            await self._settle(caller, finding, each, outcome)
            for finding, each, outcome in zip(found, reports, outcomes, strict=True)
        ]

    async def _find(
        self, caller: Caller, reports: Sequence[wire.Report]
    ) -> list[Finding]:
        """The store is asked, once for all of them, only for those leases that this
        server does not know of, and where a report is sent again."""
        known = [
            None if each.again else self._leases.recall(caller, each.lease)
            for each in reports
        ]
        places = [place for place, found in enumerate(known) if found is None]
        asked = [reports[place].lease for place in places]
        found = dict(zip(places, await self._leases.find(caller, asked), strict=True))
        return [each or found[place] for place, each in enumerate(known)]

    def _put(
        self, finding: Finding, each: wire.Report, wants: Wanting
    ) -> Awaitable[Answer | wire.Reply]:
        """What is loaded is put in line at once: a task for each report would cost as
        much as to decide on it."""
        lease = finding.lease
        if finding.refusal is not None or lease is None:
            return self._refuse(finding, each)
        loaded = self._orchestrator.is_loaded(lease.execution_id)
        if each.again or not loaded or self._unproven(lease, each):
            return self._report(lease, finding.reported, each, wants)
        asked = wants if each.wants else None
        return self._orchestrator.submit(lease, each.facts, asked, each.number)

    async def _refuse(self, finding: Finding, each: wire.Report) -> wire.Reply:
        """Of a report that is sent again, whose command has ended under it, the log
        says whether it was the one that is recorded."""
        refusal = finding.refusal
        assert refusal is not None
        if not isinstance(refusal, LeaseLost):
            return _refused_reply(refusal.kind, str(refusal))
        if not each.again:
            self._on_fenced()
            return _refused_reply(refusal.kind, str(refusal))
        if finding.lease is not None:
            return await self._repeated(finding.lease, each, is_held=False)
        return wire.Reply(stop=True, duplicate=True)

    async def _report(
        self, lease: Lease, reported: int, each: wire.Report, wants: Wanting
    ) -> Answer | wire.Reply:
        for key in self._unproven(lease, each):
            await self._orchestrator.owners.check(lease.execution_id, key)
        if each.again and each.number <= reported:
            return await self._repeated(lease, each, is_held=True)
        return await self._orchestrator.report(
            lease,
            each.facts,
            wants=wants.owner if each.wants else None,
            pool=wants.pool,
            number=each.number,
        )

    async def _settle(
        self, caller: Caller, finding: Finding, each: wire.Report, outcome: Outcome
    ) -> Answer | wire.Reply:
        if isinstance(outcome, Answer | wire.Reply):
            return outcome
        lease = finding.lease
        if lease is None or not isinstance(outcome, Exception):
            raise outcome
        [now] = await self._leases.find(caller, [each.lease])
        if now.refusal is not None:
            self._on_fenced()
            return _refused_reply(now.refusal.kind, str(now.refusal))
        if isinstance(outcome, BlobNotOwned):
            return _refused_reply(outcome.kind, str(outcome))
        if isinstance(outcome, OutOfOrder):
            if each.number <= now.reported:
                return await self._repeated(lease, each, is_held=True)
            return _refused_reply("event.order", str(outcome))
        return await self._blame(lease, outcome)

    async def _blame(self, lease: Lease, error: Exception) -> wire.Reply:
        """The execution is set aside for a defect, but never for what was reported
        by another than the holder of the lease."""
        try:
            await self._orchestrator.quarantine.judge(lease.execution_id, error)
            raise error
        except StoreError as known:
            if known.kind not in _OVER:
                raise
            self._on_fenced()
            return _refused_reply(LeaseLost.kind, str(known))

    def _unproven(self, lease: Lease, each: wire.Report) -> Sequence[JSON]:
        """What a report says it has stored must have come from there, or have been its
        execution's before."""
        if self._receipts is None:
            return ()
        return self._receipts.unproven(lease.execution_id, each.facts, each.receipts)

    async def _repeated(
        self, lease: Lease, each: wire.Report, *, is_held: bool
    ) -> wire.Reply:
        """The answer to a report whose number was used before: the log says whether
        for the same report."""
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
