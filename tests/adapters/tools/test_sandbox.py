"""What a sandbox shows of the machine, and which system calls it denies."""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.host import HostPolicy
from noetl.adapters.processes import sandbox as sandboxes
from noetl.adapters.processes.isolation import Isolation
from noetl.adapters.processes.limits import clean_environment
from noetl.adapters.processes.noetl_child import seccomp
from noetl.adapters.processes.sandbox import Sandbox, clean_variables, look
from noetl.adapters.tools.python import PythonTool
from noetl.adapters.tools.script import ScriptTool
from noetl.errors import ToolError
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]


def options(sandbox: Sandbox) -> list[str]:
    return list(sandboxes._options(sandbox))


def mount_of(path: str, sandbox: Sandbox) -> str | None:
    """The last option that is about this place, besides making it read-only."""
    found = options(sandbox)
    places = [at for at, each in enumerate(found) if each == path]
    names = [found[at - 1] for at in places]
    heads = [
        found[at - 2] if name == path or not name.startswith("--") else name
        for at, name in zip(places, names, strict=True)
    ]
    kept = [each for each in heads if each.startswith("--") and "remount" not in each]
    return kept[-1] if kept else None


def test_a_hidden_folder_below_a_root_is_masked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    sandbox = Sandbox("bwrap", (), (str(tmp_path),), (str(home),))

    assert mount_of(str(tmp_path), sandbox) == "--bind-try"
    assert mount_of(str(home), sandbox) == "--tmpfs"
    assert not sandbox.shows(str(home / "token"))
    assert sandbox.shows(str(tmp_path / "data"))


def test_a_hidden_file_below_a_root_is_masked(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.touch()
    sandbox = Sandbox("bwrap", (), (str(tmp_path),), (str(key),))

    assert mount_of(str(key), sandbox) == "--ro-bind"


def test_a_root_below_a_hidden_folder_is_not_shown(tmp_path: Path) -> None:
    inside = tmp_path / "home" / "data"
    inside.mkdir(parents=True)
    sandbox = Sandbox("bwrap", (), (str(inside),), (str(inside.parent),))

    assert mount_of(str(inside), sandbox) is None


def test_a_link_to_a_root_shows_nothing_hidden(tmp_path: Path) -> None:
    home = tmp_path / "real" / "home"
    home.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(home.parent)
    sandbox = Sandbox("bwrap", (), (str(link),), (str(home),))

    assert mount_of(str(link / "home"), sandbox) == "--tmpfs"
    assert mount_of(str(home), sandbox) == "--tmpfs"


def test_an_interpreter_below_a_root_cannot_be_changed() -> None:
    above = str(Path(sys.prefix).parent)
    sandbox = Sandbox("bwrap", (), (above,))

    assert mount_of(above, sandbox) == "--bind-try"
    assert mount_of(sys.prefix, sandbox) == "--ro-bind-try"


def test_an_interpreter_below_a_hidden_folder_is_shown() -> None:
    """A virtual environment may be installed in the home."""
    sandbox = Sandbox("bwrap", (), (), (str(Path(sys.prefix).parent),))

    assert mount_of(sys.prefix, sandbox) == "--ro-bind-try"


def test_a_folder_of_the_tool_is_shown_below_a_hidden_one(tmp_path: Path) -> None:
    sandbox = Sandbox("bwrap", hidden=(str(tmp_path),), own=(f"{tmp_path}/tmp/1",))

    assert mount_of(f"{tmp_path}/tmp/1", sandbox) == "--bind-try"


def test_only_an_operator_gives_a_network() -> None:
    assert "--share-net" not in options(Sandbox("bwrap"))
    assert "--share-net" in options(Sandbox("bwrap", network=True))


def test_variables_of_the_users_account_are_not_passed_on() -> None:
    given = {"HOME": "/root", "USER": "ann", "TMPDIR": "/x", "PATH": "/bin"}

    assert clean_variables(given) == {"HOME": "/tmp", "PATH": "/bin"}


def judge(program: bytes, arch: int, number: int, first: int = 0) -> int:
    """Run a filter as the kernel does; its verdict."""
    lines = [
        struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)
    ]
    data = {0: number, 4: arch, 16: first}
    accumulator = at = 0
    while True:
        code, yes, no, value = lines[at]
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            accumulator = data[value]
            continue
        holds = {
            0x15: accumulator == value,
            0x45: bool(accumulator & value),
            0x35: accumulator >= value,
        }[code]
        at += yes if holds else no


ALLOWED, DENIED, ABSENT = 0x7FFF0000, 0x00050001, 0x00050026
X86, ARM = 0xC000003E, 0xC00000B7


