"""A worker opens no door.

In ``noetl run`` it shares a process with its host. What listens there is the host's: a
socket in the home, for its owner's ``noetl cancel``, and nothing else.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: doors, path: tests/doors}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
    tool:
      - code: {kind: python, code: result = 1}
      - wait: {kind: shell, command: ": > ready.{{ iter.x }}; cat gate.{{ iter.x }}"}
"""
ACCEPTS = 0x10000  # of a unix socket: somebody listens
LISTEN = "0A"


def family(pid: int) -> Iterator[int]:
    """The process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                yield from family(int(child))


def sockets(pid: int) -> Iterator[str]:
    """The numbers of the sockets that a process holds."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                yield target.removeprefix("socket:[").removesuffix("]")


def listeners(*processes: int) -> list[str]:
    """What the kernel says of sockets of these processes that listen."""
    mine: set[str] = set()
    for pid in processes:
        with suppress(FileNotFoundError, ProcessLookupError):
            mine.update(sockets(pid))
    found = []
    for table in ("tcp", "tcp6"):
        for fields in rows(table):
            if fields[3] == LISTEN and fields[9] in mine:
                found.append(f"{table} {fields[1]}")
    for fields in rows("unix"):
        if int(fields[3], 16) & ACCEPTS and fields[6] in mine:
            found.append(f"unix {fields[-1]}")
    return found


def rows(table: str) -> Iterator[list[str]]:
    for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
        yield line.split()


@contextmanager
def killed(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever happens, it does not stay behind."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def home() -> Iterator[Path]:
    """With a short name: longer ones have their socket elsewhere."""
    with TemporaryDirectory(prefix="home-") as folder:
        yield Path(folder)


@pytest.mark.spec("WKR-01")
def test_only_the_host_listens_and_only_for_its_owner(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(home))
    Path("playbook.yaml").write_text(PLAYBOOK)
    gates = [Path(f"gate.{x}") for x in (1, 2)]
    for gate in gates:
        os.mkfifo(gate)
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", "playbook.yaml", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with killed(process):
        while not all(Path(f"ready.{x}").exists() for x in (1, 2)):
            assert process.poll() is None
        processes = set(family(process.pid))
        doors = listeners(*processes)
        (control,) = home.glob("*.sock")
        mode = control.stat().st_mode
        for gate in gates:
            gate.write_text("go")
        document = json.loads(process.communicate()[0])

    assert document["status"] == "completed"
    assert len(processes) > 2, "the tools were not at work"
    assert doors == [f"unix {control}"]
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.parametrize(
    ("kind", "family"), [("tcp", socket.AF_INET), ("unix", socket.AF_UNIX)]
)
def test_a_listener_would_be_seen(
    kind: str, family: socket.AddressFamily, tmp_path: Path
) -> None:
    address = str(tmp_path / "door") if kind == "unix" else ("127.0.0.1", 0)
    with socket.socket(family) as door:
        door.bind(address)
        before = seen(kind)  # tests before this one may have servers in this process
        door.listen()
        assert seen(kind) == before + 1


def seen(kind: str) -> int:
    return sum(line.startswith(f"{kind} ") for line in listeners(os.getpid()))
