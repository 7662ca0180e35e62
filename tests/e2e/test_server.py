"""The server as its user starts, uses and stops it; killed on purpose."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
from collections.abc import Iterator
from typing import Any

import pytest

ASKS = """
- step: start
  tool: {kind: wait, signal: go}
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop, result: "{{ workload.name }}"}}
"""
HELLO = "- {step: start, tool: {kind: noop, result: 'hello {{ workload.name }}'}}"


@pytest.fixture
def server(shell: Any) -> Iterator[dict[str, Any]]:
    done = shell.noetl("server", "start", "--port", "0", "--json")
    assert done.returncode == 0, done.stderr
    own = dict(shell._env)
    yield json.loads(done.stdout)
    shell._env = own  # tests change it
    shell.noetl("server", "stop")
    assert shell.noetl("server", "status").returncode == 3


def register(shell: Any, name: str, workflow: str) -> None:
    done = shell.noetl("catalog", "register", shell.write(name, workflow))
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("CLI-01")
def test_a_server_is_started_looked_at_restarted_and_stopped(shell: Any) -> None:
    assert shell.noetl("server", "status").returncode == 3
    started = json.loads(shell.noetl("server", "start", "--port", "0", "--json").stdout)
    status = shell.noetl("server", "status", "--json")
    again = shell.noetl("server", "start")
    restarted = json.loads(shell.noetl("server", "restart", "--json").stdout)
    stopped = shell.noetl("server", "stop")

    assert started["url"].startswith("http://127.0.0.1:")
    assert status.returncode == 0
    assert json.loads(status.stdout) == {**started, "ready": True}
    assert again.returncode == 2
    assert "is already running" in again.stderr
    assert started["url"] in again.stderr
    assert restarted["pid"] != started["pid"]
    assert stopped.stdout == f"stopped: process {restarted['pid']}\n"
    assert shell.noetl("server", "status").returncode == 3
    assert shell.noetl("server", "stop").returncode == 0, "nothing is wrong with that"


@pytest.mark.usefixtures("server")
def test_the_token_is_for_its_user_alone(shell: Any) -> None:
    file = shell.home / "token"

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()
    assert len(token) == 68
    for log in (shell.home / "logs").iterdir():
        assert token not in log.read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])
def test_an_address_that_others_can_reach_is_refused(shell: Any, host: str) -> None:
    done = shell.noetl("server", "start", "--host", host)

    assert done.returncode == 2
    assert "auth.required_for_bind" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named(shell: Any, server: dict[str, Any]) -> None:
    port = server["url"].rpartition(":")[2]
    other = {**shell._env, "NOETL_HOME": str(shell.folder / "other")}
    shell._env, mine = other, shell._env

    done = shell.noetl("server", "start", "--port", port)
    shell._env = mine

    assert done.returncode == 2
    assert f"cannot listen at 127.0.0.1:{port}: Address already in use" in done.stderr


@pytest.mark.spec("SRV-01", "SRV-05")
@pytest.mark.usefixtures("server")
def test_exec_waits_and_prints_what_run_prints(shell: Any) -> None:
    register(shell, "hello", HELLO)

    done = shell.noetl("exec", "tests/hello", "--set", "name=Ada", "--wait", "--json")
    document = json.loads(done.stdout)
    ran = shell.run("hello.yaml", "--set", "name=Ada")

    assert done.returncode == 0
    assert document["result"] == ran["result"] == "hello Ada"
    assert document.keys() == ran.keys()
    assert document["playbook"]["version"] == "1"


@pytest.mark.usefixtures("server")
def test_exec_exit_codes(shell: Any) -> None:
    fail = "{policy: {rules: [{else: {then: {do: fail}}}]}}"
    register(shell, "fails", f"- {{step: start, tool: {{kind: noop, spec: {fail}}}}}")

    assert shell.noetl("exec", "tests/fails").returncode == 0, "it is accepted"
    assert shell.noetl("exec", "tests/fails", "--wait").returncode == 1
    unknown = shell.noetl("exec", "tests/nobody", "--wait", "--json")
    assert unknown.returncode == 2
    assert json.loads(unknown.stdout)["error"]["kind"] == "playbook.not_found"
    assert shell.noetl("exec", "tests/fails@9").returncode == 2


def test_without_a_server_exec_says_how_to_start_one(shell: Any) -> None:
    done = shell.noetl("exec", "tests/hello")

    assert (done.returncode, done.stdout) == (3, "")
    assert "start one: noetl server start" in done.stderr


@pytest.mark.parametrize("verb", ["list", "show last", "events last", "cancel last"])
def test_a_server_that_cannot_be_reached(shell: Any, verb: str) -> None:
    done = shell.noetl(*verb.split(), "--server", "http://127.0.0.1:1")

    assert done.returncode == 3
    assert "http://127.0.0.1:1 cannot be reached: Connection refused" in done.stderr


def test_a_wrong_address_or_token_is_the_callers_fault(
    shell: Any, server: dict[str, Any]
) -> None:
    assert shell.noetl("list", "--server", "localhost").returncode == 2
    shell._env["NOETL_TOKEN"] = "ntl_wrong"

    done = shell.noetl("list", "--server", server["url"])

    assert done.returncode == 2
    assert f"{server['url']} refused the token of " in done.stderr
    assert "NOETL_TOKEN" in done.stderr

    (shell.folder / "other").mkdir()
    shell._env["NOETL_HOME"] = str(shell.folder / "other")
    del shell._env["NOETL_TOKEN"]
    nothing = shell.noetl("list", "--server", server["url"])
    assert nothing.returncode == 2
    assert "set NOETL_TOKEN" in nothing.stderr


@pytest.mark.spec("SRV-03", "SRV-15", "S-54")
@pytest.mark.parametrize("named", [True, False], ids=["--server", "of the home"])
def test_every_verb_reaches_executions_of_the_server(
    shell: Any, server: dict[str, Any], named: bool
) -> None:
    where = ["--server", server["url"]] if named else []
    register(shell, "asks", ASKS)

    def noetl(*args: str) -> Any:
        done = shell.noetl(*args, *where, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    execution_id = noetl("exec", "tests/asks", "--set", "name=Bo")["execution_id"]
    assert noetl("pause", execution_id)["status"] == "paused"
    listed = noetl("list", "--status", "paused")["executions"]
    assert [each["execution_id"] for each in listed] == [execution_id]
    assert noetl("signal", execution_id, "go")["status"] == "paused"
    document = noetl("resume", execution_id, "--wait")
    assert (document["status"], document["result"]) == ("completed", "Bo")
    assert noetl("show", execution_id) == document
    assert noetl("replay", execution_id, "--at", "3")["seq"] == 3
    events = shell.noetl("events", execution_id, "--follow", "--json", *where)
    lines = [json.loads(line) for line in events.stdout.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, document["events"] + 1))
    refused = shell.noetl("cancel", execution_id, *where)
    assert refused.returncode == 2
    assert "completed" in refused.stderr


@pytest.mark.spec("ACC-12")
def test_a_server_that_is_killed_goes_on_where_it_was(
    shell: Any, server: dict[str, Any]
) -> None:
    register(shell, "asks", ASKS)
    started = shell.noetl("exec", "tests/asks", "--set", "name=Bo", "--json")
    execution_id = json.loads(started.stdout)["execution_id"]
    shell.noetl("catalog", "register", shell.write("asks", HELLO))
    os.kill(server["pid"], signal.SIGKILL)

    lost = shell.noetl("signal", execution_id, "go")
    assert lost.returncode == 3
    assert "noetl server start" in lost.stderr
    shell.noetl("server", "start", "--port", "0")
    shell.noetl("signal", execution_id, "go")
    document = json.loads(shell.noetl("resume", execution_id, "--json").stdout)

    assert (document["status"], document["result"]) == ("completed", "Bo"), (
        "in the version that it was accepted with"
    )
    assert shell.noetl("verify", "--execution", execution_id).returncode == 0


def test_a_tool_at_work_is_finished_before_the_server_stops(
    shell: Any, server: dict[str, Any]
) -> None:
    go, up = shell.folder / "go", shell.folder / "up"
    script = f"touch {up}; while [ ! -e {go} ]; do :; done; echo done"
    register(
        shell, "works", f"- {{step: start, tool: {{kind: shell, command: '{script}'}}}}"
    )
    execution_id = json.loads(shell.noetl("exec", "tests/works", "--json").stdout)[
        "execution_id"
    ]
    while not up.exists():
        pass

    end = os.pidfd_open(server["pid"])
    os.kill(server["pid"], signal.SIGTERM)  # a second one would stop it at once
    go.touch()
    select.select([end], [], [])
    os.close(end)

    document = json.loads(shell.noetl("show", execution_id, "--json").stdout)
    assert document["status"] == "completed"
    assert document["steps"][0]["attempts"] == 1


@pytest.mark.usefixtures("server")
def test_runs_beside_the_server_are_listed_with_its_own(shell: Any) -> None:
    register(shell, "hello", HELLO)
    shell.noetl("exec", "tests/hello", "--set", "name=a", "--wait")

    ran = shell.run("hello.yaml", "--set", "name=b")

    assert ran["status"] == "completed"
    assert len(shell.executions("hello")) == 2
    assert shell.noetl("show", ran["execution_id"]).returncode == 0


@pytest.mark.spec("S-43")
def test_a_run_finds_children_in_the_catalog_of_its_home(shell: Any) -> None:
    register(shell, "child", "- {step: start, tool: {kind: noop, result: 1}}")
    (shell.folder / "child.yaml").unlink()
    parent = "- {step: start, tool: {kind: playbook, path: tests/child}}"

    document = shell.run(shell.write("parent", parent))

    assert (document["status"], document["result"]) == ("completed", 1)


def test_the_catalog_of_a_home_without_a_server(shell: Any) -> None:
    register(shell, "hello", HELLO)
    register(shell, "hello", HELLO.replace("hello", "good day,"))

    listed = json.loads(shell.noetl("catalog", "list", "--json").stdout)["playbooks"]
    assert [(line["path"], line["version"]) for line in listed] == [
        ("tests/hello", "2")
    ]
    assert "good day" in shell.noetl("catalog", "show", "tests/hello").stdout
    assert "good day" not in shell.noetl("catalog", "show", "tests/hello@1").stdout
    diff = shell.noetl("catalog", "diff", "tests/hello").stdout
    assert diff.startswith("--- tests/hello@1\n+++ tests/hello@2\n")
    assert shell.noetl("catalog", "show", "tests/nobody").returncode == 2
    wrong = shell.noetl("catalog", "register", shell.write("wrong", "- {step: 1}"))
    assert wrong.returncode == 2
    assert "wrong.yaml:5:12: error: 'step' must be text" in wrong.stderr
