"""Programs that tests use are installed as root on Debian, and never fail a run."""

from __future__ import annotations

import shutil
import subprocess
from itertools import chain
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test-programs"
WANTED = {
    "bwrap": ["bubblewrap"],
    "chromium": ["chromium"],
    "openssl": ["openssl"],
    "cc": ["gcc", "libc6-dev"],
}


class Machine:
    """A PATH with what was put on it; ``apt-get`` writes down what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bin"
        self.log = folder / "apt.log"
        self.path.mkdir()
        for name in ("sh", "timeout"):
            (self.path / name).symlink_to(shutil.which(name) or name)

    def add(self, name: str, script: str = "exit 0") -> None:
        program = self.path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def install(self) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path)}
        return subprocess.run([SCRIPT], env=environment, capture_output=True, text=True)

    def asked(self) -> list[str]:
        """The last word of each call of ``apt-get``."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split()[-1] for line in lines]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def debian(machine: Machine, user: int = 0, status: int = 0) -> None:
    machine.add("id", f"echo {user}")
    machine.add("apt-get", f'echo "$@" >>{machine.log}; exit {status}')


@pytest.mark.parametrize("missing", [*WANTED, None])
def test_only_what_is_missing_is_installed(
    machine: Machine, missing: str | None
) -> None:
    debian(machine)
    for name in WANTED:
        if name != missing:
            machine.add(name)

    done = machine.install()

    assert done.returncode == 0
    expected = [] if missing is None else ["update", *WANTED[missing]]
    assert machine.asked() == expected
    names = " ".join(expected[1:])
    told = f"noetl: installing for the tests: {names}\n" if names else ""
    assert (done.stdout, done.stderr) == ("", told)


def test_without_a_network_it_is_said_and_nothing_fails(machine: Machine) -> None:
    debian(machine, status=100)

    done = machine.install()

    assert done.returncode == 0
    for package in chain.from_iterable(WANTED.values()):
        assert f"could not install {package}: tests that need it are" in done.stderr


@pytest.mark.parametrize("apt", [True, False], ids=["not root", "no Debian"])
def test_elsewhere_nothing_is_tried(machine: Machine, apt: bool) -> None:
    if apt:
        debian(machine, user=1000)

    done = machine.install()

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert machine.asked() == []
