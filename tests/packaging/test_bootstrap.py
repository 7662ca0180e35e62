"""The set-up script on machines that lack something; each ends in one clear line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHELL = ["cat", "dirname", "mv", "pwd", "rm", "sh", "sha256sum"]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A checkout, and a PATH with nothing but what the script itself needs."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/bootstrap", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name in SHELL:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    return tmp_path


def command(machine: Path, name: str, script: str) -> None:
    """Put a program of that name on the machine."""
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def python_without_ensurepip(machine: Path) -> None:
    script = f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"'
    command(machine, "python3", script)


def bootstrap(machine: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(machine / "bin"), **settings}
    script = machine / "scripts" / "bootstrap"
    return subprocess.run([script], env=environment, capture_output=True, text=True)


def test_no_python_is_said_in_one_line(machine: Path) -> None:
    command(machine, "python3", "exit 1")  # too old

    done = bootstrap(machine)

    assert done.returncode == 1
    assert done.stderr.startswith("noetl: no Python >= 3.11 found; install one")
    assert done.stderr.count("\n") == 1


def test_a_wrong_choice_of_python_is_named(machine: Path) -> None:
    done = bootstrap(machine, PYTHON="python2")

    assert done.returncode == 1
    assert done.stderr == "noetl: PYTHON=python2 is not a Python >= 3.11\n"


def test_without_rights_the_command_to_run_is_shown(machine: Path) -> None:
    python_without_ensurepip(machine)
    command(machine, "apt-get", "exit 99")
    command(machine, "id", "echo 1000")

    done = bootstrap(machine)

    assert done.returncode == 1
    assert f"sudo apt-get install {venv_package()}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_root_on_debian_gets_the_package_and_a_message(machine: Path) -> None:
    python_without_ensurepip(machine)
    command(machine, "id", "echo 0")
    log = machine / "apt.log"
    command(machine, "apt-get", f'echo "$@" >>{log}; [ "$2" = update ]')

    done = bootstrap(machine)

    assert done.returncode == 1  # this apt-get installs nothing
    assert f"installing the Debian package {venv_package()}" in done.stderr
    assert log.read_text().splitlines()[-1].endswith(f" {venv_package()}")


def test_a_finished_set_up_is_left_alone(machine: Path) -> None:
    (machine / ".venv" / "bin").mkdir(parents=True)
    os.symlink(sys.executable, machine / ".venv" / "bin" / "python")
    files = ("pyproject.toml", "requirements.lock", "scripts/bootstrap")
    text = "".join((machine / name).read_text() for name in files) + f"{machine}\n"
    stamp = subprocess.check_output(["sha256sum"], input=text, text=True)
    (machine / ".venv" / ".stamp").write_text(stamp)

    done = bootstrap(machine)  # no Python is on the PATH

    assert (done.returncode, done.stderr) == (0, "")


def test_the_distribution_of_the_old_name_is_removed_first(machine: Path) -> None:
    """Two distributions would own one package and one command."""
    (machine / ".venv" / "bin").mkdir(parents=True)
    log = machine / "pip.log"
    command(machine, "python3", f'[ "$2" != pip ] || echo "$*" >>{log}')
    (machine / "bin" / "python3").rename(machine / ".venv" / "bin" / "python")

    done = bootstrap(machine)

    assert done.returncode == 0, done.stderr
    *_, before, last = log.read_text().splitlines()
    assert before.endswith("uninstall -qq -y noetl")
    assert last.endswith(" -e .")


def venv_package() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
