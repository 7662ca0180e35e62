"""Where commands run, and which timers a commit needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load
from noetl.engine.effects import Effects
from noetl.engine.limits import Ceilings
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import State
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.placement import (
    DEFAULT_POOL,
    MAX_LOST_WORKERS,
    Placement,
)
from noetl.runtime.executions.transition import (
    CHILD_START_TIMEOUT_S,
    finished_timers,
    relative_timers,
)

Make = Callable[..., Any]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
LOOP = """\
- step: start
  loop:
    in: [1, 2]
    iterator: x
    spec: {mode: parallel, policy: {exec: %s}}
  tool: {kind: noop, spec: {pool: gpu}}
"""


def loaded_of(text: str) -> LoadedExecution:
    playbook = load(HEAD + text).playbook
    assert playbook is not None, load(HEAD + text).diagnostics
    return LoadedExecution.of(playbook, State(), {}, Secrets())


@pytest.mark.parametrize(
    ("tool", "pool", "expected"),
    [
        ("{kind: noop}", None, DEFAULT_POOL),
        ("{kind: noop, spec: {pool: gpu}}", None, "gpu"),
        ("{kind: noop, spec: {pool: gpu}}", "own", "own"),
    ],
)
def test_the_first_pool(tool: str, pool: str | None, expected: str) -> None:
    loaded = loaded_of(f"workflow: [{{step: start, tool: {tool}}}]")

    assert Placement(pool).first_pool(loaded) == expected


def test_an_embedded_run_loses_no_worker() -> None:
    assert Placement().max_lost_workers == MAX_LOST_WORKERS
    assert Placement("own").max_lost_workers is None


@pytest.mark.parametrize(
    ("placement", "pool", "is_bound"),
    [("local", None, True), ("local", "own", False), ("distributed", None, False)],
)
async def test_a_local_loop_has_one_worker(
    make_cluster: Make, placement: str, pool: str | None, is_bound: bool
) -> None:
    cluster = make_cluster()
    await cluster.start(LOOP % placement)
    loaded = cluster.server.cache["e"]
    [run_id] = loaded.state.runs

    affinity = Placement(pool).affinity_of(loaded, f"{run_id}/0")

    assert affinity == (run_id if is_bound else None)
    assert Placement(pool).affinity_of(loaded, run_id) is None


def test_code_is_refused_in_a_pool_that_runs_none() -> None:
    loaded = loaded_of("workflow: [{step: start, tool: {kind: shell, command: ls}}]")
    [step] = loaded.playbook.workflow
    ceilings = Ceilings(code_pools=("gpu",))

    assert Placement(ceilings=ceilings).refusal_of(step) is not None
    assert Placement("own", ceilings=ceilings).refusal_of(step) is None
    assert Placement().refusal_of(step) is None


def test_a_finished_execution_has_a_timer_if_a_handler_awaits_it() -> None:
    placement = Placement(is_awaited=lambda path: path == "awaited")

    assert finished_timers(placement, "e", "other", 5.0) == []
    [timer] = finished_timers(placement, "e", "awaited", 5.0)
    assert (timer.execution_id, timer.kind, timer.due_at) == ("e", "finished", 5.0)


def test_relatives_are_notified_by_timers_of_a_server() -> None:
    loaded = loaded_of("workflow: [{step: start, tool: {kind: noop}}]")
    loaded.state.execution_id = "e"
    loaded.children["gone"] = "r1"
    effects = Effects(children={"r2": {}})

    mine, theirs = relative_timers(Placement(shared=True), loaded, effects, 5.0)

    assert [(each.timer_id, each.due_at) for each in mine] == [
        ("child:r2", 5.0 + CHILD_START_TIMEOUT_S)
    ]
    assert [(each.execution_id, each.timer_id) for each in theirs] == [
        ("gone", "parent")
    ]
    assert relative_timers(Placement("own"), loaded, effects, 5.0) == ([], [])
