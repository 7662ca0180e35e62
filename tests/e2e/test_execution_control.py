"""A second terminal: orders to a process that runs, or to a log that nobody has."""

from __future__ import annotations

import json
import re
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


@pytest.mark.spec("S-45")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_whose_process_is_gone_is_interrupted(shell: Any, end: int) -> None:
    process = shell.start("run", shell.write("sleep", SLEEP), "--no-progress")
    execution_id = shell.await_event(process, "sleep", "task.started")
    [running] = json.loads(shell.noetl("list", "--json").stdout)["executions"]
    process.send_signal(end)
    last_words, _ = process.communicate()

    [line] = json.loads(shell.noetl("list", "--json").stdout)["executions"]
    document = json.loads(shell.noetl("show", "--json").stdout)
    said = [shell.noetl(verb).stdout for verb in ("list", "show")]
    said += [last_words] if end == signal.SIGTERM else []

    assert (running["status"], "interrupted" in running) == ("running", False)
    assert (line["status"], document["status"]) == ("running", "running")
    since = shell.events(execution_id)[-1]["timestamp"]
    expected = {"since": since, "resume": f"noetl resume {execution_id}"}
    assert line["interrupted"] == document["interrupted"] == expected
    for text in said:
        assert "interrupted (its process is gone)" in text
        assert f"continue with: noetl resume {execution_id}" in text


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
    assert "has already ended: completed" in refused.stderr


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


@pytest.mark.spec("S-38", "S-39")
def test_what_was_left_in_the_middle_of_a_task_can_be_cancelled(shell: Any) -> None:
    process = shell.start("run", shell.write("sleep", SLEEP), "--json")
    execution_id = shell.await_event(process, "sleep", "task.started")
    process.send_signal(signal.SIGINT)
    assert "Ctrl-C again" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert shell.executions("sleep")[0]["status"] == "paused"

    done = shell.noetl("cancel", execution_id, "--json")

    assert json.loads(done.stdout)["status"] == "cancelled"


@pytest.mark.spec("S-45")
def test_what_was_killed_is_in_reach_while_others_run(shell: Any) -> None:
    killed = shell.start("run", shell.write("ask", ASK), "--json")
    execution_id = shell.await_event(killed, "ask", "task.suspended")
    killed.kill()
    killed.communicate()
    other = shell.start("run", shell.write("sleep", SLEEP), "--json")
    running = shell.await_event(other, "sleep", "task.started")

    shell.noetl("signal", execution_id, "approved", "--data", '{"by": "ana"}')
    resumed = shell.noetl("resume", execution_id, "--json")
    shell.noetl("cancel", running)
    other.communicate()

    assert json.loads(resumed.stdout)["result"] == "ana"


@pytest.mark.spec("S-48", "S-54")
def test_a_large_signal_reads_as_itself(shell: Any) -> None:
    flow = """
    - step: start
      tool:
        - ask: {kind: wait, signal: go}
        - size: {kind: noop, result: "{{ _prev.text | length }}"}
    """
    process = shell.start("run", shell.write("ask", flow), "--json")
    execution_id = shell.await_event(process, "ask", "task.suspended")
    data = json.dumps({"text": "x" * 90_000})

    shell.noetl("signal", execution_id, "go", "--data", data)
    stdout, _ = process.communicate()

    assert json.loads(stdout)["result"] == 90_000


def test_half_a_surrogate_pair_is_refused(shell: Any) -> None:
    refused = shell.noetl("signal", "zzz", "x", "--data", '"\\ud800"')

    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


POLL = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: look}, {step: set}]}
- step: look
  tool:
    - poll:
        kind: shell
        command: "true"
        spec: {policy: {rules: [{when: "{{ not ctx.flag }}",
          then: {do: retry, attempts: 500, delay: 20ms}}]}}
- step: set
  tool:
    - w:
        kind: wait
        for: 300ms
        spec: {policy: {rules: [{else: {then:
          {do: continue, set_ctx: {flag: true}}}}]}}
"""


@pytest.mark.spec("S-20")
def test_a_task_that_tries_again_sees_what_others_wrote(shell: Any) -> None:
    assert shell.run(shell.write("poll", POLL))["status"] == "completed"


FORM = """
- step: start
  tool:
    - ask:
        kind: wait
        signal: approval
        timeout: 1d
        roles: [operator]
        schema:
          title: Pay?
          type: object
          required: [approved]
          properties: {approved: {type: boolean}, by: {type: string}}
    - say: {kind: noop, result: "{{ _prev.by }}"}
"""


@pytest.mark.spec("S-54")
@pytest.mark.parametrize("runs", [True, False], ids=["running", "left"])
def test_a_form_is_shown_checked_and_answered(shell: Any, runs: bool) -> None:
    process = shell.start("run", shell.write("form", FORM), "--json")
    execution_id = shell.await_event(process, "form", "task.suspended")
    if not runs:
        process.kill()
        process.communicate()
    listed = shell.noetl("list", "--waiting")
    shown = shell.noetl("show", execution_id)
    [line] = json.loads(shell.noetl("list", "--waiting", "--json").stdout)["executions"]

    def signal(*args: str) -> Any:
        return shell.noetl("signal", execution_id, *args)

    wrong = signal("approval", "--set", "approved=perhaps")
    unknown = signal("aproval")
    both = signal("approval", "--set", "by=ana", "--data", "1")
    sent = signal("approval", "--set", "approved=true", "--set", "by=ana")
    if runs:
        document = json.loads(process.communicate()[0])
    else:
        document = json.loads(shell.noetl("resume", execution_id, "--json").stdout)

    assert line["waits"][0]["signal"] == "approval"
    command = f"noetl signal {execution_id[-8:]} approval --set approved=… --set by=…"
    assert f"    answer: {command}\n" in listed.stdout
    for text in (listed.stdout, shown.stdout):
        assert "◷ start.ask: signal 'approval', since" in text
        assert re.search(r", since [-\d]+ [:\d]+ \w+ \(", text)
        assert ", for operator\n    Pay?\n    fields: approved*, by\n" in text
    assert (wrong.returncode, unknown.returncode, both.returncode) == (2, 2, 2)
    assert "'approved' must be true or false, found text" in wrong.stderr
    assert "the execution waits for signal 'approval' until" in unknown.stderr
    assert "did you mean 'approval'?" in unknown.stderr
    assert "--set contradicts --data" in both.stderr
    assert sent.returncode == 0
    assert document["result"] == "ana"
    names = [event["name"] for event in shell.events(execution_id)]
    assert names.count("message.received") == 1
    assert shell.noetl("list", "--waiting").stdout == "no execution is waiting\n"
