"""A folder with packages beside NoETL, for the commands that a test runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


class Host:
    """A folder with a home, packages of its own, and a playbook."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.site = folder / "site"
        self.site.mkdir()
        self.path = [self.site]
        self.environ: dict[str, str] = {}

    def package(self, name: str, module: str, **entries: str) -> None:
        """One whose entry points are ``tools="kind = module:name"`` and so on."""
        (self.site / f"{name.replace('-', '_')}.py").write_text(dedent(module))
        about = self.site / f"{name.replace('-', '_')}-1.0.dist-info"
        about.mkdir()
        meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (about / "METADATA").write_text(meta)
        groups = [f"[noetl.{group}]\n{line}\n" for group, line in entries.items()]
        (about / "entry_points.txt").write_text("".join(groups))

    def write(self, workflow: str, root: str = "") -> str:
        text = HEAD + dedent(root) + "workflow:\n" + dedent(workflow)
        (self.folder / "t.yaml").write_text(text)
        return "t.yaml"

    def noetl(self, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*args, **environ)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(args, process.returncode, stdout, stderr)

    def start(self, *args: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *args],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "NOETL_HOME": str(self.home),
                "PYTHONPATH": os.pathsep.join(map(str, self.path)),
                **self.environ,
                **environ,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, **environ: str) -> dict[str, Any]:
        done = self.noetl("run", "t.yaml", "--json", *args, **environ)
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    def left(self, name: str) -> str:
        """The id of a run that was ended from outside once it had recorded this."""
        process = self.start("run", "t.yaml", "--no-progress")
        while process.poll() is None:
            found = json.loads(self.noetl("list", "--json").stdout)["executions"]
            for execution_id in [each["execution_id"] for each in found]:
                log = self.noetl("events", execution_id, "--json").stdout
                if f'"name": "{name}"' in log or f'"name":"{name}"' in log:
                    process.terminate()
                    process.communicate()
                    return str(execution_id)
        raise AssertionError(f"it ended before {name}: {process.communicate()}")
