"""The command as its user runs it, each test with a home and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest


class Shell:
    """A terminal in a folder; playbooks are written there by their workflow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self._env = {**os.environ, "NOETL_HOME": str(self.home)}

    def set(self, **environ: str) -> None:
        self._env |= environ

    def write(self, name: str, workflow: str, root: str = "") -> str:
        head = "apiVersion: noetl.io/v2\nkind: Playbook\n"
        head += f"metadata: {{name: {name}, path: tests/{name}}}\n"
        steps = "workflow:\n" + indent(dedent(workflow), "  ")
        (self.folder / f"{name}.yaml").write_text(head + dedent(root) + steps)
        return f"{name}.yaml"

    def start(self, *args: str, stdin: int | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *args],
            cwd=self.folder,
            env=self._env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def noetl(
        self, *args: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        piped = None if stdin is None else subprocess.PIPE
        process = self.start(*args, stdin=piped)
        stdout, stderr = process.communicate(stdin)
        return subprocess.CompletedProcess(args, process.returncode, stdout, stderr)

    def run(self, *args: str) -> dict[str, Any]:
        """The document of ``noetl run``, however it ended."""
        done = self.noetl("run", *args, "--json")
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def executions(self, name: str | None = None) -> list[dict[str, Any]]:
        done = self.noetl("list", "--json")
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)["executions"]
        return [x for x in found if name in (None, x["playbook"]["name"])]

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        lines = self.noetl("events", execution_id, "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def await_event(
        self, process: subprocess.Popen[str], playbook: str, name: str
    ) -> str:
        """Until an execution of the playbook has recorded that; its id."""
        while process.poll() is None:
            for execution in self.executions(playbook):
                execution_id: str = execution["execution_id"]
                if name in [event["name"] for event in self.events(execution_id)]:
                    return execution_id
        raise AssertionError(f"it ended before {name}: {process.communicate()}")


@pytest.fixture(scope="session")
def make_shell() -> type[Shell]:
    return Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
