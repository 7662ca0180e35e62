"""Playbooks that call playbooks: executions of their own, waited for without a slot."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

CHILD = """
- step: start
  tool:
    kind: noop
    result: {sum: "{{ workload.a + workload.b }}", outer: "{{ execution_id }}"}
"""
CALL = """
- step: start
  tool:
    - call:
        kind: playbook
        path: tests/child
        args: {a: 40}
        spec: {policy: {rules: [{else: {then:
          {do: continue, set_ctx: {outcome: "{{ outcome }}"}}}}]}}
"""


@pytest.mark.spec("PIPE-17", "S-37", "WRK-01")
def test_a_child_has_its_own_execution_and_gives_its_result(shell: Any) -> None:
    shell.write("child", CHILD, "workload: {a: 1, b: 2}\n")
    document = shell.run(shell.write("parent", CALL))
    outcome = document["ctx"]["outcome"]
    [child] = shell.executions("child")

    assert outcome["result"]["sum"] == 42
    assert outcome["playbook"] == {
        "execution_id": child["execution_id"],
        "status": "completed",
    }
    assert outcome["result"]["outer"] == child["execution_id"]
    assert child["parent_id"] == document["execution_id"]
    requested = shell.events(child["execution_id"])[0]["payload"]
    assert requested["parent"]["execution_id"] == document["execution_id"]
    assert requested["trace_id"] == document["execution_id"].replace("-", "")


@pytest.mark.spec("S-37", "S-65")
@pytest.mark.parametrize(
    ("child", "kind", "words"),
    [
        (None, "playbook.not_found", "there is no playbook 'tests/child'"),
        ("- {step: start, tool: {kind: nop}}", "playbook.invalid", "is not valid"),
        (
            "- {step: start, tool: {kind: python, code: 'result = 1 / 0'}}",
            "playbook.failed",
            "division by zero",
        ),
    ],
)
def test_a_child_that_fails_is_an_error_outcome(
    shell: Any, child: str | None, kind: str, words: str
) -> None:
    if child is not None:
        shell.write("child", child)
    document = shell.run(shell.write("parent", CALL))
    error = document["ctx"]["outcome"]["error"]

    assert document["status"] == "completed"
    assert (error["kind"], error["retryable"]) == (kind, False)
    assert words in error["message"]


@pytest.mark.spec("S-37")
def test_a_failed_child_is_named_with_the_command_that_shows_it(shell: Any) -> None:
    shell.write("child", "- {step: a, tool: {kind: noop, result: '{{ 1 // 0 }}'}}\n")
    call = "- {step: start, tool: {kind: playbook, path: tests/child}}\n"
    done = shell.noetl("run", shell.write("parent", call), "--html", "report.html")
    [child] = shell.executions("child")
    name = child["execution_id"]

    assert done.returncode == 1
    assert f"  the child that failed: noetl show {name}\n" in done.stdout
    page = (shell.folder / "report.html").read_text()
    assert f"<code>noetl show {name}</code>" in page
    assert "<dt>Digest</dt>" in page
    assert "<dt>Folder</dt>" in page


def test_children_are_found_in_the_folders_that_are_named(shell: Any) -> None:
    (shell.folder / "other").mkdir()
    path = shell.write("child", CHILD, "workload: {b: 2}\n")
    (shell.folder / path).rename(shell.folder / "other" / path)

    document = shell.run(shell.write("parent", CALL), "--playbooks", "other")

    assert document["ctx"]["outcome"]["result"]["sum"] == 42


@pytest.mark.spec("S-37")
def test_playbooks_that_call_themselves_come_to_an_end(shell: Any) -> None:
    flow = """
    - step: start
      tool: [{again: {kind: playbook, path: tests/self}}]
    """
    document = shell.run(shell.write("self", flow))
    kinds = [each["error"]["kind"] for each in shell.executions("self")]

    assert document["status"] == "failed"
    assert len(kinds) == 16
    assert kinds.count("playbook.depth") == 1


@pytest.mark.spec("S-37", "DIR-05")
def test_each_attempt_has_a_child_of_its_own(shell: Any) -> None:
    shell.write("child", "- {step: start, tool: {kind: python, code: 'raise OSError'}}")
    rules = "{rules: [{else: {then: {do: retry, attempts: 3}}}]}"
    call = f"{{kind: playbook, path: tests/child, spec: {{policy: {rules}}}}}"
    flow = f"- {{step: start, tool: [{{call: {call}}}]}}"

    document = shell.run(shell.write("parent", flow))

    assert document["error"]["details"]["attempts"] == 3
    assert len(shell.executions("child")) == 3


@pytest.mark.spec("C-25")
def test_an_iteration_is_the_parent_of_the_childs_iterations(shell: Any) -> None:
    inner = """
    - step: start
      loop: {in: [1, 2], iterator: y}
      tool: {kind: noop, result: "{{ iter.parent.x * 10 + iter.y }}"}
    """
    outer = """
    - step: start
      loop: {in: [1, 2], iterator: x}
      tool: {kind: playbook, path: tests/child}
    """
    shell.write("child", inner)

    document = shell.run(shell.write("parent", outer))

    assert document["result"] == [[11, 12], [21, 22]]


@pytest.mark.spec("S-37", "S-38", "SRV-12")
def test_a_cancel_reaches_the_children(shell: Any) -> None:
    shell.write("child", "- {step: start, tool: {kind: shell, command: sleep 600}}")
    process = shell.start("run", shell.write("parent", CALL), "--json")
    shell.await_event(process, "child", "task.started")
    [parent] = shell.executions("parent")

    shell.noetl("cancel", parent["execution_id"])
    process.communicate()

    assert process.returncode == 1
    statuses = {x["playbook"]["name"]: x["status"] for x in shell.executions()}
    assert statuses == {"parent": "cancelled", "child": "cancelled"}


@pytest.mark.spec("S-35", "S-37")
def test_a_child_that_takes_too_long_is_stopped(shell: Any) -> None:
    shell.write("child", "- {step: start, tool: {kind: shell, command: sleep 600}}")
    flow = """
    - step: start
      tool: [{call: {kind: playbook, path: tests/child, spec: {timeout: 1}}}]
    """
    document = shell.run(shell.write("parent", flow))

    assert document["error"]["kind"] == "timeout"
    assert [each["status"] for each in shell.executions("child")] == ["cancelled"]


@pytest.mark.spec("S-37", "S-48")
def test_a_large_result_of_a_child_reads_as_itself(shell: Any) -> None:
    large = "{kind: noop, result: \"{{ 'x' * 100000 }}\"}"
    shell.write("child", f"- {{step: start, tool: {large}}}")
    flow = """
    - step: start
      tool:
        - call: {kind: playbook, path: tests/child}
        - size: {kind: noop, result: "{{ _prev | length }}"}
    """
    assert shell.run(shell.write("parent", flow))["result"] == 100_000


@pytest.mark.spec("S-35", "S-37")
def test_a_child_that_timed_out_is_stopped_before_its_task_tries_again(
    shell: Any,
) -> None:
    shell.write("child", "- {step: start, tool: {kind: shell, command: sleep 600}}")
    flow = """
    - step: start
      tool: [{call: {kind: playbook, path: tests/child, spec: {timeout: 500ms,
        policy: {rules: [{else: {then: {do: retry, attempts: 2}}}]}}}}]
    """
    shell.run(shell.write("parent", flow))
    first, second = reversed(shell.executions("child"))
    ends = {
        each["execution_id"]: shell.events(each["execution_id"])[-1]["timestamp"]
        for each in (first, second)
    }

    assert {first["status"], second["status"]} == {"cancelled"}
    early, late = sorted((first, second), key=lambda each: each["started_at"])
    assert ends[early["execution_id"]] < ends[late["execution_id"]]


NESTED = "- {step: start, tool: [{c: {kind: playbook, path: tests/%s}}]}"


@pytest.mark.spec("S-37", "S-39")
def test_a_pause_and_a_resume_reach_grandchildren(shell: Any) -> None:
    say = "{s: {kind: shell, command: echo hi}}"
    wait = "{w: {kind: wait, signal: go}}"
    shell.write("ask", f"- {{step: start, tool: [{wait}, {say}]}}")
    shell.write("middle", NESTED % "ask")
    process = shell.start("run", shell.write("top", NESTED % "middle"), "--json")
    grandchild = shell.await_event(process, "ask", "task.suspended")
    process.send_signal(signal.SIGINT)
    process.communicate()
    shell.noetl("signal", grandchild, "go")
    [top] = shell.executions("top")

    resumed = shell.noetl("resume", top["execution_id"], "--json")

    assert json.loads(resumed.stdout)["result"]["stdout"] == "hi\n"


@pytest.mark.spec("S-37", "S-38")
def test_a_killed_family_can_be_cancelled_from_any_member(shell: Any) -> None:
    shell.write("ask", "- {step: start, tool: [{w: {kind: wait, signal: go}}]}")
    process = shell.start("run", shell.write("top", NESTED % "ask"), "--json")
    child = shell.await_event(process, "ask", "task.suspended")
    process.kill()
    process.communicate()

    assert shell.noetl("cancel", child).returncode == 0
    [top] = shell.executions("top")
    ended = json.loads(shell.noetl("resume", top["execution_id"], "--json").stdout)

    assert ended["error"]["kind"] == "playbook.cancelled"
    assert [each["status"] for each in shell.executions("ask")] == ["cancelled"]


@pytest.mark.spec("S-38")
def test_a_killed_parent_is_cancelled_with_its_child(shell: Any) -> None:
    shell.write("ask", "- {step: start, tool: [{w: {kind: wait, signal: go}}]}")
    process = shell.start("run", shell.write("top", NESTED % "ask"), "--json")
    shell.await_event(process, "ask", "task.suspended")
    process.kill()
    process.communicate()
    [top] = shell.executions("top")

    assert shell.noetl("cancel", top["execution_id"]).returncode == 0
    assert {each["status"] for each in shell.executions()} == {"cancelled"}
