"""What users install: complete, nothing besides, and the same wherever it is built."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def run(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(
        command, env=environment, cwd=installed, capture_output=True, text=True
    )


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(
    wheel: Path,
) -> None:
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "noetl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"noetl_engine-{PROJECT['version']}.dist-info"
    expected = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}

    names = set(zipfile.ZipFile(wheel).namelist())

    assert names == source | {f"{info}/{name}" for name in expected}
    assert "noetl/py.typed" in names


def test_the_wheel_is_the_same_when_built_from_the_source_archive(
    wheel: Path, tmp_path: Path
) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d"]
    subprocess.run([*build, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("noetl_engine-*.tar.gz")

    again = tmp_path / "wheel"
    command = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "-q"]
    command += ["--no-build-isolation", "--wheel-dir", str(again), str(archive)]
    subprocess.run(command, check=True, capture_output=True)

    assert digest(again / wheel.name) == digest(wheel)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_installed_command_says_its_version(installed: Path) -> None:
    done = run(installed, str(installed / "bin" / "noetl"), "--version")

    assert done.returncode == 0, done.stderr
    assert PROJECT["version"] in done.stdout


def test_the_installed_package_does_not_lean_on_the_checkout(installed: Path) -> None:
    code = "import noetl.clictl; print(noetl.__file__, noetl.clictl.__file__)"

    done = run(installed, sys.executable, "-c", code)

    assert done.returncode == 0, done.stderr
    assert all(name.startswith(str(installed)) for name in done.stdout.split())


@pytest.mark.parametrize("file", ["LICENSE", "README.md", "CHANGELOG.md"])
def test_the_files_that_the_package_shows_exist(file: str) -> None:
    assert (ROOT / file).read_text(encoding="utf-8").strip()
