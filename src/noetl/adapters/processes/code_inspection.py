"""Inspection of Python code in a process with limits; the code is never run."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from threading import BoundedSemaphore, Lock

import msgspec

from noetl.dsl.python_source import CodeFacts

_ENTRY = str(Path(__file__).with_name("noetl_child") / "__main__.py")
_TIMEOUT = 10.0  # of the clock; the limit of processor time is one second
_MAX_KNOWN = 256
_AT_ONCE = BoundedSemaphore(2)  # requests of a server check playbooks on threads


class CodeInspector:
    """Compiles codes in one process per call, and remembers what it found."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, CodeFacts] = OrderedDict()
        self._lock = Lock()

    def __call__(self, codes: Sequence[str]) -> list[CodeFacts | None]:
        """Return the facts of each code; None where a limit was exceeded."""
        keys = [
            sha256(code.encode("utf-8", "surrogatepass")).digest() for code in codes
        ]
        by_key = dict(zip(keys, codes, strict=True))
        with self._lock:
            facts = {key: self._known[key] for key in by_key if key in self._known}
        unknown = [key for key in by_key if key not in facts]
        if unknown:
            found = _compile([by_key[key] for key in unknown])
            new = dict(zip(unknown, found, strict=False))
            facts.update(new)
            self._remember(new)
        return [facts.get(key) for key in keys]

    def _remember(self, facts: dict[bytes, CodeFacts]) -> None:
        with self._lock:
            self._known.update(facts)
            while len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)


inspect_code = CodeInspector()


def _compile(codes: list[str]) -> list[CodeFacts]:
    """Return the facts of the codes up to the first that exceeds a limit."""
    import subprocess

    from noetl.adapters.processes.limits import clean_environment

    with _AT_ONCE:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", _ENTRY, "compile_only", "0"],
                input=json.dumps(codes).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=clean_environment(),
                timeout=_TIMEOUT,
                check=False,
            )
            answer = done.stdout
        except subprocess.TimeoutExpired as error:
            answer = error.stdout or b""
        except OSError:  # no process or memory left
            return []
    lines = answer[: answer.rfind(b"\n") + 1].splitlines()
    return [msgspec.json.decode(line, type=CodeFacts) for line in lines]
