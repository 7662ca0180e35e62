"""What worker after worker takes without a word is given to no other one (I-20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.engine.reports.accept import Fact
from noetl.runtime.executions.placement import MAX_LOST_WORKERS

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop, result: 1}}"


async def lose(cluster: Any, times: int) -> list[Any]:
    """Claim it, say nothing, and let the lease run out; what the last claim gave."""
    works: list[Any] = []
    for number in range(times):
        works = await cluster.server.assignment.claim(f"w{number}", 1)
        cluster.clock.time += 100.0
        await cluster.server.sweep()
    return works


async def test_after_five_owners_without_a_report_the_step_fails(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    assert len(await lose(cluster, MAX_LOST_WORKERS)) == 1
    assert await lose(cluster, 1) == []
    log = await cluster.log()
    assert log[-1].payload["status"] == "failed"
    (failed,) = (each for each in log if each.name == "step.failed")
    assert failed.payload["error"]["kind"] == "worker.lost"
    assert "5 workers in a row took 'task_1'" in failed.payload["error"]["message"]


async def test_leases_that_are_given_back_do_not_count(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    for number in range(3 * MAX_LOST_WORKERS):
        [work] = await cluster.server.assignment.claim(f"w{number}", 1)
        await cluster.server.assignment.release([work.lease])
        await cluster.server.sweep()


async def test_a_report_begins_the_count_anew(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    for _ in range(2):
        await lose(cluster, MAX_LOST_WORKERS - 1)
        [work] = await cluster.server.assignment.claim("w", 1)
        facts = [Fact("task.started", "task_1", 1)]
        await cluster.server.assignment.report(work.lease, facts)
        cluster.clock.time += 100.0
        await cluster.server.sweep()
    assert len(await lose(cluster, MAX_LOST_WORKERS - 1)) == 1
