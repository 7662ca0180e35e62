"""Code on a server with accounts: it reaches nothing of the server, nor of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running, WorkerProcess, playbook

from noetl.adapters.host import HostPolicy
from noetl.adapters.processes.limits import clean_environment
from noetl.adapters.processes.sandbox import look

SECRET = "an-environment-of-the-server-5d1c"
CODE = ("python", "script", "shell")


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> None:
    """Bubblewrap, on a machine that lets it work."""
    problem = look(clean_environment()["PATH"]).problem
    if problem is not None:
        pytest.skip(f"no sandbox can be made here: {problem}")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with one account, and a root that is above its home."""
    above = tmp_path_factory.mktemp("above")
    home = above / "home"
    policy = HostPolicy(roots=(str(above),), hidden=(str(home),))
    os.environ["NOETL_TEST_SECRET"] = SECRET
    try:
        server = Running(home, policy=policy)
        server.person("dora", "developer")
        yield server
        server.stop()
    finally:
        del os.environ["NOETL_TEST_SECRET"]


def task(tool: dict[str, Any]) -> str:
    return playbook("code", f"- step: start\n  tool: {json.dumps(tool)}")


def result_of(document: dict[str, Any]) -> Any:
    assert document["status"] == "completed", document
    return document["result"]


def python(api: Api, code: str, **args: Any) -> Any:
    tool = {"kind": "python", "code": code, "args": args}
    return result_of(api.run(task(tool)))


def admin_of(server: Running) -> Api:
    return Api(server.url, server.token)


LOOK = """
import ctypes, os, socket, errno
def attempt(act, *args):
    try:
        return act(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def read(path):
    with open(path, errors='replace') as file:
        return file.read()
def write(path):
    with open(path, 'w') as file:
        return file.write('x')
def connect(port):
    socket.create_connection(('127.0.0.1', port), 5).close()
def syscall(number, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return 'done'
def main(home, above, server, port):
    status = read('/proc/self/status')
    return {
        'token': attempt(read, home + '/token'),
        'key': attempt(read, home + '/key'),
        'home': attempt(os.listdir, home),
        'write home': attempt(write, home + '/x'),
        'root': attempt(write, above + '/made'),
        'elsewhere': attempt(write, '/usr/made'),
        'top': attempt(write, '/made'),
        'scratch': attempt(write, '/tmp/made'),
        'environ': attempt(read, f'/proc/{server}/environ'),
        'memory': attempt(read, f'/proc/{server}/maps'),
        'processes': sum(name.isdigit() for name in os.listdir('/proc')),
        'loopback': attempt(connect, port),
        'ptrace': attempt(syscall, 101, 16, 1, 0, 0),
        'unshare': attempt(syscall, 272, 0x10000000),
        'mount': attempt(syscall, 165, 0, 0, 0, 0, 0),
        'seccomp': 'Seccomp:\\t2' in status,
        'rights': status.partition('CapEff:')[2].split()[0].strip('0'),
        'variables': dict(os.environ),
        'passwd': os.path.exists('/etc/passwd'),
        'files': sorted(int(name) for name in os.listdir('/proc/self/fd'))[-1],
    }
"""


@pytest.fixture(scope="module")
def seen(shared: Running) -> dict[str, Any]:
    """What code of a developer finds out."""
    home = shared.home.folder
    port = int(shared.url.rpartition(":")[2])
    found: dict[str, Any] = python(
        admin_of(shared),
        LOOK,
        home=str(home),
        above=str(home.parent),
        server=os.getpid(),
        port=port,
    )
    return found


GONE = "ENOENT"
MACHINE = os.uname().machine


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("token", GONE),
        ("key", GONE),
        ("home", []),
        ("write home", "EROFS"),
        ("root", 1),
        ("elsewhere", "EROFS"),
        ("top", "EROFS"),
        ("scratch", 1),
        ("environ", GONE),
        ("memory", GONE),
        ("loopback", "ECONNREFUSED"),
        ("rights", ""),
        ("passwd", False),
    ],
)
def test_code_reaches_nothing_of_the_server(
    seen: dict[str, Any], what: str, answer: Any
) -> None:
    assert seen[what] == answer


@pytest.mark.parametrize("what", ["ptrace", "unshare", "mount"])
def test_code_cannot_make_every_system_call(seen: dict[str, Any], what: str) -> None:
    if MACHINE != "x86_64":
        pytest.skip(f"the numbers of calls in this test are not those of {MACHINE}")
    assert seen[what] == "EPERM"
    assert seen["seccomp"]


