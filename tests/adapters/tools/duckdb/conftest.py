"""DuckDB at work: one tool and its processes for all tests of a file."""

from __future__ import annotations

import shutil
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
    duck.folder = tmp_path_factory.mktemp("playbook")
    yield duck
    duck.close()


@pytest.fixture
def duck(working: Duck, monkeypatch: pytest.MonkeyPatch) -> Iterator[Duck]:
    """The tool in a folder that is empty, and the same for all tests of a file.

    Calls of one folder share processes: a folder for each test would cost 150 ms.
    """
    folder = working.folder
    assert folder is not None
    empty(folder)
    monkeypatch.chdir(folder)
    yield working
    working.folder = folder


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def opened(file: Path) -> Iterator[None]:
    """A process that has the database open to write."""
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1])\n"
    code += "print(flush=True); sys.stdin.read()"
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
