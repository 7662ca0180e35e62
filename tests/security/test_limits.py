"""Memory and processes of code: what a server allows, whatever a playbook asks for."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ducks import Duck
from servers import Api, Running, WorkerProcess, playbook

from noetl.adapters.host import HostPolicy, own_host
from noetl.adapters.processes.limits import clean_environment
from noetl.adapters.processes.sandbox import look
from noetl.adapters.tools.python import PythonTool
from noetl.adapters.tools.script import ScriptTool
from noetl.ports import Tool, ToolCall

GIB = 1024**3
UNLIMITED = -1
BOMB = "x = bytearray(6 * 1024**3)"
FEW = 64
BOUND = 200  # processes that the fork bomb of the test starts at most
SAYS = """
import json, resource
names = ('AS', 'NPROC', 'NOFILE', 'CORE')
found = [resource.getrlimit(getattr(resource, f'RLIMIT_{name}')) for name in names]
result = dict(zip(names, found))
"""
PRINTS = f"{SAYS}print(json.dumps(result))"
FORKS = f"""
import errno, os, signal
def main():
    children, stopped = [], None
    try:
        while len(children) < {BOUND}:
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    except OSError as error:
        stopped = errno.errorcode[error.errno]
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return [stopped, len(children)]
"""


@pytest.fixture
def sandbox() -> None:
    """Bubblewrap, on a machine that lets it work."""
    problem = look(clean_environment()["PATH"]).problem
    if problem is not None:
        pytest.skip(f"no sandbox can be made here: {problem}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path / "home")
    yield server
    server.stop()


def task(tool: dict[str, Any]) -> str:
    return playbook("code", f"- step: start\n  tool: {json.dumps(tool)}")


def perform(tool: Tool, kind: str, inputs: dict[str, Any], **spec: Any) -> Any:
    """The result of one call."""

    async def work() -> Any:
        call = ToolCall(
            kind=kind,
            inputs=inputs,
            execution_id="e1",
            step="s",
            task="t",
            action_id="a1",
            attempt=1,
            spec={"timeout": 60, **spec},
        )
        try:
            return (await tool.run(call)).result
        finally:
            await tool.close()

    return asyncio.run(work())


def limits_of_python(host: HostPolicy, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = perform(
        PythonTool(1, host=host), "python", {"code": SAYS}, **spec
    )
    return found


def limits_of_script(host: HostPolicy, **spec: Any) -> dict[str, Any]:
    inputs = {"script": PRINTS, "interpreter": "python3 -I"}
    tool = ScriptTool(host=host)
    found: dict[str, Any] = perform(tool, "script", inputs, output="json", **spec)
    return found


WAITING = """
- step: start
  tool: {kind: python, code: "result = 1"}
  next: {arcs: [{step: ask}]}
- step: ask
  tool: {kind: wait, signal: go}
  next: {arcs: [{step: again}]}
- step: again
  tool: {kind: python, code: "result = 2"}