def test_code_sees_no_other_process_and_no_variable_of_the_server(
    seen: dict[str, Any],
) -> None:
    assert seen["processes"] <= 3
    assert SECRET not in json.dumps(seen["variables"])
    assert seen["variables"]["HOME"] == "/tmp"
    assert not [name for name in seen["variables"] if name.startswith("NOETL_HOME")]
    assert seen["files"] <= 6  # the streams and the channel, and the listing itself


@pytest.mark.parametrize("kind", ["script", "shell"])
def test_a_program_is_in_a_sandbox_as_well(shared: Running, kind: str) -> None:
    home = shared.home.folder
    text = (
        f"cat {home}/token; ls {home}; echo x > {home}/x; ls -d /etc/passwd;"
        f" cat /proc/{os.getpid()}/environ; env; echo done"
    )
    ran = result_of(admin_of(shared).run(task({"kind": kind, "script": text})))

    assert ran["stdout"].endswith("done\n")
    assert shared.token not in ran["stdout"]
    assert SECRET not in ran["stdout"]
    assert "/etc/passwd" not in ran["stdout"]


def test_a_variable_of_a_program_does_not_reach_the_sandbox_s_own_start(
    shared: Running,
) -> None:
    """A library that is preloaded outside would run outside."""
    tool = {
        "kind": "shell",
        "command": ["sh", "-c", "echo $LD_PRELOAD"],
        "env": {"LD_PRELOAD": "/nowhere.so"},
    }
    ran = result_of(admin_of(shared).run(task(tool)))

    assert ran["stdout"] == "/nowhere.so\n"
    assert "bwrap" not in ran["stderr"]


def test_a_file_of_a_root_is_shared_with_programs_and_duckdb(shared: Running) -> None:
    above = shared.home.folder.parent
    (above / "numbers.csv").write_text("a\n1\n2\n")
    api = admin_of(shared)
    tool = {"kind": "duckdb", "command": "SELECT sum(a) AS s FROM 'numbers.csv'"}
    shell = {"kind": "shell", "script": f"cat {above}/numbers.csv"}

    assert result_of(api.run(task(tool)))["rows"] == [{"s": 3}]
    assert result_of(api.run(task(shell)))["stdout"] == "a\n1\n2\n"


@pytest.mark.parametrize("reference", ["", "| ref"])
def test_duckdb_runs_in_a_sandbox_and_takes_and_gives_large_rows(
    reference: str, shared: Running
) -> None:
    """Its tables and its result pass through files of the home, which it cannot see."""
    text = playbook(
        "rows",
        """
        - step: start
          tool:
            kind: duckdb
            command: SELECT range AS n, repeat('x', 100) AS t FROM range(20000)
            spec: {policy: {rules: [{else: {then: KEEP}}]}}
          next: {arcs: [{step: sum}]}
        - step: sum
          tool:
            kind: duckdb
            command: SELECT count(*) AS c, sum(n) AS s FROM given
            tables: {given: "{{ ctx.rows REF }}"}
        """,
    )
    keep = '{do: continue, set_ctx: {rows: "{{ outcome.result.rows }}"}}'
    text = text.replace("KEEP", keep).replace("REF", reference)
    document = admin_of(shared).run(text)

    assert result_of(document)["rows"] == [{"c": 20000, "s": 199990000}]


def test_nothing_that_code_started_is_left(shared: Running) -> None:
    code = (
        "import os, subprocess\n"
        "subprocess.Popen(['setsid', 'sleep', '7654'])\n"
        "if not os.fork():\n  os.setsid()\n  os.execvp('sleep', ['sleep', '7654'])\n"
        "result = 1"
    )
    assert python(admin_of(shared), code) == 1

    found = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    )
    assert "sleep 7654" not in found.stdout.splitlines()


ENCLOSED = "import os\nresult = os.path.exists('/etc/passwd')"
"""Whether the code is in no sandbox: each machine has this file."""


