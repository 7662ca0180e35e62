"""``noetl run`` while one call to the file system fails: what it says, what is left.

    python -m crash.failing FOLDER SEED COUNT

The process that imported everything forks once for each case. It prints one JSON
document. A COUNT of 0 takes every case.
"""

from __future__ import annotations

import errno
import json
import os
import random
import select
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crash.judge import Acknowledged, Judge
from crash.shim import CALLS, Shim
from crash.workload import HEAD, lower_limits, mark_commits
from noetl import clictl
from noetl.commands import run as _run  # noqa: F401  # imported before the forks

PLAYBOOK = (
    HEAD
    + """
metadata: {name: small, path: tests/small}
workflow:
  - step: one
    tool: {kind: noop, result: "{{ 'x' * 90000 }}"}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ range(6) }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
    tool:
      - nap: {kind: wait, for: 1ms}
      - end: {kind: noop, result: "{{ iter.i }}"}
    next:
      arcs: [{step: last, when: "{{ event.name == 'loop.done' }}"}]
  - step: last
    tool: {kind: noop, result: done}
"""
)
FULL = errno.ENOSPC
WAYS = {
    "EIO, once": {"error": errno.EIO},
    "ENOSPC, once": {"error": FULL},
    "ENOSPC, from then on": {"error": FULL, "times": -1},
    "ENOSPC in the middle of a write": {"error": FULL, "times": -1, "short": True},
    "EINTR, once": {"error": errno.EINTR},
}
HUNG_S = 30.0
"""Seconds after which a command hangs."""
EXIT_CODES = (0, 1, 2, 130)
"""Exit codes that a command may end with."""


class Case(NamedTuple):
    """The ``number``-th call of a kind fails in one of the ``WAYS``."""

    call: str
    number: int
    way: str


class Marks:
    """Collects the marks of a child process outside of the watched folder."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def mark(self, text: str) -> None:
        with self._file.open("a") as lines:
            lines.write(f"{text}\n")


def cases(counts: dict[str, int]) -> Iterator[Case]:
    """Yield every call of a whole run in every way that it can fail."""
    for call, count in counts.items():
        for number in range(1, count + 1):
            for way in WAYS:
                if call == "write" or "middle" not in way:
                    yield Case(call, number, way)


def start(folder: Path, shim: Shim, case: Case | None) -> tuple[int, dict[str, int]]:
    """Run the playbook in a child; return its exit code and the calls that it made."""
    home = folder / "root" / "home"
    shutil.rmtree(home, ignore_errors=True)
    for name in ("out", "err", "marks", "calls"):
        (folder / name).write_text("")
    child = os.fork()
    if child:
        end = os.pidfd_open(child)
        if not select.select([end], [], [], HUNG_S)[0]:
            os.kill(child, signal.SIGKILL)
        os.close(end)
        _, status = os.waitpid(child, 0)
        text = (folder / "calls").read_text()
        return os.waitstatus_to_exitcode(status), json.loads(text or "{}")
    try:
        _become(folder, shim, case)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(70)


def _become(folder: Path, shim: Shim, case: Case | None) -> None:
    """Be the command line, whose calls fail as the case says."""
    for name, number in (("out", 1), ("err", 2)):
        file = os.open(folder / name, os.O_WRONLY)
        os.dup2(file, number)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.argv = ["noetl", "run", str(folder / "small.yaml"), "--json", "--no-progress"]
    leave = clictl._leave

    def counted(code: int) -> None:
        made = {"counted": shim.counted, "failed": shim.failed}
        shim.disarm()
        (folder / "calls").write_text(json.dumps(made))
        leave(code)

    clictl._leave = counted  # type: ignore[assignment]
    if case is not None:
        shim.arm(CALLS[case.call], case.number, **WAYS[case.way])  # type: ignore[arg-type]
    clictl.main()


def complaints(folder: Path, judge: Judge, case: Case, code: int) -> Iterator[str]:
    """Yield what is wrong with the end of a run, and with the home that it left."""
    said, errors = (folder / "out").read_text(), (folder / "err").read_text()
    if "Traceback" in errors + said:
        yield f"a traceback: {errors.strip().splitlines()[-1]}"
    if code not in EXIT_CODES:
        yield f"exit code {code}"
    if code and not errors and '"error"' not in said:
        yield f"exit code {code}, and not a word"
    status = json.loads(said)["status"] if said.startswith("{") else None
    if (code == 0) != (status == "completed"):
        yield f"exit code {code}, and {status}: {errors}"
    told = Acknowledged()
    for mark in (folder / "marks").read_text().splitlines():
        told.take(mark)
    yield from judge.judge(folder / "root" / "home", told, go_on=True)


def run_cases(folder: Path, seed: int, count: int) -> dict[str, Any]:
    (folder / "small.yaml").write_text(PLAYBOOK)
    os.environ["NOETL_HOME"] = str(folder / "root" / "home")
    shim = Shim()
    lower_limits()
    mark_commits(Marks(folder / "marks"))
    counts = {call: _count(folder, shim, call) for call in CALLS}
    every = list(cases(counts))
    if count:
        every = random.Random(seed).sample(every, min(count, len(every)))
    judge, wrong, codes = Judge(), [], Counter[str]()
    for case in every:
        code, made = start(folder, shim, case)
        codes[f"{case.way}: exit code {code}"] += bool(made.get("failed"))
        found = complaints(folder, judge, case, code)
        wrong += [f"{case.call} {case.number}, {case.way}: {why}" for why in found]
    judge.close()
    return {"calls": counts, "cases": len(every), "codes": codes, "wrong": wrong}


def _count(folder: Path, shim: Shim, call: str) -> int:
    code, made = start(folder, shim, Case(call, 1_000_000, "EIO, once"))
    assert code == 0, (folder / "err").read_text()
    return made["counted"]


if __name__ == "__main__":
    folder, seed, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(run_cases(folder, seed, count)))  # noqa: T201
