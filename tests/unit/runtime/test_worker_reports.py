"""Reports of remote workers: recorded once, repeated, refused; their leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from worker_bridge import caller_of

from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.engine.values.references import make_reference
from noetl.errors import BlobNotOwned, LeaseLost, SetAside, StoreError
from noetl.ports import Lease
from noetl.runtime.worker_protocol import gateway, leases, long_poll, messages, reports
from noetl.runtime.worker_protocol.gateway import LogBudget, WorkerGateway
from noetl.runtime.worker_protocol.leases import KnownLeases, WorkerLeases
from noetl.runtime.worker_protocol.sealing import UploadReceipts

Make = Callable[..., Any]

HELLO = "- {step: start, tool: {kind: noop}}"
TWO = "- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}"
LOOP = """
- step: start
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: noop}}]
"""


class Site:
    """A gateway with receipts, and one worker that has claimed."""

    def __init__(self, cluster: Any, *, receipts: bool = True) -> None:
        self.cluster = cluster
        self.fenced = 0
        self.receipts = UploadReceipts(b"secret") if receipts else None
        self.gateway = WorkerGateway(cluster.server, self._note, receipts=self.receipts)
        self.numbers: dict[messages.LeaseKey, int] = {}

    def _note(self) -> None:
        self.fenced += 1

    async def claim(self, worker: str = "w", slots: int = 1, **more: Any) -> Any:
        asked = messages.ClaimRequest(
            worker, "default", slots, 0.0, protocol=messages.PROTOCOL, **more
        )
        return (await self.gateway.claim(caller_of(worker), asked)).work

    async def report(
        self, lease: messages.LeaseKey, *facts: Fact, worker: str = "w", **more: Any
    ) -> messages.ReportReply:
        number = more.pop("number", self.numbers.get(lease, 0) + 1)
        self.numbers[lease] = max(number, self.numbers.get(lease, 0))
        report = messages.Report(lease, number, facts, **more)
        batch = messages.ReportBatch(worker, "default", [report])
        [reply] = (await self.gateway.report(caller_of(worker), batch)).replies
        return reply


def begun(label: str = "task_1", *, first: bool = True) -> list[Fact]:
    started = Fact("task.started", label, 1)
    return [Fact("step.started"), started] if first else [started]


def done(label: str = "task_1", result: Any = 1, following: Any = None) -> Fact:
    outcome = {"status": "ok", "result": result, "meta": {}, "error": None}
    directive = {"do": "continue", "next": following}
    return Fact("task.done", label, 1, {"outcome": outcome, "directive": directive})


# -- repeated reports ---------------------------------------------------------------


async def test_a_repeated_report_is_answered_by_the_log(make_cluster: Make) -> None:
    site = Site(make_cluster())
    await site.cluster.start(TWO)
    [work] = await site.claim()
    first = [*begun("a"), done("a", following="b")]
    assert not (await site.report(work.lease, *first)).stop
    length = len(await site.cluster.log())

    again = await site.report(work.lease, *first, number=1, is_retry=True)
    other = await site.report(work.lease, done("a", 2), number=1, is_retry=True)
    unknown = await site.report(work.lease, done("b", 2), number=1, is_retry=True)

    assert (again.duplicate, again.stop, again.error) == (True, False, None)
    for reply in (other, unknown):
        assert reply.error is not None
        assert reply.error[0] == "event.id_reused"
    assert len(await site.cluster.log()) == length


async def test_a_repeated_report_of_an_ended_command_is_known(
    make_cluster: Make,
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()
    facts = [*begun(), done()]
    await site.report(work.lease, *facts)

    again = await site.report(work.lease, *facts, number=1, is_retry=True)
    other = await site.report(work.lease, done(result=2), number=1, is_retry=True)
    forgotten = messages.LeaseKey("e-9", 1)
    gone = await site.report(forgotten, *facts, number=1, is_retry=True)

    assert (again.duplicate, again.stop) == (True, True)
    assert other.error is not None
    assert other.error[0] == "event.id_reused"
    assert (gone.duplicate, gone.stop, gone.error) == (True, True, None)


async def test_a_late_report_of_a_lost_lease_is_refused(make_cluster: Make) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()
    site.cluster.clock.time += site.cluster.server.placement.ttl + 3.0
    await site.cluster.server.sweep()
    [taken] = await site.claim("v")

    repeated = await site.report(work.lease, *begun(), is_retry=True)
    strange = await site.report(taken.lease, *begun(), worker="w")

    assert (repeated.duplicate, repeated.stop) == (True, True)
    assert strange.error is not None
    assert strange.error[0] == "lease.not_owner"


async def test_a_report_is_found_in_a_long_log(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "PAGE", 2)
    site = Site(make_cluster())
    await site.cluster.start(LOOP)
    works = await site.claim(slots=3)
    for work in works:
        await site.report(work.lease, *begun("a", first=False), done("a"))
    first, second = works[0].lease, works[1].lease

    kept = Lease(first.command_id, "e", "w", 1)
    seen = await reports.recall(site.cluster.store, kept, [done("a")])
    unseen = await reports.recall(site.cluster.store, kept, [done("b")])
    none = await reports.recall(
        site.cluster.store, Lease("e-1/0", "none", "w", 1), [done("b")]
    )

    assert (seen, unseen, none) == ("same", "unknown", "unknown")
    assert second != first


# -- wrong reports ------------------------------------------------------------------


async def test_a_report_out_of_order_is_refused(make_cluster: Make) -> None:
    site = Site(make_cluster())
    await site.cluster.start(TWO)
    [work] = await site.claim()
    facts = [*begun("a"), done("a", following="b")]

    reply = await site.report(work.lease, done("b"), number=1)
    assert reply.error is not None
    assert reply.error[0] == "event.order"
    assert (await site.report(work.lease, *facts, number=1)).error is None
    again = await site.report(work.lease, *facts, number=1)
    assert (again.duplicate, again.stop, again.error) == (True, False, None)


@pytest.mark.spec("S-48")
async def test_a_report_may_name_only_what_its_worker_has_stored(
    make_cluster: Make,
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()
    key = await site.cluster.blobs.put(b'"x"')
    reference = make_reference(key, 3, "text")
    stored = done(result=reference)
    stored.payload["spilled"] = ["outcome.result"]

    forged = await site.report(work.lease, *begun(), stored)
    assert forged.error is not None
    assert forged.error[0] == BlobNotOwned.kind
    assert site.receipts is not None
    shown = {key: site.receipts.give("e", key)}
    sound = await site.report(work.lease, *begun(), stored, receipts=shown)
    assert sound.error is None


async def test_workers_are_trusted_without_receipts(make_cluster: Make) -> None:
    site = Site(make_cluster(), receipts=False)
    await site.cluster.start(HELLO)
    [work] = await site.claim()

    assert (await site.report(work.lease, *begun(), done())).stop


async def test_an_error_of_the_store_is_for_the_worker_to_repeat(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()

    async def refuse(*args: Any, **more: Any) -> Any:
        raise StoreError("down", "store.full")

    monkeypatch.setattr(site.cluster.server.assignment, "report", refuse)
    with pytest.raises(StoreError, match="down"):
        await site.report(work.lease, *begun(), is_retry=True)
    assert site.fenced == 0


@pytest.mark.parametrize("error", [SetAside("aside"), LeaseLost("lost")])
async def test_what_can_no_longer_be_recorded_is_fenced(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()

    async def refuse(*args: Any, **more: Any) -> Any:
        raise error

    monkeypatch.setattr(site.cluster.server.assignment, "report", refuse)
    reply = await site.report(work.lease, *begun(), is_retry=True)

    assert reply.error == (LeaseLost.kind, str(error))
    assert site.fenced == 1


async def test_an_error_after_the_lease_was_lost_is_a_lost_lease(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()

    async def lose(*args: Any, **more: Any) -> Any:
        site.cluster.clock.time += site.cluster.server.placement.ttl + 3.0
        await site.cluster.server.sweep()
        await site.claim("v")
        raise OutOfOrder("no")

    monkeypatch.setattr(site.cluster.server.assignment, "report", lose)
    reply = await site.report(work.lease, *begun(), is_retry=True)

    assert reply.error is not None
    assert reply.error[0] == "lease.lost"
    assert site.fenced == 1


async def test_several_reports_get_an_answer_each(make_cluster: Make) -> None:
    site = Site(make_cluster())
    await site.cluster.start(LOOP)
    works = await site.claim(slots=3)
    good = [
        messages.Report(work.lease, 1, [*begun("a", first=False), done("a")])
        for work in works[:2]
    ]
    bad = messages.Report(works[2].lease, 1, [done("b")])

    batch = messages.ReportBatch("w", "default", [*good, bad])
    replies = (await site.gateway.report(caller_of("w"), batch)).replies

    assert [each.error and each.error[0] for each in replies] == [
        *(None, None, "event.order"),
    ]


async def test_a_cancelled_request_cancels_its_reports(make_cluster: Make) -> None:
    site = Site(make_cluster())
    await site.cluster.start(LOOP)
    works = await site.claim(slots=3)
    site.cluster.store.open.clear()
    batch = messages.ReportBatch(
        "w",
        "default",
        [messages.Report(w.lease, 1, begun("a", first=False)) for w in works],
    )
    task = asyncio.ensure_future(site.gateway.report(caller_of("w"), batch))
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    site.cluster.store.open.set()


async def test_work_that_cannot_be_sent_is_set_aside(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)

    def broken(*args: Any) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(gateway, "seal_secrets", broken)

    assert await site.claim() == []
    assert (await site.cluster.store.summary("e")).status == "quarantined"


# -- leases -------------------------------------------------------------------------


def test_the_oldest_leases_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownLeases(most=1)
    for name in "ab":
        known.note(Lease(name, "e", "w", 1), "default")

    assert known.find("a", 1, "w") is None
    assert known.find("b", 1, "w") is not None
    assert known.find("b", 2, "w") is None
    monkeypatch.setattr(leases, "MAX_ENDED", 1)
    known.end(["b", "never"])
    known.note(Lease("c", "e", "w", 1), "default")
    known.end(["c"])
    assert known.ended("b") is None
    row = known.ended("c")
    assert row is not None
    assert (row.held, row.owner) == (False, "w")


async def test_no_leases_are_found_without_a_query() -> None:
    nothing: Any = None

    assert await WorkerLeases(nothing, KnownLeases()).find(caller_of("w"), []) == []


async def test_a_lease_of_another_pool_is_not_known(make_cluster: Make) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()
    found = site.gateway._leases

    assert found.recall(caller_of("w"), work.lease) is not None
    assert found.recall(caller_of("w", "side"), work.lease) is None


def test_the_budgets_of_the_oldest_logs_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway, "MAX_CACHED", 1)
    budget = LogBudget(most=10)
    for source in ("a", "b"):
        assert budget.take(source, [])  # type: ignore[arg-type]

    assert list(budget._sizes) == ["b"]


def test_the_version_of_a_claim_is_read_from_any_shape() -> None:
    assert messages.claimed_protocol(b'{"protocol": 7, "new": []}') == 7
    assert messages.claimed_protocol(b"{}") == 1
    with pytest.raises(msgspec.DecodeError):
        messages.claimed_protocol(b"{")


# -- long polls ---------------------------------------------------------------------


async def test_the_store_is_not_asked_twice_for_nothing(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_poll, "MAX_WORKERS", 1)
    monkeypatch.setattr(long_poll, "LOOK_AGAIN_SECONDS", 60.0)
    site = Site(make_cluster())
    asked = messages.ClaimRequest("w", "default", 1, 0.01, protocol=messages.PROTOCOL)
    asks = 0
    claim = site.cluster.server.assignment.claim

    async def counted(*args: Any, **more: Any) -> Any:
        nonlocal asks
        asks += 1
        return await claim(*args, **more)

    monkeypatch.setattr(site.cluster.server.assignment, "claim", counted)
    for _ in range(3):
        reply = await site.gateway.claim(caller_of("w"), asked)
        assert reply.work == []
    assert asks == 1
    await site.gateway.claim(caller_of("v"), asked)

    assert list(site.gateway._long_poll._without_work) == [("v", "default")]
    await site.gateway.claim(caller_of("w"), asked)
    assert asks == 3


async def test_work_that_was_promised_to_a_claim_is_waited_for(
    make_cluster: Make,
) -> None:
    site = Site(make_cluster())
    asked = messages.ClaimRequest("w", "default", 1, 20.0, protocol=messages.PROTOCOL)
    claiming = asyncio.ensure_future(site.gateway.claim(caller_of("w"), asked))
    idle = site.cluster.server.idle_workers
    await site.cluster.until(lambda: bool(idle.waiting))
    [waiting] = idle.waiting
    site.cluster.store.open.clear()
    starting = asyncio.ensure_future(site.cluster.start(HELLO))
    await site.cluster.until(lambda: bool(waiting.promised))
    waiting._woken.set()  # something else happens before the work is there
    await site.cluster.until(lambda: not waiting._woken.is_set())
    site.cluster.store.open.set()
    await starting

    assert [each.frame.step for each in (await claiming).work] == ["start"]


async def test_a_single_report_is_cancelled_with_its_request(
    make_cluster: Make,
) -> None:
    site = Site(make_cluster())
    await site.cluster.start(HELLO)
    [work] = await site.claim()
    site.cluster.store.open.clear()
    sending = asyncio.ensure_future(site.report(work.lease, *begun(), is_retry=True))
    for _ in range(20):
        await asyncio.sleep(0)
    sending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await sending
    site.cluster.store.open.set()
