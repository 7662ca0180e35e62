"""A second terminal: orders to a process that runs, or to a log that nobody has."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

ASK = """
- step: start
  tool:
    - ask: {kind: wait, signal: approved}
    - say: {kind: noop, result: "{{ _prev.by }}"}
"""
SLEEP = "- {step: start, tool: {kind: shell, command: sleep 600}}"


@pytest.mark.spec("S-54", "S-68")
def test_a_signal_wakes_a_run_that_waits(shell: Any) -> None:
    process = shell.start("run", shell.write("ask", ASK), "--json")
    execution_id = shell.await_event(process, "ask", "task.suspended")
    assert shell.executions("ask")[0]["status"] == "waiting"

    sent = shell.noetl("signal", execution_id, "approved", "--data", '{"by": "ana"}')
    stdout, _ = process.communicate()

    assert sent.returncode == 0
    assert json.loads(stdout)["result"] == "ana"


@pytest.mark.spec("S-38")
def test_a_cancel_stops_a_running_tool(shell: Any) -> None:
    process = shell.start("run", shell.write("sleep", SLEEP), "--json")
    execution_id = shell.await_event(process, "sleep", "task.started")

    assert shell.noetl("cancel", execution_id).returncode == 0
    stdout, _ = process.communicate()
    document = json.loads(stdout)

    assert (process.returncode, document["status"]) == (1, "cancelled")
    assert document["steps"][0]["status"] == "cancelled"
    done = [e for e in shell.events(execution_id) if e["name"] == "task.done"]
    assert [e["payload"]["outcome"]["error"]["kind"] for e in done] == ["cancelled"]


@pytest.mark.spec("S-39")
def test_a_pause_ends_the_process_and_a_resume_goes_on(shell: Any) -> None:
    process = shell.start("run", shell.write("ask", ASK), "--json")
    execution_id = shell.await_event(process, "ask", "task.suspended")

    paused = json.loads(shell.noetl("pause", execution_id, "--json").stdout)
    stdout, _ = process.communicate()
    assert process.returncode == 130
    assert json.loads(stdout)["status"] == "paused"
    assert paused["execution_id"] == execution_id
    shell.noetl("signal", execution_id, "approved", "--data", '{"by": "bob"}')
    resumed = shell.noetl("resume", execution_id, "--json")

    assert json.loads(resumed.stdout)["result"] == "bob"


@pytest.mark.spec("S-38", "S-45")
def test_what_a_killed_process_left_can_be_cancelled(shell: Any) -> None:
    process = shell.start("run", shell.write("sleep", SLEEP), "--json")
    execution_id = shell.await_event(process, "sleep", "task.started")
    process.send_signal(signal.SIGKILL)
    process.communicate()

    done = shell.noetl("cancel", execution_id, "--json")

    assert json.loads(done.stdout)["status"] == "cancelled"
    names = [event["name"] for event in shell.events(execution_id)]
    assert names[-1] == "playbook.processed"
    assert names.count("task.started") == 1


@pytest.mark.parametrize("verb", [["cancel"], ["pause"], ["signal", "x"]])
def test_orders_to_what_is_over_are_refused_in_a_sentence(
    shell: Any, verb: Any
) -> None:
    document = shell.run(shell.write("done", "- {step: start, tool: {kind: noop}}"))
    order = [verb[0], document["execution_id"], *verb[1:]]

    refused = shell.noetl(*order)

    assert refused.returncode == 2
    assert "has ended already: completed" in refused.stderr


def test_wrong_orders_say_what_is_wrong(shell: Any) -> None:
    assert "no execution 'zzz'" in shell.noetl("cancel", "zzz").stderr
    refused = shell.noetl("signal", "zzz", "x", "--data", "{a")
    assert refused.returncode == 2
    assert "--data" in refused.stderr


@pytest.mark.spec("S-37", "S-39")
def test_a_pause_reaches_the_children(shell: Any) -> None:
    shell.write("ask", ASK)
    call = "- {step: start, tool: [{c: {kind: playbook, path: tests/ask}}]}"
    process = shell.start("run", shell.write("parent", call), "--json")
    child = shell.await_event(process, "ask", "task.suspended")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert {each["status"] for each in shell.executions()} == {"paused"}

    shell.noetl("signal", child, "approved", "--data", '{"by": "eve"}')
    [parent] = shell.executions("parent")
    resumed = shell.noetl("resume", parent["execution_id"], "--json")

    assert json.loads(resumed.stdout)["result"] == "eve"
