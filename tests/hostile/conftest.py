"""The real command in a child: its time and memory are measured.

``noetl validate`` may not take more than two seconds and 256 MiB. ``noetl run`` starts
processes of others, which would inherit such limits, so it is only measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from stored_log import contents

PEER = Path(__file__).parents[1] / "support" / "peers" / "http.py"
VALIDATOR = Path(__file__).parents[1] / "support" / "validator.py"

# Says at its end how much memory it ever had.
MEASURED = """
import os, resource, sys
report, leave = sys.argv.pop(1), os._exit
def note(code):
    status = open("/proc/self/status").read()
    open(report, "w").write(status.partition("VmHWM:")[2].split()[0])
    leave(code)
os._exit = note
"""
COMMAND = """
from noetl.clictl import main
main()
"""


class Answer(NamedTuple):
    """How the child ended and what it said."""

    code: int
    out: str
    err: str
    seconds: float
    megabytes: float

    @property
    def findings(self) -> list[dict[str, Any]]:
        [file] = json.loads(self.out)["files"]
        found: list[dict[str, Any]] = file["diagnostics"]
        return found


Validate = Callable[..., Answer]


@pytest.fixture(scope="session")
def validator() -> Iterator[subprocess.Popen[str]]:
    """A process that forks ``noetl validate`` with limits; it reads requests."""
    pipe = subprocess.PIPE
    command = [sys.executable, str(VALIDATOR)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        yield program
        program.communicate()  # ends its input, and so the process


@pytest.fixture
def validate(
    validator: subprocess.Popen[str],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Validate:
    """``noetl validate`` of these bytes, as a limited child."""

    def run(content: bytes, *flags: str) -> Answer:
        file, out, err = (tmp_path / name for name in "foe")
        file.write_bytes(content)
        request = {"args": [*flags, str(file)], "out": str(out), "err": str(err)}
        assert validator.stdin is not None
        assert validator.stdout is not None
        print(json.dumps(request), file=validator.stdin, flush=True)
        status, seconds, kibibytes = json.loads(validator.stdout.readline())
        answer = Answer(
            os.waitstatus_to_exitcode(status),
            out.read_text(),
            err.read_text(),
            seconds,
            kibibytes / 1024,
        )
        record_property("cost", (answer.seconds, answer.megabytes))
        return answer

    return run


@pytest.fixture(scope="session")
def peer() -> Iterator[str]:
    """The address of ``peers/http.py``, which answers as it is asked to."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", str(PEER)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout is not None
        yield f"http://127.0.0.1:{int(program.stdout.readline())}"
        program.communicate()  # ends its input, and so the peer


class Ran(NamedTuple):
    """How ``noetl run`` ended. ``outcomes`` are those of the tasks, by their labels."""

    document: dict[str, Any]
    err: str
    home: Path
    megabytes: float

    @property
    def outcomes(self) -> dict[str, Any]:
        found: dict[str, Any] = self.document["ctx"]
        return found

    def kind(self, label: str) -> str | None:
        """Of the error, or None for a call that went well."""
        error = self.outcomes[label]["error"]
        return error and error["kind"]

    def everything(self) -> bytes:
        """All that is recorded: the logs and what is beside them."""
        found = list(contents(self.home))
        logs = [text for name, text in found if name.startswith("events of ")]
        assert any(b"workflow.finished" in text for text in logs)
        return b"\n".join(text for _, text in found)


Attempt = Callable[..., Ran]


def run_noetl(
    folder: Path, *arguments: str, env: dict[str, str] | None = None
) -> tuple[int, str, str, float]:
    """Exit code, stdout, stderr and the most mebibytes that it had."""
    report = folder / "report"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED + COMMAND, str(report), *arguments],
        cwd=folder,
        env={**os.environ, "NOETL_HOME": str(folder / "home"), **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr, int(report.read_text()) / 1024


@pytest.fixture(scope="session")
def attempt(tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    """``attempt({label: task, …}, root={…})``: all of them in one ``noetl run``, each
    whatever became of the one before."""

    def run(
        tasks: dict[str, dict[str, Any]],
        root: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        keep: str = "{{ outcome }}",
    ) -> Ran:
        folder = tmp_path_factory.mktemp("hostile")
        playbook = {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "hostile", "path": "tests/hostile"},
            **(root or {}),
            "workflow": [
                {
                    "step": "start",
                    "tool": [
                        {name: _keeping(name, task, keep)}
                        for name, task in tasks.items()
                    ],
                }
            ],
        }
        (folder / "playbook.yaml").write_text(json.dumps(playbook))
        code, out, err, megabytes = run_noetl(
            folder, "run", "playbook.yaml", "--json", env=env
        )
        assert code == 0, (out, err)
        return Ran(json.loads(out), err, folder / "home", megabytes)

    return run


def _keeping(label: str, task: dict[str, Any], keep: str) -> dict[str, Any]:
    """The task, whose outcome goes to ``ctx`` and stops nothing."""
    then = {"do": "continue", "set_ctx": {label: keep}}
    spec = {**task.get("spec", {}), "policy": {"rules": [{"else": {"then": then}}]}}
    return {**task, "spec": spec}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the worst of them took."""
    costs = [
        (*cost, report.nodeid.partition("::")[2])
        for report in terminalreporter.getreports("passed")
        for name, cost in report.user_properties
        if name == "cost"
    ]
    if costs:
        seconds, _, slowest = max(costs)
        megabytes, largest = max((size, name) for _, size, name in costs)
        terminalreporter.write_line(f"hostile: worst CPU {seconds:.2f} s: {slowest}")
        terminalreporter.write_line(f"hostile: worst {megabytes:.0f} MiB: {largest}")
