"""Workers as their user starts, counts and stops them."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Iterator
from typing import Any

import pytest

HELLO = "- {step: start, spec: {pool: side}, tool: {kind: noop, result: hello}}"


def kill(pid: int) -> None:
    """Kill a process and wait until it has ended."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [])
    finally:
        os.close(process)


@pytest.fixture
def server(shell: Any) -> Iterator[dict[str, Any]]:
    done = shell.noetl("server", "start", "--port", "0", "--json")
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)
    shell.noetl("worker", "stop")
    shell.noetl("server", "stop")


@pytest.mark.spec("CLI-02", "S-64")
@pytest.mark.usefixtures("server")
def test_a_pool_is_started_scaled_looked_at_and_stopped(shell: Any) -> None:
    assert shell.noetl("worker", "status").returncode == 3
    shell.noetl("catalog", "register", shell.write("hello", HELLO))
    started = shell.noetl("exec", "tests/hello", "--json")
    execution_id = json.loads(started.stdout)["execution_id"]

    first = shell.noetl("worker", "start", "--pool", "side", "--slots", "2", "--json")
    scaled = shell.noetl("worker", "scale", "2", "--pool", "side", "--json")
    status = shell.noetl("worker", "status")
    done = shell.noetl("resume", execution_id, "--json")
    stopped = shell.noetl("worker", "stop", "--json")

    assert first.returncode == 0, first.stderr
    [worker] = json.loads(first.stdout)["workers"]
    assert (worker["pool"], worker["slots"]) == ("side", 2)
    assert len(json.loads(scaled.stdout)["workers"]) == 2
    assert status.stdout.count("pool side") == 2
    assert json.loads(done.stdout)["result"] == "hello", "nobody else works for it"
    assert len(json.loads(stopped.stdout)["workers"]) == 2
    assert shell.noetl("worker", "status").returncode == 3


@pytest.mark.spec("CLI-02")
@pytest.mark.usefixtures("server")
def test_a_killed_worker_is_not_counted(shell: Any) -> None:
    started = json.loads(shell.noetl("worker", "start", "--json").stdout)
    kill(started["workers"][0]["pid"])

    scaled = json.loads(shell.noetl("worker", "scale", "1", "--json").stdout)

    assert len(scaled["workers"]) == 1
    assert scaled["workers"] != started["workers"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["start"], 3, "no server is running under"),
        (["start", "--server", "localhost"], 2, "not a valid server address"),
        (["scale", "-1"], 2, "-1"),
        (["start", "--slots", "0"], 2, "0"),
    ],
)
def test_mistakes_are_reported(
    shell: Any, arguments: list[str], code: int, said: str
) -> None:
    done = shell.noetl("worker", *arguments)

    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_token_a_worker_does_not_begin(shell: Any) -> None:
    done = shell.noetl("worker", "start", "--server", "http://127.0.0.1:1")

    assert done.returncode == 2
    assert "a worker needs a token" in done.stderr
