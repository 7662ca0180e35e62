"""The demo API of ``examples/api`` as a process, and ``noetl`` with its own home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


class DemoApi:
    """A running demo API. Whoever starts it stops it."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, str(EXAMPLES / "api"), "--port", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:")

    def stop(self) -> int:
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One call; ``body`` is sent as JSON, or as it is if it is bytes."""
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        url = self.url + path
        request = urllib.request.Request(url, data, names, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                return Answer(response.status, json.load(response), response.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.load(error), dict(error.headers))

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    def calls(self) -> dict[str, dict[str, int]]:
        """Answers by path and status."""
        calls: dict[str, dict[str, int]] = self.get("/stats").body["calls"]
        return calls


class Noetl:
    """The command as its user runs it, with a home that is empty at first."""

    def __init__(self, home: Path) -> None:
        self.environ = {**os.environ, "NOETL_HOME": str(home)}

    def __call__(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "noetl", *args],
            cwd=ROOT,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, example: str, **settings: object) -> dict[str, Any]:
        """Run an example to its end; its document, with the exit code."""
        done = self(*self._order(example, settings))
        assert done.stderr == ""
        return {**json.loads(done.stdout), "exit_code": done.returncode}

    def start(self, example: str, **settings: object) -> subprocess.Popen[str]:
        """The same, in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *self._order(example, settings)],
            cwd=ROOT,
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _order(self, example: str, settings: dict[str, object]) -> list[str]:
        options = [f"--set={name}={settings[name]}" for name in settings]
        return ["run", f"examples/{example}", *options, "--json"]

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        lines = self("events", execution_id, "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]