"""
BOMBS = {
    "python": {"kind": "python", "code": BOMB},
    "python that imports": {"kind": "python", "code": f"import os\n{BOMB}"},
    "python that asks for more": {
        "kind": "python",
        "code": BOMB,
        "spec": {"memory": "64GiB"},
    },
    "script": {"kind": "script", "script": BOMB, "interpreter": "python3 -I"},
    "shell": {"kind": "shell", "command": f"python3 -I -c '{BOMB}'"},
}


@pytest.mark.parametrize("accounts", [False, True], ids=["alone", "in a sandbox"])
def test_a_memory_bomb_fails_with_its_reason_and_others_go_on(
    server: Running, accounts: bool, request: pytest.FixtureRequest
) -> None:
    if accounts:
        request.getfixturevalue("sandbox")
        server.person("dora", "developer")
    admin = Api(server.url, server.token)
    other = admin.start(playbook("other", WAITING))
    admin.await_event(other, "task.suspended")

    ended = {name: admin.run(task(tool)) for name, tool in BOMBS.items()}
    admin.post(f"/api/executions/{other}/signal", {"name": "go"})
    after = admin.finish(other)

    for name, document in ended.items():
        assert document["status"] == "failed", name
        assert document["error"]["kind"] == "tool.memory", (name, document["error"])
        message = document["error"]["message"]
        for word in ("4 GiB", "limits.memory", "NOETL_LIMITS_MEMORY", "spec.memory"):
            assert word in message, name
    assert (after["status"], after["result"]) == ("completed", 2)


@pytest.mark.parametrize("limits", [limits_of_python, limits_of_script])
@pytest.mark.parametrize(
    ("host", "spec", "most"),
    [
        pytest.param(HostPolicy(), {}, 4 * GIB, id="the default of a server"),
        pytest.param(HostPolicy(), {"memory": "64GiB"}, 4 * GIB, id="more: capped"),
        pytest.param(HostPolicy(), {"memory": "1GiB"}, GIB, id="less: as asked"),
        pytest.param(HostPolicy(memory=GIB), {}, GIB, id="a setting"),
        pytest.param(HostPolicy(memory=None), {}, UNLIMITED, id="the setting none"),
        pytest.param(own_host(), {}, UNLIMITED, id="at home"),
        pytest.param(own_host(), {"memory": "64GiB"}, 64 * GIB, id="at home: as asked"),
    ],
)
def test_no_task_gets_more_memory_than_the_setting_allows(
    limits: Any, host: HostPolicy, spec: dict[str, Any], most: int
) -> None:
    found = limits(host, **spec)

    assert found["AS"] == [most, most]
    assert found["CORE"] == [0, 0]
    assert 0 < found["NOFILE"][1] <= 16_384
    assert 0 < found["NPROC"][1] <= 8192


def test_a_worker_elsewhere_limits_memory(tmp_path: Path) -> None:
    server = Running(tmp_path / "home", slots=0)
    worker = WorkerProcess(tmp_path / "worker", server.url, server.token)
    try:
        tool = {"kind": "python", "code": SAYS, "spec": {"memory": "64GiB"}}
        document = Api(server.url, server.token).run(task(tool))
    finally:
        worker.stop()
        server.stop()

    assert document["result"]["AS"] == [4 * GIB, 4 * GIB]


def test_duckdb_gets_half_of_the_setting_at_most(tmp_path: Path) -> None:
    sql = "SELECT current_setting('memory_limit'), current_setting('threads')"
    duck = Duck(tmp_path / "home", HostPolicy(memory=GIB))
    try:
        asked = duck.run(sql, {"memory": "64GiB", "threads": 256})
        bomb = duck.run("SELECT length(repeat('x', 4_000_000_000))", {"memory": "8GiB"})
    finally:
        duck.close()

    [row] = asked.result["rows"]
    assert list(row.values()) == ["512.0 MiB", 2]
    assert bomb.error is not None
    assert bomb.error.kind == "duckdb.out_of_memory"
    assert "512 MiB, half of the setting limits.memory" in bomb.error.message


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("limits", [limits_of_python, limits_of_script])
def test_a_sandbox_has_its_own_limit_of_processes(limits: Any) -> None:
    found = limits(HostPolicy(isolation="required", processes=FEW))

    assert found["NPROC"] == [FEW, FEW]
    assert found["AS"] == [4 * GIB, 4 * GIB]


@pytest.mark.usefixtures("sandbox")
def test_a_fork_bomb_in_a_sandbox_is_bounded() -> None:
    """The bomb of the test stops by itself at a small number."""
    if os.getuid() == 0:
        pytest.skip("the kernel does not limit the processes of root: run it as a user")
    tool = PythonTool(1, host=HostPolicy(isolation="required", processes=FEW))

    stopped, started = perform(tool, "python", {"code": FORKS})

    assert stopped == "EAGAIN"
    assert FEW // 2 < started < FEW
