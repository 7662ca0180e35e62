"""Child executions: started once, answered once, cancelled with their caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.engine.ids import span_id_of, trace_id_of
from noetl.engine.state import State

Make = Callable[..., Any]

CALLS = "- {step: start, tool: {kind: playbook, path: tests/child}}"
CHILD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: tests/child}
workflow:
  - {step: start, tool: {kind: %s}}
"""


@pytest.fixture
def write_child(tmp_path: Path) -> Callable[[str], Path]:
    def write(tool: str) -> Path:
        (tmp_path / "child.yaml").write_text(CHILD % tool)
        return tmp_path

    return write


async def children_of(cluster: Any) -> list[str]:
    return [each.execution_id for each in await cluster.store.find() if each.parent_id]


async def suspended(cluster: Any) -> str:
    """Wait until the parent's child is started; its id."""
    server = cluster.server
    await cluster.until(lambda: len(cluster.store._executions) == 2)
    await cluster.until(lambda: not server.children.busy)
    [child] = await children_of(cluster)
    return child


async def test_the_result_of_a_child_is_returned_to_its_caller(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("noop, result: 7")])
    await cluster.start(CALLS)
    cluster.work("w", make_tool())

    log = await cluster.finish()

    assert log[-2].payload["result"] == 7
    assert len(await children_of(cluster)) == 1
    assert cluster.server.children.error is None


async def test_an_unknown_playbook_fails_the_caller(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start(CALLS)
    cluster.work("w", make_tool())

    log = await cluster.finish()

    failed = next(each for each in log if each.name == "step.failed")
    assert failed.payload["error"]["kind"] == "playbook.not_found"
    assert await children_of(cluster) == []


async def test_a_cancelled_caller_cancels_its_child(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("wait, signal: go")])
    await cluster.start(CALLS)
    cluster.work("w", make_tool())
    child_id = await suspended(cluster)
    await cluster.server.load("e")

    await cluster.server.cancel("e")
    await cluster.until(lambda: not cluster.server.children.busy)

    assert (await cluster.store.summary(child_id)).status == "cancelled"
    assert (await cluster.store.summary("e")).status == "cancelled"


async def test_no_child_of_a_cancelled_family_is_started(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("noop")])
    await cluster.start(CALLS)
    trace_id = cluster.server.cache["e"].state.trace_id
    cluster.server.children._cancel_family(trace_id)
    cluster.work("w", make_tool())
    suspends = "task.suspended"
    await cluster.until(
        lambda: any(
            each.name == suspends for batch in cluster.batches for each in batch
        )
    )
    await cluster.until(lambda: not cluster.server.children.busy)

    assert await children_of(cluster) == []


async def test_a_loaded_caller_attaches_to_its_stored_child(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("wait, signal: go")])
    await cluster.start(CALLS)
    cluster.work("w", make_tool())
    child_id = await suspended(cluster)
    cluster.server.cache.drop("e")

    await cluster.server.load("e")
    await cluster.until(lambda: not cluster.server.children.busy)

    loaded = cluster.server.cache["e"]
    assert list(loaded.children) == [child_id]
    assert await children_of(cluster) == [child_id]


async def test_a_store_that_fails_is_an_error_and_not_a_hang(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("noop")], pool="own")
    await cluster.start(CALLS)

    async def read(*args: object, **options: object) -> None:
        raise OSError("the disk is gone")

    cluster.store.read = read
    cluster.work("w", make_tool())

    with pytest.raises(OSError, match="the disk is gone"):
        async with asyncio.timeout(30):
            await cluster.server.finish()


async def test_a_child_is_in_the_trace_of_its_caller_and_names_its_root(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("noop")])
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    await cluster.start(CALLS, trace_id=trace, trace_parent=span)
    cluster.work("w", make_tool())
    own = (await cluster.finish())[0].payload

    [child_id] = await children_of(cluster)
    child = (await cluster.log(child_id))[0].payload

    assert (own["trace_id"], own["trace_parent"]) == (trace, span)
    assert (child["trace_id"], child["trace_parent"]) == (trace, span_id_of("e-1"))
    assert child["parent"]["root"] == "e"


@pytest.mark.parametrize("root", [None, "root"])
def test_a_family_has_the_id_of_its_root_whatever_its_trace(root: str | None) -> None:
    """In a log of an earlier version a child has the trace of its root."""
    parent = {"execution_id": "e", "depth": 1} | ({"root": root} if root else {})
    trace = "4bf92f3577b34da6a3ce929d0e0e4736" if root else trace_id_of("root")

    child = State(execution_id="child", parent=parent, trace_id=trace)

    assert child.family == State(execution_id="root", trace_id="any").family


async def test_a_cancelled_execution_stops_no_child_of_another_in_its_trace(
    make_cluster: Make, make_tool: Make, write_child: Callable[[str], Path]
) -> None:
    cluster = make_cluster(folders=[write_child("noop, result: 7")])
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    await cluster.start(CALLS, execution_id="other", trace_id=trace)
    await cluster.server.load("other")
    await cluster.server.cancel("other")
    await cluster.start(CALLS, trace_id=trace)
    cluster.work("w", make_tool())

    assert (await cluster.finish())[-2].payload["result"] == 7
