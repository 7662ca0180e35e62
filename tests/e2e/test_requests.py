"""What a request causes: records in order, refusals, limits and deadlines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
SLOW = "    tool: {kind: shell, command: sleep 30}\n"
GUARD = "{{ (ctx.n | default(0)) < 10 }}"
NEXT = "{{ (ctx.n | default(0)) + 1 }}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def noetl(*args: str) -> tuple[int, list[Any]]:
    command = [sys.executable, "-m", "noetl", *args, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def run(text: str) -> tuple[int, Any]:
    Path("playbook.yaml").write_text(HEAD + text)
    code, (document,) = noetl("run", "playbook.yaml")
    return code, document


@pytest.mark.spec("SRV-04", "SCOPE-01", "SRV-08")
def test_a_request_is_recorded_in_the_documented_order(folder: Path) -> None:
    """Requested, evaluated, then the merged workload, ctx and token in one event."""
    _, document = run("workload: {a: 1}\nworkflow: [{step: start, tool: {kind: noop}}]")
    _, events = noetl("events", document["execution_id"])
    started = events[2]["payload"]

    assert [event["name"] for event in events[:4]] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "workflow.started",
        "step.scheduled",
    ]
    assert events[0]["payload"]["playbook"]["path"] == "tests/t"
    assert events[1]["status"] == "success"
    assert (started["workload"], started["ctx"]) == ({"a": 1}, {})
    assert started["token"]["step"] == "start"


@pytest.mark.spec("SRV-04", "S-42")
def test_an_invalid_request_is_recorded_with_its_diagnostics(folder: Path) -> None:
    code, document = run("workflow: [{step: start, tool: {kind: nop}}]")
    _, events = noetl("events", document["execution_id"])

    assert (code, document["status"]) == (2, "failed")
    assert document["error"]["kind"] == "playbook.invalid"
    assert document["steps"] == []
    assert "VAL-04" in [found["code"] for found in document["error"]["diagnostics"]]
    assert [(event["name"], event["status"]) for event in events] == [
        ("playbook.execution.requested", "in_progress"),
        ("playbook.request.evaluated", "error"),
        ("playbook.processed", "error"),
    ]


@pytest.mark.spec("S-36")
def test_a_pipeline_stops_at_the_limit_of_its_playbook(folder: Path) -> None:
    code, document = run(
        "executor: {spec: {limits: {task_runs: 3}}}\n"
        "workflow:\n"
        "  - step: start\n"
        "    tool: [{a: {kind: noop, spec: {policy: {rules: [\n"
        f'      {{when: "{GUARD}", then:\n'
        f'       {{do: jump, to: a, set_ctx: {{n: "{NEXT}"}}}}}},\n'
        "      {else: {then: {do: continue}}}]}}}}]\n"
    )

    assert (code, document["status"]) == (1, "failed")
    assert document["error"]["kind"] == "limit.exceeded"


@pytest.mark.spec("S-35")
def test_a_step_fails_at_its_deadline(folder: Path) -> None:
    code, document = run(
        f"workflow:\n  - step: start\n    spec: {{deadline: 300ms}}\n{SLOW}"
    )

    assert (code, document["status"]) == (1, "failed")
    assert document["error"]["kind"] == "timeout"


@pytest.mark.spec("S-36", "S-35")
def test_an_execution_is_cancelled_at_the_deadline_of_its_playbook(
    folder: Path,
) -> None:
    code, document = run(
        f"executor: {{spec: {{deadline: 300ms}}}}\nworkflow:\n  - step: start\n{SLOW}"
    )

    assert (code, document["status"]) == (1, "cancelled")
    assert document["error"]["kind"] == "timeout"
