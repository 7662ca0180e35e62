"""What a whole process costs: instructions under callgrind, or CPU time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BENCH = Path(__file__).parents[1]
CALLGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
COLLECTED = re.compile(rb"Collected : (\d+)")
ROUNDS = 5


def has_callgrind() -> bool:
    return shutil.which(CALLGRIND[0]) is not None


def instructions(*commands: Sequence[str]) -> list[int]:
    """Of Python with these arguments; all at once, since load changes nothing."""
    for command in commands:
        microseconds(command)  # so that nothing is left to compile
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(_instructions, commands))


def _instructions(command: Sequence[str]) -> int:
    whole = [*CALLGRIND, sys.executable, *command]
    done = subprocess.run(whole, env=_environ(), capture_output=True, check=False)
    found = COLLECTED.search(done.stderr)
    if done.returncode or found is None:
        raise SystemExit(f"{' '.join(whole)} failed:\n{done.stderr.decode()}")
    return int(found[1])


def best_microseconds(*commands: Sequence[str]) -> list[float]:
    """CPU of each, the best of some rounds, which alternate."""
    rounds = [[microseconds(each) for each in commands] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def microseconds(command: Sequence[str]) -> float:
    """CPU of Python with these arguments, and of the processes that it started."""
    whole = [sys.executable, *command]
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen(whole, env=_environ(), stdout=nowhere)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(whole)} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e6


def _environ() -> dict[str, str]:
    """The same for everyone: the order of sets is part of what is counted."""
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(BENCH)}
