"""Reports of remote workers: each recorded once, under a lease that is held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from noetl.engine.events import Event
from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.engine.reports.checks import Verdict, judge
from noetl.engine.runs import run_of
from noetl.errors import BlobNotOwned, LeaseLost, SetAside, StoreError
from noetl.ports import Lease, LogReader
from noetl.runtime.dispatcher import Prefetch, ReportAnswer
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.leases import Caller, Finding, WorkerLeases
from noetl.runtime.worker_protocol.sealing import UploadReceipts
from noetl.types import JSON

PAGE = 500


async def recall(store: LogReader, lease: Lease, facts: Sequence[Fact]) -> Verdict:
    """Return whether the log has these facts.

    Reads from the end of the log to the start of the run: most repeated reports were
    recorded a moment ago.
    """
    run_id = run_of(lease.command_id)
    mine: list[Event] = []
    verdict: Verdict = "unknown"
    last_seq = await store.length(lease.execution_id)
    while last_seq > 0:
        first = max(0, last_seq - PAGE)
        page = await store.read(lease.execution_id, after=first, limit=last_seq - first)
        of_run = [event for event in page if event.step_run_id == run_id]
        mine += [
            event
            for event in of_run
            if (event.iteration_id or run_id) == lease.command_id
        ]
        verdict = judge(facts, mine)
        if verdict == "same" or any(e.name == "step.scheduled" for e in of_run):
            break
        last_seq = first
    return verdict


_OVER = frozenset({LeaseLost.kind, SetAside.kind, "store.missing"})
"""Errors after which nothing more can be recorded under a lease."""

Outcome = ReportAnswer | messages.ReportReply | Exception


class WorkerReports:
    """Records reports. Without ``receipts`` workers are trusted about stored values."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        leases: WorkerLeases,
        receipts: UploadReceipts | None,
        on_fenced: Callable[[], None],
    ) -> None:
        self._orchestrator = orchestrator
        self._leases = leases
        self._receipts = receipts
        self._on_fenced = on_fenced

    async def take(
        self, caller: Caller, asked: messages.ReportBatch
    ) -> list[ReportAnswer | messages.ReportReply]:
        """Return an answer to each; reports of one execution are decided together."""
        reports = asked.reports
        found = await self._find(caller, reports)
        wants = Prefetch(caller.owner, asked.pool)
        puts = [
            self._put(finding, each, wants)
            for finding, each in zip(found, reports, strict=True)
        ]
        outcomes = await _outcomes(puts)
        return [
            await self._settle(caller, finding, each, outcome)
            for finding, each, outcome in zip(found, reports, outcomes, strict=True)
        ]

    async def _find(
        self, caller: Caller, reports: Sequence[messages.Report]
    ) -> list[Finding]:
        """Look up the leases: one query for those that this server does not know, and
        for repeated reports.
        """
        known = [
            None if each.is_retry else self._leases.recall(caller, each.lease)
            for each in reports
        ]
        places = [place for place, found in enumerate(known) if found is None]
        if places:
            asked = [reports[place].lease for place in places]
            found = await self._leases.find(caller, asked)
            for place, finding in zip(places, found, strict=True):
                known[place] = finding
        return [finding for finding in known if finding is not None]

    def _put(
        self, finding: Finding, each: messages.Report, wants: Prefetch
    ) -> Awaitable[ReportAnswer | messages.ReportReply]:
        """Enqueue reports of loaded executions at once: a task for each would cost as
        much as its decision.
        """
        lease = finding.lease
        if finding.refusal is not None or lease is None:
            return self._refuse(finding, each)
        loaded = lease.execution_id in self._orchestrator.cache
        if each.is_retry or not loaded or self._unproven(lease, each):
            return self._report(lease, finding.reported, each, wants)
        asked = wants if each.prefetch else None
        return self._orchestrator.assignment.submit(
            lease, each.facts, asked, each.number, elsewhere=True
        )

    async def _refuse(
        self, finding: Finding, each: messages.Report
    ) -> messages.ReportReply:
        """Refuse a report. If it was repeated and its command has ended, check in the
        log whether it is the recorded one: for the last owner alone, since the answer
        tells what is recorded.
        """
        refusal = finding.refusal
        assert refusal is not None
        if finding.is_unknown and each.is_retry:
            return messages.ReportReply(stop=True, duplicate=True)
        if not isinstance(refusal, LeaseLost):
            return _refused_reply(refusal.kind, str(refusal))
        if not each.is_retry:
            self._on_fenced()
            return _refused_reply(refusal.kind, str(refusal))
        if finding.lease is not None:
            return await self._repeated(finding.lease, each, is_held=False)
        return messages.ReportReply(stop=True, duplicate=True)

    async def _report(
        self, lease: Lease, reported: int, each: messages.Report, wants: Prefetch
    ) -> ReportAnswer | messages.ReportReply:
        for key in self._unproven(lease, each):
            await self._orchestrator.owners.check(lease.execution_id, key)
        if each.is_retry and each.number <= reported:
            return await self._repeated(lease, each, is_held=True)
        return await self._orchestrator.assignment.report(
            lease,
            each.facts,
            wants=wants.owner if each.prefetch else None,
            pool=wants.pool,
            number=each.number,
            elsewhere=True,
        )

    async def _settle(
        self, caller: Caller, finding: Finding, each: messages.Report, outcome: Outcome
    ) -> ReportAnswer | messages.ReportReply:
        if isinstance(outcome, ReportAnswer | messages.ReportReply):
            return outcome
        lease = finding.lease
        assert lease is not None, "only what is recorded under a lease can fail"
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

    async def _blame(self, lease: Lease, error: Exception) -> messages.ReportReply:
        """Quarantine the execution for a defect, but only if the holder of the lease
        sent the report.
        """
        try:
            await self._orchestrator.quarantine.judge(lease.execution_id, error)
            raise error
        except StoreError as known:
            if known.kind not in _OVER:
                raise
            self._on_fenced()
            return _refused_reply(LeaseLost.kind, str(known))

    def _unproven(self, lease: Lease, each: messages.Report) -> Sequence[JSON]:
        """Return keys that the report claims to have stored, without a receipt."""
        if self._receipts is None:
            return ()
        return self._receipts.unproven(lease.execution_id, each.facts, each.receipts)

    async def _repeated(
        self, lease: Lease, each: messages.Report, *, is_held: bool
    ) -> messages.ReportReply:
        """Answer a report whose number was used before, by the log."""
        verdict = await recall(self._orchestrator.store, lease, each.facts)
        if verdict == "other" or (verdict == "unknown" and is_held):
            message = (
                f"report {each.number} of {lease.command_id} is recorded with "
                "other facts"
            )
            return _refused_reply("event.id_reused", message)
        if not is_held:
            return messages.ReportReply(stop=True, duplicate=True)
        state = await self._orchestrator.load(lease.execution_id)
        return messages.ReportReply(
            ctx=state.ctx, spilled=state.spilled, duplicate=True
        )


async def _outcomes(
    puts: Sequence[Awaitable[ReportAnswer | messages.ReportReply]],
) -> list[Outcome]:
    """Return the results, or the errors. Most are futures of one commit."""
    waited = [asyncio.ensure_future(each) for each in puts] if len(puts) > 1 else puts
    found: list[Outcome] = []
    for each in waited:
        try:
            found.append(await each)
        except Exception as error:
            found.append(error)
        except asyncio.CancelledError:
            for other in waited:
                if isinstance(other, asyncio.Future):
                    other.cancel()
            raise
    return found


def _refused_reply(kind: str, message: str) -> messages.ReportReply:
    return messages.ReportReply(stop=True, error=(kind, message))
