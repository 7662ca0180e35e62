"""Whole playbooks of the dialect: they run with the switch, and only with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl import load

PLAYBOOKS = Path(__file__).parent / "playbooks"
BUSY, READY = {"status": "busy"}, {"status": "ready"}
ROW, NO = {"rows": [{"id": 17}]}, "!connection"

# name, what tools answer, the steps that run, the tools that are called
EXAMPLES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("order_lookup", {"call": [ROW]}, ["lookup", "handle_order"], ["call", "task_1"]),
    (
        "order_lookup",
        {"call": [{"rows": []}]},
        ["lookup", "unknown_order"],
        ["call", "task_1"],
    ),
    (
        "order_processing",
        {"call": [{"order_id": 17}]},
        ["handle_order", "finalize"],
        ["call", "send_email", "fraud_check", "task_1"],
    ),
    ("approval_or_timeout", {}, ["wait_for_approval", "too_late"], ["task_1"]),
    ("branch_order", {}, ["tasks"], ["first", "second"]),
    ("end_step", {}, ["work", "done"], ["something", "task_1"]),
    ("break_chain", {}, ["work", "done"], ["something", "other", "task_1"]),
    ("defer", {}, ["work", "two"], ["something", "other", "task_1"]),
    (
        "next_forms",
        {},
        ["fork", "left", "right", "later", "success", "end"],
        ["call", "task_1", "task_1"],
    ),
    ("then_tasks", {}, ["work", "done"], ["post_it", "keep_it", "task_1"]),
    ("tool_retry", {"compute": [NO, NO, 1]}, ["work"], ["compute"] * 3),
    (
        "transactional",
        {"credit": [NO, 1]},
        ["transactional"],
        ["call", "debit", "credit", "debit", "credit"],
    ),
    (
        "wait_for_ready",
        {"wait_for_ready": [NO, BUSY, READY]},
        ["wait"],
        ["wait_for_ready"] * 3,
    ),
    (
        "whole_schema",
        {"call": [{"wanted": True}, {}, NO, {}]},
        ["everything", "target"],
        ["call", "call", "call", "call", "tell", "skip_it", "skip_it", "task_1"],
    ),
    ("sink_and_list", {}, ["work", "end"], ["call", "sink", "task_1"]),
]


@pytest.mark.parametrize(
    ("name", "script", "steps", "calls"),
    [
        pytest.param(
            *example,
            id=example[0],
            marks=pytest.mark.spec(
                *(PLAYBOOKS / f"{example[0]}.yaml")
                .read_text()
                .partition("\n")[0]
                .removeprefix("# spec: ")
                .split(", ")
            ),
        )
        for example in EXAMPLES
    ],
)
def test_an_example_runs(
    execute: Callable[..., Any],
    name: str,
    script: dict[str, Any],
    steps: list[str],
    calls: list[str],
) -> None:
    execution = execute(f"{name}.yaml", script)
    assert execution.state.status == "completed", execution.state.error
    assert sorted(execution.steps) == sorted(steps)
    assert sorted(execution.ran) == sorted(calls)


@pytest.mark.spec("VAL-24", "C-01", "S-01")
@pytest.mark.parametrize("path", sorted(PLAYBOOKS.glob("*.yaml")), ids=lambda p: p.stem)
def test_without_the_switch_it_is_refused_with_what_replaces_it(path: Path) -> None:
    text = path.read_text()
    assert path.stem in {example[0] for example in EXAMPLES}
    accepted = load(text)
    assert {found.code for found in accepted.diagnostics} <= {"S-01", "S-08", "C-34"}
    refused = load(text.replace("executor: {spec: {extensions: [legacy]}}\n", ""))
    errors = [found for found in refused.diagnostics if found.severity == "error"]
    assert errors
    retired = [found for found in errors if found.rule == "retired-key"]
    assert all("the extension 'legacy'" in (found.hint or "") for found in retired)
    assert "VAL-17" in {found.code for found in retired}
