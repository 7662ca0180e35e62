"""The library that records and breaks the file calls of a process (``shim.c``)."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
CALLS = {"open": 1, "write": 2, "sync": 4, "truncate": 8, "remove": 16}
"""The calls that ``arm`` makes fail, by the bits of the library."""


def missing() -> str | None:
    """Return why the library cannot be built here."""
    if sys.platform != "linux":
        return "file calls are recorded on Linux only"
    if shutil.which("cc") is None:
        return "no C compiler: file calls cannot be recorded"
    return None


@cache
def library() -> Path:
    """Build the library once for this process."""
    file = Path(tempfile.mkdtemp(prefix="noetl-shim-")) / "shim.so"
    options = ("-O2", "-Wall", "-shared", "-fPIC", "-o", file)
    subprocess.run(["cc", *options, HERE / "shim.c", "-ldl"], check=True)
    return file


def environment(root: Path, trace: Path | None = None) -> dict[str, str]:
    """Return the environment of a process whose calls below ``root`` are watched."""
    watched = {"LD_PRELOAD": str(library()), "CRASH_ROOT": str(root)}
    if trace is not None:
        watched["CRASH_TRACE"] = str(trace)
    return {**os.environ, **watched, "NOETL_HOME": str(root / "home")}


class Shim:
    """The library inside of a process that runs with it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)

    def mark(self, text: str) -> None:
        """Put a line into the record, between the calls before and after it."""
        self._library.crash_mark(text.encode())

    def arm(
        self,
        calls: int,
        number: int,
        *,
        error: int,
        times: int = 1,
        short: bool = False,
    ) -> None:
        """Make the ``number``-th matching call fail, and ``times`` - 1 after it; all of
        them if ``times`` is -1. A short write stores half of its bytes."""
        self._library.crash_arm(
            calls, ctypes.c_long(number), ctypes.c_long(times), error, int(short)
        )

    def disarm(self) -> None:
        self.arm(0, 0, error=0)

    @property
    def counted(self) -> int:
        """Return the matching calls since ``arm``."""
        return int(self._library.crash_counted())

    @property
    def failed(self) -> int:
        """Return the calls since ``arm`` that were made to fail."""
        return int(self._library.crash_failed())
