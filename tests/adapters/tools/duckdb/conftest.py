"""DuckDB at work: one tool and its processes for all tests of a file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from ducks import Duck


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duck]:
    duck = Duck(tmp_path_factory.mktemp("home"))
    yield duck
    duck.close()


@pytest.fixture
def duck(working: Duck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Duck:
    working.folder = tmp_path / "playbook"
    working.folder.mkdir()
    monkeypatch.chdir(working.folder)
    return working


@contextmanager
def opened(file: Path) -> Iterator[None]:
    """A process that has the database open to write."""
    code = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print(); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, str(file)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as program:
        assert program.stdout is not None
        program.stdout.readline()
        yield
        program.communicate()


@pytest.fixture(scope="session")
def other_process() -> Callable[[Path], AbstractContextManager[None]]:
    return opened
