"""The distribution noetl-engine, its extras, and the commands that install them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from noetl.extras import DISTRIBUTION, install_command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_FOR_USERS = {"all", "dev", "docs"}
PROMISED = {"all", "duckdb", "nats", "postgres", "quantum", "s3", "vault"}
OTHER_PACKAGE = re.compile(
    r"""pip3? install[^\n#]*?["' ]noetl(?=[\["'` =<>~]|$)""", re.MULTILINE
)
TEXTS = ("README.md", "CONTRIBUTING.md", "docs", "deploy", "examples", "scripts", "src")
ASK = "from noetl.extras import install_command; print(install_command('postgres'))"


def test_the_wheel_is_noetl_engine_with_the_promised_extras(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (file,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    about = message_from_bytes(archive.read(file))

    assert about["Name"] == DISTRIBUTION == "noetl-engine"
    assert set(about.get_all("Provides-Extra", [])) >= PROMISED


def test_all_is_every_extra_for_users() -> None:
    extras = PROJECT["optional-dependencies"]

    wanted = ",".join(sorted(extras.keys() - NOT_FOR_USERS))

    assert extras["all"] == [f"{DISTRIBUTION}[{wanted}]"]


def test_in_a_checkout_the_command_installs_the_checkout() -> None:
    assert install_command("postgres") == f"pip install -e '{ROOT}[postgres]'"


def test_an_installed_wheel_is_extended_by_its_name(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=installed,
        capture_output=True,
        text=True,
    )

    assert done.stdout == "pip install 'noetl-engine[postgres]'\n", done.stderr


def test_a_package_that_is_not_installed_at_all_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noetl.extras.DISTRIBUTION", "noetl-engine-of-nowhere")

    assert install_command("s3") == "pip install 'noetl-engine-of-nowhere[s3]'"


@pytest.mark.parametrize(
    "line", ["pip install noetl", "pip install 'noetl[aws]'", "pip install -U noetl==1"]
)
def test_the_search_finds_the_package_of_others(line: str) -> None:
    assert OTHER_PACKAGE.search(line)


def test_no_text_tells_users_to_install_the_package_of_others() -> None:
    """The name ``noetl`` on PyPI belongs to another package."""
    found = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for name in TEXTS
        for file in [ROOT / name, *(ROOT / name).rglob("*")]
        if file.is_file() and file.suffix not in (".pyc", ".png")
        for match in OTHER_PACKAGE.finditer(file.read_text("utf-8", "replace"))
    ]

    assert found == []
