"""What no file of the repository may say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = {"__pycache__", "build", "dist", "node_modules", "site"}
KEPT = {".ci", ".github"}

# Assembled, so that this file does not name them either.
HOSTS = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "npm" + "js.com"]
MACHINE = re.compile(r"(?<![\w.~$}/*-])/(?:root|farm|work|home/\w+|Users/\w+)/\w")


def texts(folder: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Path and text of every file that is, or could be, under version control."""
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            hidden = path.name.startswith(".") and path.name not in KEPT
            if not hidden and path.name not in MADE:
                yield from texts(path)
        elif path.name != ".git":  # a file in a second checkout of one repository
            yield (
                path.relative_to(ROOT).as_posix(),
                path.read_text(encoding="utf-8", errors="replace"),
            )


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return dict(texts())


def test_no_file_names_a_package_registry(files: dict[str, str]) -> None:
    hits = [(name, host) for name in files for host in HOSTS if host in files[name]]

    assert not hits


def test_no_file_names_a_folder_of_one_machine(files: dict[str, str]) -> None:
    hits = [
        (name, match[0]) for name in files for match in MACHINE.finditer(files[name])
    ]

    assert not hits


def test_the_sweep_sees_the_repository(files: dict[str, str]) -> None:
    assert {"pyproject.toml", ".ci/run", "src/noetl/py.typed"} <= files.keys()
