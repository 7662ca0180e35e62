"""Packages with plug-ins, installed beside NoETL for the commands that a test runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from plugin_host import EXAMPLE, Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example package: its wheel, built without a network, and installed."""
    wheels, target = (tmp_path_factory.mktemp(name) for name in ("wheels", "site"))
    offline = ["--no-index", "--no-deps", "--disable-pip-version-check", "--quiet"]
    pip("wheel", *offline, "--no-build-isolation", "--wheel-dir", wheels, EXAMPLE)
    (wheel,) = wheels.glob("noetl_example_plugin-*.whl")
    pip("install", *offline, "--target", target, wheel)
    return target


def pip(*args: str | Path) -> None:
    command = [sys.executable, "-m", "pip", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def plugged(host: Host, example: Path) -> Host:
    """A host on which the example is installed and enabled."""
    host.path.append(example)
    host.environ["NOETL_PLUGINS"] = "noetl-example-plugin"
    return host
