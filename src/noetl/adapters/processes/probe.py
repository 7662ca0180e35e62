"""Bubblewrap on this machine: whether it is there, and whether it works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping

import msgspec

from noetl.adapters.processes.launcher import INTERPRETER
from noetl.adapters.processes.noetl_child.seccomp import FILTER
from noetl.adapters.processes.sandbox import Sandbox, enclose

INSTALL = "install bubblewrap (Debian, Ubuntu: apt install bubblewrap)"
ALLOW = "allow unprivileged user namespaces on this machine"
_PATIENCE = 20.0


class Probe(msgspec.Struct, frozen=True):
    """Bubblewrap as it was found: with a ``problem`` it is of no use."""

    program: str | None
    problem: str | None = None
    cure: str | None = None
    bounded: bool = True


def look(path: str) -> Probe:
    """Make a sandbox once, with the interpreter in it; blocks some milliseconds."""
    program = shutil.which("bwrap", path=path)
    if program is None:
        return Probe(None, "bubblewrap (bwrap) is not installed", INSTALL)
    try:
        options = _run([program, "--help"], {}).stdout
        bounded = b"--size" in options
        done = _try(program, bounded)
    except (OSError, subprocess.SubprocessError) as error:
        return Probe(program, f"{program} does not work: {error}", ALLOW)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1][:200] if said else f"exit code {done.returncode}"
        return Probe(program, f"{program} does not work: {reason}", ALLOW)
    return Probe(program, bounded=bounded)


def _try(program: str, bounded: bool) -> subprocess.CompletedProcess[bytes]:
    sandbox = Sandbox(program, bounded=bounded)
    nothing = [*INTERPRETER[:2], "-c", "import json"]
    enclosed = enclose(sandbox, nothing, {}, None)
    try:
        return _run(enclosed.program, {}, enclosed.files)
    finally:
        for file in enclosed.files:
            os.close(file)


def _run(
    command: list[str], environment: Mapping[str, str], files: Iterable[int] = ()
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PATIENCE,
        check=False,
        pass_fds=tuple(files),
    )


def describe(probe: Probe) -> str:
    """What a sandbox on this machine consists of."""
    filtered = "" if FILTER else ", without a filter of system calls on this processor"
    return f"{probe.program}{filtered}"
