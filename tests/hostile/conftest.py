"""The real command in a child that may not take more than two seconds and 256 MiB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

CPU_SECONDS = 2
MEMORY = 256 * 1024 * 1024

# The child limits itself, and says at its end how much memory it ever had.
CHILD = f"""
import os, resource, sys
report, leave = sys.argv.pop(1), os._exit
def note(code):
    status = open("/proc/self/status").read()
    open(report, "w").write(status.partition("VmHWM:")[2].split()[0])
    leave(code)
os._exit = note
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_SECONDS}, {CPU_SECONDS}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
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


@pytest.fixture
def validate(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> Validate:
    """``noetl validate`` of these bytes, as a limited child."""

    def run(content: bytes, *flags: str) -> Answer:
        file, out, err, report = (tmp_path / name for name in "fore")
        file.write_bytes(content)
        with out.open("wb") as stdout, err.open("wb") as stderr:
            child = subprocess.Popen(
                [sys.executable, "-c", CHILD, str(report), "validate", *flags, file],
                stdout=stdout,
                stderr=stderr,
            )
            _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        answer = Answer(
            child.returncode,
            out.read_text(),
            err.read_text(),
            usage.ru_utime + usage.ru_stime,
            int(report.read_text()) / 1024 if report.exists() else float("inf"),
        )
        record_property("cost", (answer.seconds, answer.megabytes))
        return answer

    return run


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
