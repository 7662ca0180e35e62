"""Limits of the operator, as decisions: the length of a log, and pools without code."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.decide import Request, accept, refuse_code
from noetl.engine.limits import Ceilings
from noetl.engine.recorder import Batch
from noetl.engine.state import State
from noetl.engine.steps.completion import bound_log

SLOW = "- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}"
CODE = "- {step: start, spec: {pool: gpu}, tool: {kind: python, code: result = 1}}"


@pytest.mark.spec("S-36")
def test_a_log_below_the_limit_goes_on_and_one_that_reaches_it_fails(
    prepare: Any,
) -> None:
    execution = prepare(SLOW)
    execution.start()
    length = len(execution.log)

    below, at = execution._batch(), execution._batch()
    bound_log(below, length + 1)
    assert below.events == []
    bound_log(at, length)

    names = [event.name for event in at.events]
    assert names[0] == "workflow.cancelled"
    assert names[-2:] == ["workflow.finished", "playbook.processed"]
    assert at.state.status == "failed"
    assert at.state.error["kind"] == "limit.exceeded"


def test_an_execution_that_is_over_is_not_failed_by_its_length(prepare: Any) -> None:
    execution = prepare("- {step: start}")
    execution.start()
    assert execution.state.status == "completed"

    batch = execution._batch()
    bound_log(batch, 1)

    assert batch.events == []


@pytest.mark.parametrize(
    ("pools", "pool", "may"),
    [
        ({"default"}, "default", True),
        ({"default"}, "gpu", False),
        (set(), "default", False),
        ({"*"}, "gpu", True),
    ],
)
def test_pools_that_run_code(pools: set[str], pool: str, may: bool) -> None:
    assert Ceilings(code_pools=frozenset(pools)).runs_code(pool) is may


def test_a_pipeline_that_is_refused_later_ends_once(prepare: Any) -> None:
    execution = prepare(CODE)
    execution.start()
    [run_id] = execution.state.runs
    error = Ceilings(code_pools=frozenset()).code_refusal(
        execution.playbook.steps["start"], "gpu"
    )
    assert error is not None

    batch = execution._batch()
    refuse_code(batch, run_id, error)
    refuse_code(batch, run_id, error)

    assert [e.name for e in batch.events].count("step.failed") == 1
    assert batch.state.error["kind"] == "pool.code_off"


def test_a_step_without_code_may_run_in_any_pool(prepare: Any) -> None:
    step = prepare(SLOW).playbook.steps["start"]

    assert Ceilings(code_pools=frozenset()).code_refusal(step, "gpu") is None


def test_a_step_that_is_refused_before_it_begins_fails(prepare: Any) -> None:
    execution, refused = prepare(SLOW), {"kind": "pool.code_off", "message": "no"}
    batch = Batch(
        execution.playbook, execution.net, State(), refusal=lambda step: refused
    )

    accept(batch, Request("x", {"path": "tests/t"}, {}))

    names = [event.name for event in batch.events]
    assert names[-4:-2] == ["step.scheduled", "step.failed"]
    assert batch.state.error["kind"] == "pool.code_off"
