"""Where code comes from: hashes instead of addresses, and no code at start-up."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPLOYED = ["deploy/requirements.lock", "deploy/build.lock"]
LOCKS = [
    "requirements.lock",
    "scripts/lock-tools.lock",
    "scripts/node.lock",
    *DEPLOYED,
]
EXTRAS = ("server", "postgres", "nats", "objects", "duckdb")


def pins(lock: str) -> dict[str, tuple[str, list[str]]]:
    """Name -> version and hashes."""
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith(("#", "--only-binary")):
            pin, *hashes = line.split()
            name, _, version = pin.partition("==")
            found[name] = (version, hashes)
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_version_and_hashes(lock: str) -> None:
    assert pins(lock)
    for name, (version, hashes) in pins(lock).items():
        assert re.fullmatch(r"[0-9][0-9A-Za-z.+]*", version), name
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for h in hashes), name


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_address_and_allows_only_wheels(lock: str) -> None:
    lines = (ROOT / lock).read_text().splitlines()

    options = [line for line in lines if line.startswith("-")]
    assert options == ["--only-binary :all:"]
    assert not [line for line in lines if "://" in line or " @ " in line]


def test_the_lock_covers_what_the_project_asks_for() -> None:
    locked = pins("requirements.lock")
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *extras["dev"]]:
        requirement = Requirement(text)
        version, _ = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, text


@pytest.mark.parametrize("lock", DEPLOYED)
def test_what_is_deployed_is_part_of_the_lock(lock: str) -> None:
    whole = pins("requirements.lock")

    assert pins(lock).items() <= whole.items()


def test_what_is_deployed_is_complete_and_nothing_else() -> None:
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *(each for e in EXTRAS for each in extras[e])]

    assert set(pins("deploy/requirements.lock")) == needed(asked)
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert set(pins("deploy/build.lock")) == needed(build["requires"])
    for extra in EXTRAS:
        assert f"--extra {extra}" in (ROOT / "scripts" / "lock").read_text()


def needed(asked: list[str]) -> set[str]:
    """The packages, and those that they need in turn, as they are installed here."""
    found: set[str] = set()
    open_ones = [Requirement(text) for text in asked]
    while open_ones:
        requirement = open_ones.pop()
        name = canonicalize_name(requirement.name)
        wanted = requirement.extras or {""}
        found.add(name)
        for text in requires(name) or []:
            other = Requirement(text)
            is_asked = other.marker is None or any(
                other.marker.evaluate({"extra": extra}) for extra in wanted
            )
            if is_asked and canonicalize_name(other.name) not in found:
                open_ones.append(other)
    return found


def test_direct_runtime_dependencies_stay_few() -> None:
    assert len(PROJECT["dependencies"]) <= 13


def test_no_installed_package_runs_code_at_start_up() -> None:
    """A .pth file may; the only one is the line that makes this checkout importable,
    besides that of ``make coverage`` while it runs."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    found = {path.name for folder in folders for path in Path(folder).glob("*.pth")}

    assert found <= {"_noetl_engine.pth", "noetl_coverage.pth"}


IMPORT_ALL = """
import importlib, pkgutil, sys, warnings
def refuse(event, args):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "subprocess.Popen")):
        raise SystemExit(f"{event} {args}")
sys.addaudithook(refuse)
import noetl
for each in pkgutil.walk_packages(noetl.__path__, "noetl."):
    if each.name.split(".")[-1] != "__main__":
        importlib.import_module(each.name)
print(len(sys.modules))
"""


def test_importing_the_package_fetches_nothing() -> None:
    """No connection is opened and no program started before anything was asked for."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 500
