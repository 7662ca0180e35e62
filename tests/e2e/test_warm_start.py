"""A command that is forked warm behaves as one in an interpreter of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import warm_start

SOURCES = Path(__file__).parents[2] / "src"
SLEEPS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sleeps, path: tests/sleeps}
workflow: [{step: start, tool: {kind: wait, for: 60s}}]
"""


def noetl(*args: str, folder: Path, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "noetl", *args],
        cwd=folder,
        env={**os.environ, "NOETL_HOME": str(folder / "home"), **env},
        capture_output=True,
        text=True,
        input="",
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "args",
    [("--version",), ("validate", "none.yaml"), ("config", "--json"), ("nonsense",)],
    ids=" ".join,
)
def test_a_warm_and_a_cold_command_print_the_same(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    warm = noetl(*args, folder=tmp_path)

    assert warm == noetl(*args, folder=tmp_path, COLD_START="1")


def test_a_warm_command_imports_from_the_python_path(tmp_path: Path) -> None:
    """As a cold one does: also where it leads to another NoETL."""
    plain, other = tmp_path / "plain", tmp_path / "other"
    (other / "noetl").mkdir(parents=True)
    (other / "noetl" / "__init__.py").touch()
    (other / "noetl" / "__main__.py").write_text("print('another one')")
    args = ["config", "--json"]

    assert noetl(*args, folder=tmp_path, PYTHONPATH=f"{plain}:{other}") == (
        *(0, "another one\n", ""),
    )
    warm = noetl(*args, folder=tmp_path, PYTHONPATH=f"{plain}")
    assert warm == noetl(*args, folder=tmp_path)


def test_a_command_is_warm_unless_its_interpreter_differs() -> None:
    def warm(**env: str) -> bool:
        args = [sys.executable, "-m", "noetl", "list"]
        return warm_start.is_warm({"args": args}, env)

    assert warm()
    assert warm(PATH="/bin", PYTHONPATH="/nowhere")
    assert not warm(PYTHONHASHSEED="1")
    assert not warm(LANG="fr_FR.UTF-8")
    assert not warm(COLD_START="1")
    assert not warm(PYTHONPATH=f"/nowhere:{SOURCES}")


def test_a_warm_command_is_a_child_that_signals_reach(tmp_path: Path) -> None:
    (tmp_path / "sleeps.yaml").write_text(SLEEPS)

    with subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", "sleeps.yaml"],
        cwd=tmp_path,
        env={**os.environ, "NOETL_HOME": str(tmp_path / "home")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.kill()

    assert f"PPid:\t{os.getpid()}\n" in status
    assert process.returncode == -signal.SIGKILL
