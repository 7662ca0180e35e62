"""The start of an execution: one commit, handed to an idle worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.errors import StoreError

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop, result: 1}}"


class Worker:
    """A worker with one free slot."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def reserve(self) -> str | None:
        return "w"

    def take(self, work: Any) -> None:
        self.taken.append(work)

    def revoke(self, commands: Any) -> None: ...
    def stop(self, execution_id: str) -> None: ...


async def test_an_idle_worker_gets_the_first_step_in_the_first_commit(
    make_cluster: Make,
) -> None:
    cluster, worker = make_cluster(), Worker()
    cluster.server.assignment.register(worker)

    assert await cluster.start(ONE) is None

    assert cluster.store.commits == 1
    assert [work.begun for work in worker.taken] == [True]
    assert (await cluster.names())[-2:] == ["step.started", "task.started"]
    assert await cluster.server.assignment.claim("other", 1) == []


async def test_a_start_that_fails_gives_the_slot_back(make_cluster: Make) -> None:
    cluster, worker = make_cluster(), Worker()
    cluster.server.assignment.register(worker)
    cluster.store.failures = [StoreError("the disk is full", "store.full")]

    with pytest.raises(StoreError, match="the disk is full"):
        await cluster.start(ONE)

    assert worker.taken == [None]
    assert "e" not in cluster.server.cache


async def test_a_missing_secret_is_recorded(make_cluster: Make) -> None:
    cluster = make_cluster()
    keychain = (
        "keychain: [{name: key, kind: env, provider: env, path: NOT_SET_ANYWHERE}]"
    )

    refusal = await cluster.start(ONE, keychain + "\n")

    assert refusal is not None
    assert (await cluster.names())[-1] == "playbook.processed"
    assert "e" not in cluster.server.cache