@pytest.mark.parametrize(
    ("machine", "arch", "number", "first", "verdict"),
    [
        pytest.param("x86_64", X86, 0, 0, ALLOWED, id="read"),
        pytest.param("x86_64", X86, 101, 0, DENIED, id="ptrace"),
        pytest.param("x86_64", X86, 165, 0, DENIED, id="mount"),
        pytest.param("x86_64", X86, 56, 0x11, ALLOWED, id="fork"),
        pytest.param("x86_64", X86, 56, 0x3D0F00, ALLOWED, id="a thread"),
        pytest.param("x86_64", X86, 56, 0x10000011, DENIED, id="a user namespace"),
        pytest.param("x86_64", X86, 435, 0, ABSENT, id="clone3"),
        pytest.param("x86_64", X86, 135, 0xFFFFFFFF, ALLOWED, id="ask personality"),
        pytest.param("x86_64", X86, 135, 0x40000, DENIED, id="change personality"),
        pytest.param("x86_64", X86, 0x40000027, 0, DENIED, id="x32"),
        pytest.param("x86_64", 0x40000003, 20, 0, DENIED, id="32 bits"),
        pytest.param("aarch64", ARM, 117, 0, DENIED, id="ptrace on ARM"),
        pytest.param("aarch64", ARM, 63, 0, ALLOWED, id="read on ARM"),
        pytest.param("aarch64", ARM, 220, 0x10000011, DENIED, id="namespace on ARM"),
        pytest.param("aarch64", ARM, 425, 0, DENIED, id="io_uring on ARM"),
    ],
)
def test_system_calls(
    machine: str, arch: int, number: int, first: int, verdict: int
) -> None:
    program = seccomp.assemble(machine)

    assert program is not None
    assert judge(program, arch, number, first) == verdict


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert seccomp.assemble("riscv64") is None


@pytest.mark.skipif(seccomp.FILTER is None, reason="no filter for this processor")
@pytest.mark.parametrize(("isolation", "mode"), [("auto", "2"), ("none", "0")])
def test_code_without_a_sandbox_is_filtered_unless_an_operator_objects(
    isolation: Any, mode: str, call: Call, once: Any
) -> None:
    code = "import os\nresult = open('/proc/self/status').read()"
    shell = {"command": ["cat", "/proc/self/status"]}
    host = HostPolicy(playbook_folder=True, isolation=isolation, own=True)
    python = once(PythonTool(1, host=host), call("python", {"code": code})).result
    program = once(ScriptTool(host=host), call("shell", shell)).result["stdout"]

    for status in (python, program):
        assert f"Seccomp:\t{mode}" in status


@pytest.fixture
def bubblewrap() -> None:
    problem = look(clean_environment()["PATH"]).problem
    if problem is not None:
        pytest.skip(f"no sandbox can be made here: {problem}")


@pytest.mark.usefixtures("bubblewrap")
def test_a_program_that_requires_it_runs_in_a_sandbox(
    call: Call, once: Any, tmp_path: Path
) -> None:
    spec = {"timeout": 30, "isolation": "required"}
    inputs = {"script": "pwd; ls -d /etc/passwd; echo x > y; echo $HOME; cat"}
    asked = call("shell", {**inputs, "stdin": "given"}, spec=spec, folder=str(tmp_path))
    ran = once(ScriptTool(), asked).result

    assert ran["stdout"] == f"{tmp_path}\n/tmp\ngiven"
    assert not (tmp_path / "y").exists()


@pytest.mark.usefixtures("bubblewrap")
def test_code_runs_where_the_interpreter_is_below_the_hidden_home(
    call: Call, once: Any
) -> None:
    home = Path(sys.prefix).parent
    host = HostPolicy(hidden=(str(home),), isolation="required")
    code = "import os\nresult = sorted(os.listdir(home))"
    asked = call("python", {"code": code, "args": {"home": str(home)}})
    seen = once(PythonTool(1, host=host), asked).result

    assert Path(sys.prefix).name in seen
    assert len(seen) <= 2  # and where the code that serves calls is


def test_a_sandbox_that_is_required_and_missing_is_refused(
    call: Call, once: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = {"timeout": 30, "isolation": "required"}
    outcome = once(ScriptTool(), call("shell", {"script": "echo"}, spec=spec))

    assert outcome.error.kind == "tool.isolation"


def test_broken_bubblewrap_counts_as_no_sandbox(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create it' >&2\nexit 1")
    program.chmod(0o755)
    isolation = Isolation(HostPolicy(isolation="required"), path=str(tmp_path))

    with pytest.raises(ToolError) as e:
        asyncio.run(isolation.sandbox(None))

    assert e.value.kind == "tool.isolation"
    assert "No permissions to create it" in e.value.message
    assert "NOETL_ISOLATION" in e.value.message


@pytest.mark.parametrize(
    ("setting", "accounts", "state"),
    [
        ("auto", False, "off"),
        ("auto", True, "refused"),
        ("required", False, "refused"),
        ("none", True, "none"),
    ],
)
def test_when_code_is_isolated(
    setting: Any, accounts: bool, state: str, tmp_path: Path
) -> None:
    """Bubblewrap is not there: what must be isolated is refused."""
    host = HostPolicy(isolation=setting)
    isolation = Isolation(host, lambda: accounts, path=str(tmp_path))

    assert asyncio.run(isolation.state()) == state
    assert os.listdir(tmp_path) == []
