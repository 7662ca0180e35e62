"""Quarantine: a defect sets one execution aside, and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.reports.accept import OutOfOrder
from noetl.errors import SetAside, StoreError

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"


async def start(make_cluster: Make, **options: Any) -> tuple[Any, list[str]]:
    errors: list[str] = []
    cluster = make_cluster(
        on_error=lambda execution_id, error: errors.append(execution_id), **options
    )
    await cluster.start(ONE)
    return cluster, errors


async def raise_in(guard: Any, error: Exception) -> None:
    async with guard:
        raise error


async def test_a_defect_sets_the_execution_aside(make_cluster: Make) -> None:
    cluster, errors = await start(make_cluster)

    with pytest.raises(SetAside, match="it is set aside: ValueError: broken"):
        await raise_in(cluster.server.quarantine.guard("e"), ValueError("broken"))

    assert errors == ["e"]
    assert "e" not in cluster.server.cache
    assert (await cluster.store.summary("e")).status == "quarantined"


async def test_a_released_execution_has_its_status_again(make_cluster: Make) -> None:
    cluster, _ = await start(make_cluster)
    with pytest.raises(SetAside):
        await raise_in(cluster.server.quarantine.guard("e"), ValueError("broken"))
    count = cluster.server.wakeup.count

    status = await cluster.server.recovery.release_quarantine("e")

    assert status == "running"
    assert (await cluster.store.summary("e")).status == "running"
    assert cluster.server.wakeup.count == count + 1


@pytest.mark.parametrize(
    "error", [OutOfOrder("late"), StoreError("full", "store.full"), OSError("gone")]
)
async def test_a_passing_error_sets_nothing_aside(
    make_cluster: Make, error: Exception
) -> None:
    cluster, errors = await start(make_cluster)

    with pytest.raises(type(error)):
        await raise_in(cluster.server.quarantine.guard("e"), error)

    assert errors == []
    assert "e" in cluster.server.cache
    assert (await cluster.store.summary("e")).status == "running"


async def test_an_embedded_run_raises_the_defect(make_cluster: Make) -> None:
    cluster, errors = await start(make_cluster, pool="own")

    for guard in (cluster.server.quarantine.guard, cluster.server.quarantine.apart):
        with pytest.raises(ValueError, match="broken"):
            await raise_in(guard("e"), ValueError("broken"))

    assert errors == []


@pytest.mark.parametrize(
    "error", [ValueError("broken"), StoreError("full", "store.full")]
)
async def test_a_server_goes_on_after_an_error_of_one_execution(
    make_cluster: Make, error: Exception
) -> None:
    cluster, errors = await start(make_cluster)

    await raise_in(cluster.server.quarantine.apart("e"), error)

    assert errors == ["e"]
    assert "e" not in cluster.server.cache


async def test_an_unreachable_store_stops_the_round(make_cluster: Make) -> None:
    cluster, _ = await start(make_cluster)
    error = StoreError("no answer", "store.unreachable")

    with pytest.raises(StoreError, match="no answer"):
        await raise_in(cluster.server.quarantine.apart("e"), error)
