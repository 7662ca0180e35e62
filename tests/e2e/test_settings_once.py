"""A program reads its settings once, when it begins, and passes them on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HELLO = HEAD + "workflow:\n  - step: start\n    tool: {kind: noop}\n"

COUNTED = """
import sys
from noetl import server, worker
from noetl.clictl import noetl
from noetl.config import reading

reads = []
find_file = reading.find_file
reading.find_file = lambda environ: [reads.append(1), find_file(environ)][1]

serve, work = server.Server.serve, worker.Worker.serve
server.Server.serve = lambda self, on_ready: serve(self, lambda url: self.stop())
worker.Worker.serve = lambda self: [self.stop(), work(self)][1]

try:
    noetl(sys.argv[1:], prog_name="noetl")
except SystemExit as leaving:
    print(f"exit code {leaving.code}, {len(reads)} reads")
"""


def counted(folder: Path, *args: str) -> tuple[str, str]:
    """The last line of a command in a process of its own, and what went wrong."""
    clean = {"PATH": os.environ["PATH"], "NOETL_HOME": str(folder / "home")}
    done = subprocess.run(
        [sys.executable, "-c", COUNTED, *args],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**clean, "NOETL_TOKEN": "t" * 43},
    )
    return done.stdout.rpartition("exit code ")[2].strip(), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a playbook, whose home has run it once."""
    folder = tmp_path_factory.mktemp("once")
    (folder / "hello.yaml").write_text(HELLO)
    said = counted(folder, "run", "hello.yaml", "--no-progress")
    assert said == ("0, 1 reads", "")
    return folder


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("run hello.yaml --html page.html --extensions legacy", 0),
        ("server start --foreground --port 0", 0),
        ("worker start --foreground --server http://127.0.0.1:9", 0),
        ("fork last --at 3", 0),
        ("graph hello.yaml --execution last", 0),
        ("list --waiting", 0),
        ("user add ann --role admin --no-password", 0),
        ("status", 3),
        ("config", 0),
    ],
)
def test_a_command_reads_the_settings_once(folder: Path, line: str, code: int) -> None:
    said, errors = counted(folder, *line.split())

    assert said == f"{code}, 1 reads", errors


def test_a_playbook_that_is_not_valid_costs_no_second_read(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(HEAD)

    said, errors = counted(tmp_path, "run", "wrong.yaml")

    assert said == "2, 1 reads", errors
