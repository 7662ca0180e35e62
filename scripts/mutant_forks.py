"""Runs work in forks with limits: of CPU time, of memory, and of standing still."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STUCK = 6.0
"""Seconds without use of the processor after which a fork is stopped."""
MEMORY = 2 << 30
PR_SET_PDEATHSIG = 1
KILLED = 9
"""Exit code of a fork whose mutant makes a test fail."""
PEER = ROOT / "tests" / "support" / "peers" / "postgres.py"
PASSWORD = "s3cret/of:tests"
"""As in tests/support/databases.py, whose server each slot replaces by its own."""


class Forks:
    """Runs functions in forks of this process, one for each of the database servers."""

    def __init__(
        self, ports: Sequence[int], scratch: Path, stuck: float = STUCK
    ) -> None:
        self._stuck = stuck
        self.ports = ports
        self.count = len(ports)
        self.scratch = scratch
        self._free = list(range(self.count))
        self._running: dict[int, tuple[int, Any, int, float, float, float]] = {}

    def start(self, what: Any, work: Callable[[int], int], seconds: float) -> None:
        """Start ``work`` in a fork with a limit on its CPU time, in a free slot."""
        slot = self._free.pop()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            _become_fork(seconds)
            code = KILLED
            try:
                code = work(slot)
            except BaseException:
                error = self.scratch / f"error-{os.getpid()}"
                error.write_text(traceback.format_exc())
            finally:
                os._exit(code)
        now = time.monotonic()
        self._running[os.pidfd_open(pid)] = pid, what, slot, now, 0.0, seconds

    def wait(self, most: int) -> Iterator[tuple[Any, int, int, float]]:
        """Yield what ended, with pid, status and CPU, until at most ``most`` run."""
        while len(self._running) > most:
            ready, _, _ = select.select(list(self._running), [], [], 1.0)
            for descriptor in ready or list(self._running):
                pid, what, slot, since, used, limit = self._running[descriptor]
                if descriptor not in ready:
                    now, spent = time.monotonic(), _cpu(pid)
                    if spent > used + 0.05:
                        state = pid, what, slot, now, spent, limit
                        self._running[descriptor] = state
                    elif now - since > self._stuck:
                        os.kill(pid, signal.SIGKILL)
                    continue
                _, status, usage = os.wait4(pid, 0)
                _kill_group(pid)
                error = self.scratch / f"error-{pid}"
                if error.exists():
                    raise RuntimeError(error.read_text())
                os.close(descriptor)
                del self._running[descriptor]
                self._free.append(slot)
                shutil.rmtree(self.scratch / str(slot), ignore_errors=True)
                yield what, pid, status, usage.ru_utime + usage.ru_stime


def die_with_parent() -> None:
    """End with the process that forked this one, even if that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _become_fork(seconds: float) -> None:
    die_with_parent()
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)
    whole = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _kill_group(pid: int) -> None:
    """End what the tests of an ended fork left behind: its session is its own."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class Server:
    """A PostgreSQL of one slot."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(PEER)],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.communicate()
