"""``noetl watch``, and commands that wait: they attach to an execution and leave it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from servers import Api, Running, playbook
from terminal import Session

pytestmark = pytest.mark.spec("CLI-01", "SRV-03")

ASK = """
- step: ask
  tool: {kind: wait, signal: go}
"""
DIVIDE = """
- step: divide
  tool: {kind: noop, result: "{{ 10 // workload.by }}"}
"""
REST = "- step: rest\n  tool: {kind: shell, command: '%s'}\n"


def gate(shell: Any) -> str:
    """A playbook whose step prints a line and ends when the file ``go`` is there."""
    wait = f"echo hello; while [ ! -e {shell.folder}/go ]; do sleep 0.02; done"
    return str(shell.write("gate", REST % wait))


def leave(command: subprocess.Popen[str], word: str) -> tuple[int, list[str]]:
    """Press Ctrl-C once the command has printed ``word``; its code and messages."""
    with command as process:
        assert process.stderr is not None
        told = [process.stderr.readline()]
        while told[-1] and word not in told[-1]:
            told.append(process.stderr.readline())
        assert told[-1], told
        process.send_signal(signal.SIGINT)
        told.append(process.communicate()[1])
    return process.returncode, "".join(told).splitlines()


# -- at home ---------------------------------------------------------------------


def test_a_run_of_another_process_is_watched_and_left(shell: Any) -> None:
    environ = {"NOETL_HOME": str(shell.home)}
    with shell.start("run", gate(shell), "--no-progress") as run:
        name = shell.await_event(run, "gate", "task.started")
        with Session(["watch", name[-8:]], environ) as session:
            lines = session.read_until("└── ", " rest ", " task_1")
            assert "  running  " in "".join(lines)
            session.read_until("rest │ hello")
            session.child.send_signal(signal.SIGINT)
            code, lines = session.finish()
        assert run.poll() is None, "it goes on"
        with shell.start("watch", "last") as follow:
            (shell.folder / "go").touch()
            out, err = follow.communicate()
        run.communicate()

    assert code == 130
    assert any(f"goes on in process {run.pid}" in line for line in lines), lines
    assert f"  watch: noetl watch {name}, stop: noetl cancel {name}" in lines
    assert (follow.returncode, run.returncode) == (0, 0)
    assert f"({name})" in out
    assert "✓ rest: done" in err
    assert "rest │ hello" in err


def test_an_execution_that_has_ended_is_shown(shell: Any) -> None:
    shell.noetl("run", shell.write("divides", DIVIDE, "workload: {by: 0}\n"))
    done = shell.noetl("watch")
    streamed = shell.noetl("watch", "last", "--json")
    events = shell.noetl("events", "last", "--json")

    assert done.returncode == streamed.returncode == 1
    assert "✗ divide: failed" in done.stderr
    assert done.stdout.startswith("failed: 1 step in ")
    assert streamed.stdout == events.stdout
    assert json.loads(streamed.stdout.splitlines()[-1])["name"] == "playbook.processed"


def test_an_execution_whose_process_was_killed_says_how_it_goes_on(shell: Any) -> None:
    run = shell.start("run", gate(shell), "--no-progress")
    name = shell.await_event(run, "gate", "task.started")
    run.kill()
    run.communicate()
    (shell.folder / "go").touch()

    done = shell.noetl("watch", "last")

    assert done.returncode == 130
    assert done.stdout.startswith("interrupted")
    assert f"  continue with: noetl resume {name}\n" in done.stdout


def test_ctrl_c_ends_any_command_with_130(shell: Any) -> None:
    pipe = shell.folder / "endless.yaml"
    os.mkfifo(pipe)
    with shell.start("validate", str(pipe)) as process, pipe.open("wb"):  # it reads
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()

    assert (process.returncode, out, err) == (130, "", "")


# -- at a server -----------------------------------------------------------------


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("server") / "home")
    yield server
    server.stop()


@pytest.fixture
def api(running: Running) -> Api:
    return Api(running.url, running.token)


@pytest.fixture
def there(shell: Any, running: Running) -> Any:
    """A terminal whose commands need ``--server``."""
    shell.set(NOETL_TOKEN=running.token)
    return shell


@pytest.mark.parametrize("verb", ["watch", "resume", "exec"])
def test_a_command_that_waits_is_left_with_a_word(
    there: Any, running: Running, api: Api, verb: str
) -> None:
    server = ("--server", running.url)
    if verb == "exec":
        file = there.folder / "asks.yaml"
        file.write_text(playbook("asks", ASK))
        assert there.noetl("catalog", "register", str(file), *server).returncode == 0
        command = ("exec", "tests/asks", "--wait", *server)
    else:
        asked = api.start(playbook("asks", ASK))
        api.await_event(asked, "task.suspended")
        waits = ("--wait",) if verb == "resume" else ()
        command = (verb, asked, *waits, *server)

    code, told = leave(there.start(*command), "◷ ask: ")
    [left, hint] = told[-2:]
    execution = api.get("/api/executions?limit=1").body["executions"][0]

    assert code == 130
    assert left == f"left: the execution goes on at {running.url}"
    more = f"{execution['execution_id']} --server {running.url}"
    assert hint == f"  watch: noetl watch {more}, stop: noetl cancel {more}"
    assert execution["status"] == "waiting", "it goes on"


def test_watching_at_a_server_ends_with_the_execution(
    there: Any, running: Running, api: Api
) -> None:
    name = api.start(playbook("asks", ASK))
    api.await_event(name, "task.suspended")
    there.set(NOETL_SERVER=running.url)
    with there.start("watch", name) as watching:
        assert watching.stderr.readline().startswith("◷ ask: ")
        answer = api.post(f"/api/executions/{name}/signal", {"name": "go"})
        assert answer.status == 200
        out, _ = watching.communicate()
    streamed = there.noetl("watch", name, "--json")
    names = [json.loads(line)["name"] for line in streamed.stdout.splitlines()]
    events = api.get(f"/api/executions/{name}/events").body["events"]

    assert watching.returncode == streamed.returncode == 0
    assert out.startswith("completed: 1 step in ")
    assert names == [each["name"] for each in events]


def test_commands_that_continue_an_execution_return_at_once(
    there: Any, running: Running, api: Api
) -> None:
    there.set(NOETL_SERVER=running.url)
    paused = api.start(playbook("asks", ASK))
    api.await_event(paused, "task.suspended")
    assert api.post(f"/api/executions/{paused}/pause").status == 200
    failed = api.run(playbook("divides", DIVIDE, "workload: {by: 0}\n"))["execution_id"]

    resumed = there.noetl("resume", paused)
    retried = there.noetl("retry", failed, "--set", "by=5", "--json")
    waited = there.noetl("retry", failed, "--set", "by=5", "--wait", "--json")
    answer = json.loads(retried.stdout)

    assert resumed.stdout.splitlines() == [
        f"waiting: {paused}",
        f"  why it waits: noetl show {paused}",
        f"  watch it with: noetl watch {paused}",
    ]
    assert retried.returncode == resumed.returncode == waited.returncode == 0
    assert answer.keys() >= {"execution_id", "status"}
    assert api.finish(answer["execution_id"])["result"] == 2
    assert json.loads(waited.stdout)["result"] == 2
