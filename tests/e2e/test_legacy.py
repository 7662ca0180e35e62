"""Playbooks of the 003 dialect as their user runs them, and what a kill leaves."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

LEGACY = "executor: {spec: {extensions: [legacy]}}\n"
APPROVAL = """
- step: wait_for_approval
  spec: {eval_mode: on_event, timeout: TIMEOUT}
  case:
    - when: "{{ event.name == 'message.received' and event.data.type == 'approval' }}"
      then: [{note: {tool: {kind: noop}}}, {next: {to: [{step: approved}]}}]
    - when: "{{ event.name == 'timer.fired' and event.data.timer_id == 'timeout' }}"
      then: [{remark: {tool: {kind: noop}}}, {next: {to: [{step: too_late}]}}]
- step: approved
  tool: {kind: noop, result: approved}
- step: too_late
  tool: {kind: noop, result: too late}
"""


def kill_while_it_waits(shell: Any, timeout: str) -> str:
    workflow = APPROVAL.replace("TIMEOUT", timeout)
    process = shell.start("run", shell.write("ask", workflow, LEGACY), "--json")
    execution_id: str = shell.await_event(process, "ask", "task.suspended")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return execution_id


def told(shell: Any, execution_id: str, *asked: str) -> list[dict[str, Any]]:
    done = shell.noetl("events", execution_id, "--dialect", "003", "--json", *asked)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.spec("LEG-CASE-12", "LEG-CASE-13", "S-54", "ACC-13")
def test_an_approval_after_everything_was_killed(shell: Any) -> None:
    execution_id = kill_while_it_waits(shell, "1h")

    sent = shell.noetl("signal", execution_id, "approval")
    again = shell.noetl("signal", execution_id, "approval")
    resumed = shell.noetl("resume", execution_id, "--json")

    assert (sent.returncode, again.returncode) == (0, 0), sent.stderr
    assert json.loads(resumed.stdout)["result"] == "approved"
    assert len(told(shell, execution_id, "--where", "name=case.evaluated")) == 1


@pytest.mark.spec("LEG-CASE-14", "S-55", "ACC-13")
def test_a_timer_that_was_due_while_nothing_ran_fires_once(shell: Any) -> None:
    execution_id = kill_while_it_waits(shell, "5s")

    resumed = json.loads(shell.noetl("resume", execution_id, "--json").stdout)

    assert resumed["result"] == "too late"
    [case] = told(shell, execution_id, "--where", "name=case.evaluated")
    assert case["payload"]["trigger_event"] == "timer.fired"
    notes = told(shell, execution_id, "--where", "event_type=tool.processed")
    assert [each["payload"]["task"] for each in notes] == ["remark", "task_1"]


@pytest.mark.spec("S-01", "C-01", "VAL-24")
def test_the_switch_of_the_operator(shell: Any) -> None:
    path = shell.write(
        "plain", "- {step: start, tool: {kind: noop, result: 1}, case: []}"
    )

    refused = shell.noetl("run", path)
    run = shell.noetl("run", path, "--extensions", "legacy", "--json")

    assert refused.returncode == 2
    assert "or enable the extension 'legacy'" in refused.stderr
    document = json.loads(run.stdout)
    assert document["result"] == 1
    events = shell.events(document["execution_id"])
    [evaluated] = [e for e in events if e["name"] == "playbook.request.evaluated"]
    assert evaluated["payload"]["extensions"] == ["legacy"]


@pytest.mark.spec("LEG-EVT-09")
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--where", "nonsense"], "--where takes ID=VALUE"),
        (["--where", "acton_id=1"], "did you mean 'action_id'?"),
        (["--dialect", "002"], "'002' is not one of"),
        (["--dialect", "003", "--follow"], "contradicts --follow"),
        (["--where", "step=x", "--export", "jsonl", "-"], "contradicts --export"),
    ],
)
def test_questions_that_are_none(shell: Any, asked: list[str], said: str) -> None:
    done = shell.noetl("events", "last", *asked)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spec("LEG-STEP-08", "LEG-RETRY-09")
def test_real_tools(shell: Any) -> None:
    steps = """
    - step: compute
      tool:
        kind: python
        code: |
          result = {"order_id": order_id, "total": total}
      vars: {order: "{{ result.order_id }}"}
      case:
        - when: "{{ result.total > 1000 }}"
          then:
            - list_it: {tool: {kind: shell, command: "echo {{ vars.order }}"}}
            - next: {to: [{step: end}]}
    - step: end
      tool: {kind: noop, result: "{{ list_it.result.stdout | trim }}"}
    """
    root = LEGACY + "workload: {order_id: 17, total: 1500}\n"
    document = shell.run(shell.write("orders", steps, root))

    assert document["result"] == "17"
    tools = told(shell, document["execution_id"], "--where", "name=tool.processed")
    assert all(each["action_id"] for each in tools)