def test_the_first_account_isolates_code_at_once(fresh: Running) -> None:
    """Also a process that waits for calls of the same execution is not used again."""
    admin = admin_of(fresh)
    text = playbook(
        "twice",
        f"""
        - step: start
          tool: {{kind: python, code: {json.dumps(ENCLOSED)}}}
          next: {{arcs: [{{step: ask}}]}}
        - step: ask
          tool: {{kind: wait, signal: go}}
          next: {{arcs: [{{step: again}}]}}
        - step: again
          tool: {{kind: python, code: {json.dumps(ENCLOSED)}}}
        """,
    )
    assert admin.get("/readyz").body["isolation"] == "off"
    execution_id = admin.start(text)
    admin.await_event(execution_id, "task.suspended")
    first = admin.get(f"/api/executions/{execution_id}/events").body
    fresh.person("eve", "viewer")
    admin.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    document = admin.finish(execution_id)

    assert '"result": true' in json.dumps(first)
    assert result_of(document) is False
    assert admin.get("/readyz").body["isolation"] == "sandbox"


def test_an_account_of_workers_isolates_nothing(fresh: Running) -> None:
    fresh.person("crew", "worker:default")

    assert python(admin_of(fresh), ENCLOSED) is True


def test_a_worker_elsewhere_learns_it_from_its_server(
    tmp_path: Path,
) -> None:
    server = Running(tmp_path / "home", slots=0)
    worker = WorkerProcess(tmp_path / "worker", server.url, server.token)
    try:
        before = python(admin_of(server), ENCLOSED)
        server.person("eve", "viewer")
        after = python(admin_of(server), ENCLOSED)
    finally:
        worker.stop()
        server.stop()

    assert (before, after) == (True, False)


@pytest.mark.parametrize("kind", [*CODE, "duckdb"])
def test_without_bubblewrap_code_is_refused_and_not_run(
    kind: str, fresh: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fresh.person("eve", "viewer")
    tools = {
        "python": {"code": "import os\nresult = 1"},
        "script": {"script": "echo"},
        "shell": {"script": "echo"},
        "duckdb": {"command": "SELECT 1"},
    }
    document = admin_of(fresh).run(task({"kind": kind, **tools[kind]}))

    said = json.dumps(document)
    assert document["status"] == "failed", document
    assert "tool.isolation" in said
    assert "apt install bubblewrap" in said
    assert admin_of(fresh).get("/readyz").body["isolation"] == "refused"


def test_isolation_none_is_said_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOETL_ISOLATION", "none")
    server = Running(tmp_path / "home")
    try:
        server.person("eve", "viewer")
        assert python(admin_of(server), ENCLOSED) is True
        ready = admin_of(server).get("/readyz").body
    finally:
        server.stop()

    assert ready["status"] == "ready"
    assert ready["isolation"] == "none"
    assert "isolation: none" in caplog.text
    for command in ("config", "doctor"):
        ran = subprocess.run(
            [sys.executable, "-m", "noetl", command],
            env={**os.environ, "NOETL_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
        )
        assert "without a sandbox" in ran.stdout + ran.stderr


FIRST_STEP = """
import ctypes, importlib, inspect, sys
role = importlib.import_module('noetl.commands.' + sys.argv[1])
def stop():
    raise SystemExit(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
role.read_settings = stop
role._run(*[None for _ in inspect.signature(role._run).parameters])
"""


@pytest.mark.parametrize("role", ["server", "worker"])
def test_no_process_of_its_user_reads_the_memory_of_a_server_or_worker(
    role: str,
) -> None:
    """Before it has read a setting or a secret (PR_SET_DUMPABLE)."""
    ran = subprocess.run([sys.executable, "-c", FIRST_STEP, role], check=False)

    assert ran.returncode == 0


FAMILIES = """
import socket
found = {}
for number in range(1, 46):
    try:
        socket.socket(number, socket.SOCK_STREAM).close()
        found[number] = True
    except OSError as error:
        found[number] = error.errno == 93 or error.errno == 94  # of another type
result = [number for number, is_there in found.items() if is_there]
"""


def test_code_gets_no_socket_that_leads_past_its_network(shared: Running) -> None:
    """AF_VSOCK leads to the host of a virtual machine from every network namespace."""
    admin = Api(shared.url, shared.token)

    assert set(python(admin, FAMILIES)) <= {1, 2, 10, 16}


def test_code_sees_certificates_and_no_private_keys_of_the_system(
    shared: Running,
) -> None:
    admin = Api(shared.url, shared.token)

    code = "import os; result = sorted(os.listdir('/etc/ssl'))"
    assert set(python(admin, code)) <= {"certs", "openssl.cnf"}
