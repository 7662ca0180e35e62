"""The wheel, built once from this checkout without any index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OFFLINE = ["--disable-pip-version-check", "--no-index", "--no-deps", "--quiet"]


def pip(*args: str | Path) -> None:
    command = [sys.executable, "-m", "pip", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def build_wheel(source: Path, into: Path) -> Path:
    pip("wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", into, source)
    (wheel,) = into.glob("noetl_engine-*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed wheel, and nothing of this checkout."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", *OFFLINE, "--target", target, wheel)
    return target
