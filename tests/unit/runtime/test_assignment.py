"""Commands are leased to workers, and their reports are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl.engine.reports.accept import Fact
from noetl.errors import LeaseLost

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"
TWO_POOLS = """
- {step: start, tool: {kind: noop, spec: {pool: gpu}}}
"""


async def test_a_command_is_leased_once(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    assignment = cluster.server.assignment

    first = await assignment.claim("a", 4)
    second = await assignment.claim("b", 4)

    assert [work.lease.owner for work in first] == ["a"]
    assert second == []


async def test_a_command_is_leased_in_its_pool_alone(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(TWO_POOLS)
    assignment = cluster.server.assignment

    assert await assignment.claim("a", 4) == []
    assert len(await assignment.claim("a", 4, "gpu")) == 1


async def test_a_lease_that_is_given_back_is_free_after_a_sweep(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    assignment = cluster.server.assignment
    (work,) = await assignment.claim("a", 4)

    await assignment.release([work.lease])
    await cluster.server.sweep()
    (again,) = await assignment.claim("b", 4)

    assert again.lease.command_id == work.lease.command_id
    assert again.lease.epoch > work.lease.epoch


async def test_a_report_of_an_older_lease_is_refused(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    assignment = cluster.server.assignment
    (work,) = await assignment.claim("a", 4)
    stale = msgspec.structs.replace(work.lease, epoch=work.lease.epoch - 1)

    with pytest.raises(LeaseLost):
        await assignment.report(stale, [Fact("task.started", "task_1", 1)])

    assert await assignment.renew([work.lease, stale]) == [stale]


async def test_the_tool_of_a_cancelled_execution_is_stopped(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    assignment = cluster.server.assignment
    (work,) = await assignment.claim("a", 4)
    assert not assignment.is_stopped(work.lease)

    await cluster.server.cancel("e")

    assert assignment.is_stopped(work.lease)
