"""The server's side of the worker protocol, on the store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from memory_task_logs import MemoryTaskLogs

from noetl.engine.reports.accept import Fact
from noetl.errors import AccessError, LeaseLost, ProtocolError
from noetl.ports.task_logs import LogText
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import LogBudget, WorkerGateway
from noetl.runtime.worker_protocol.leases import Caller

Make = Callable[..., Any]

HELLO = "- {step: start, tool: {kind: noop}}"
TWO = """
- {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end, tool: {kind: noop}}
"""
BEGUN = [Fact("step.started"), Fact("task.started", "task_1", 1)]


class Plain:
    def seal(self, text: bytes, purpose: str) -> bytes:
        return text

    def open(self, sealed: bytes, purpose: str) -> bytes:
        return sealed


def worker(name: str, *pools: str) -> Caller:
    return Caller(name, lambda pool: pool in (pools or ("default",)), Plain())


def claim(wait: float = 0.0, slots: int = 1, **more: Any) -> messages.ClaimRequest:
    more = {"protocol": messages.PROTOCOL, **more}
    return messages.ClaimRequest("ignored", "default", slots, wait, **more)


async def waiting(cluster: Any, gateway: WorkerGateway, name: str) -> Any:
    """A claim of this worker, once it waits."""
    task = asyncio.create_task(gateway.claim(worker(name), claim(20.0)))
    idle = cluster.server.idle_workers.waiting
    before = len(idle)
    for _ in range(1000):
        if len(idle) > before:
            break
        await asyncio.sleep(0)
    assert len(idle) > before
    return task


async def test_ready_work_is_given_at_once(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server, tenancy=SimpleNamespace(has_accounts=True))
    await cluster.start(HELLO)

    reply = await gateway.claim(worker("w"), claim())
    [message] = reply.work
    assert (reply.lease_seconds, reply.has_accounts) == (
        cluster.server.placement.ttl,
        True,
    )
    assert (message.frame.step, message.lease.epoch) == ("start", 1)
    assert message.sealed_secrets is None
    assert reply.waited < 0.1
    [held] = await cluster.store.held("w")
    assert held.command_id == message.lease.command_id
    assert (await gateway.claim(worker("v"), claim())).work == []


async def test_a_claim_that_waits_gets_what_begins(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    first = await waiting(cluster, gateway, "first")
    second = await waiting(cluster, gateway, "second")

    await cluster.start(HELLO)
    [message] = (await first).work
    assert (message.frame.step, message.started) == ("start", True)
    assert not second.done(), "it waits for other work"
    gateway.close()
    assert (await second).work == []


async def test_a_closed_gateway_holds_no_claim_open(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    gateway.close()

    async with asyncio.timeout(5):
        assert (await gateway.claim(worker("w"), claim(20.0))).work == []


async def test_work_for_a_worker_that_left_is_released(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    await cluster.start(HELLO)

    assert (await gateway.claim(worker("w"), claim(), lambda: True)).work == []
    await cluster.server.sweep()
    assert await cluster.store.held("w") == []
    assert len((await gateway.claim(worker("v"), claim())).work) == 1


async def test_a_claim_whose_answer_was_lost_gets_the_same_work(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    await cluster.start(HELLO)
    [given] = (await gateway.claim(worker("w"), claim())).work

    [again] = (await gateway.claim(worker("w"), claim(is_retry=True))).work
    assert again.lease == given.lease
    held = [given.lease.command_id]
    known = claim(is_retry=True, held_commands=held)
    assert (await gateway.claim(worker("w"), known)).work == []


async def test_pool_and_version_are_checked_first(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    await cluster.start(HELLO)

    with pytest.raises(AccessError):
        await gateway.claim(worker("w", "other"), claim())
    with pytest.raises(ProtocolError, match=f"version {messages.OLDEST - 1} "):
        await gateway.claim(worker("w"), claim(protocol=messages.OLDEST - 1))
    assert await cluster.store.held("w") == []


async def test_a_report_can_bring_the_next_work(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    await cluster.start(TWO)
    [given] = (await gateway.claim(worker("w"), claim())).work
    outcome = {"status": "ok", "result": None, "meta": {}, "error": None}
    ended = {"outcome": outcome, "directive": {"do": "continue"}}
    over = [*BEGUN, Fact("task.done", "task_1", 1, ended)]

    batch = messages.ReportBatch(
        "w", "default", [messages.Report(given.lease, 1, over, prefetch=True)]
    )
    [reply] = (await gateway.report(worker("w"), batch)).replies
    assert (reply.error, reply.stop) == (None, True)
    assert reply.work is not None
    assert reply.work.frame.step == "end"


async def test_reports_and_heartbeats_without_the_lease_are_fenced(
    make_cluster: Make,
) -> None:
    fenced: list[int] = []
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server, lambda: fenced.append(1))
    await cluster.start(HELLO)
    [given] = (await gateway.claim(worker("w"), claim())).work
    beat = messages.Heartbeat("w", "default", 1, [given.lease])
    assert (await gateway.heartbeat(worker("w"), beat)).lost == []
    cluster.clock.time += cluster.server.placement.ttl + 3.0
    await cluster.server.sweep()
    assert len((await gateway.claim(worker("v"), claim())).work) == 1

    lost = (await gateway.heartbeat(worker("w"), beat)).lost
    assert lost == [given.lease.command_id]
    batch = messages.ReportBatch(
        "w", "default", [messages.Report(given.lease, 1, BEGUN)]
    )
    [reply] = (await gateway.report(worker("w"), batch)).replies
    assert reply.stop
    assert reply.error is not None
    assert reply.error[0] == "lease.lost"
    assert len(fenced) == 2
    with pytest.raises(LeaseLost):
        await gateway.playbook(worker("w"), messages.PlaybookRequest("w", given.lease))


async def test_a_worker_that_leaves_gives_its_leases_back(make_cluster: Make) -> None:
    cluster = make_cluster()
    gateway = WorkerGateway(cluster.server)
    await cluster.start(HELLO)
    [given] = (await gateway.claim(worker("w"), claim())).work

    leaving = messages.Heartbeat("w", "default", 1, [given.lease], leaving=True)
    await gateway.heartbeat(worker("w"), leaving)
    [again] = (await gateway.claim(worker("v"), claim())).work
    assert again.lease.epoch == given.lease.epoch + 1


def entry(lease: messages.LeaseKey, **changes: Any) -> messages.LogEntry:
    text = LogText(1.0, "stdout", None, "hello")
    said = messages.LogEntry(lease, "task_1", 1, 1, 1, [text])
    return msgspec.structs.replace(said, **changes)


def batch(*entries: messages.LogEntry) -> messages.LogBatch:
    return messages.LogBatch("ignored", "default", entries)


async def test_a_worker_appends_to_the_logs_of_its_leases_alone(
    make_cluster: Make,
) -> None:
    """Execution and step come from the lease, as for reports."""
    cluster, logs = make_cluster(), MemoryTaskLogs()
    gateway = WorkerGateway(cluster.server, task_logs=logs)
    await cluster.start(HELLO)
    [work] = (await gateway.claim(worker("w"), claim())).work
    execution_id = work.frame.execution_id
    lease, name = work.lease, work.lease.command_id
    other = messages.LeaseKey(name, lease.epoch + 1)
    forged = messages.LeaseKey(f"{execution_id}-9", 1)

    assert (await gateway.log(worker("w"), batch(entry(lease)))).refused == []
    for caller, wrong in (
        ("v", entry(lease)),
        ("w", entry(other)),
        ("w", entry(forged)),
        ("w", entry(lease, task="another")),
    ):
        found = await gateway.log(worker(caller), batch(wrong))
        assert found.refused == [wrong.lease.command_id]
    with pytest.raises(AccessError):
        await gateway.log(worker("w", "side"), batch(entry(lease)))
    [stored], _ = await logs.read(execution_id)
    source = stored.chunk.source
    assert (source.step, source.task_run_id) == ("start", f"{name}:task_1.1")
    assert (source.execution_id, source.epoch) == (execution_id, 1)


async def test_the_log_of_one_attempt_is_bounded_by_the_server(
    make_cluster: Make,
) -> None:
    cluster, logs = make_cluster(), MemoryTaskLogs()
    gateway = WorkerGateway(cluster.server, task_logs=logs)
    gateway._log_budget = LogBudget(most=1_000)
    await cluster.start(HELLO)
    [work] = (await gateway.claim(worker("w"), claim())).work
    execution_id = work.frame.execution_id
    texts = [LogText(1.0, "stdout", None, "x" * 400)]
    refused = [
        (await gateway.log(worker("w"), batch(entry(work.lease, part=n, texts=texts))))
        for n in (1, 2, 3, 4)
    ]
    assert [bool(each.refused) for each in refused] == [False, False, True, True]
    assert len((await logs.read(execution_id))[0]) == 2
