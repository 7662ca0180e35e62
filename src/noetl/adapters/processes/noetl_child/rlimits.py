"""Limits of a process: it dies with its parent and has bounded resources."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_FILES = 16_384  # open at once
_FIRST = b"1000"

_libc = ctypes.CDLL(None)


def die_with(parent: int) -> None:
    """Have this process killed when the parent dies; exit if it already has."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Keep daemons below this process, so that they can be found and killed.

    The setting survives ``exec`` and is not inherited by children.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def limit(memory: int | None, disk: int | None, processes: int) -> None:
    """Limit memory and the size of files, in bytes, and the user's processes.

    Inside a sandbox, its processes are counted. Core files, which contain secrets, and
    new privileges are disabled. The kernel kills this process first when the machine
    runs out of memory.
    """
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lower(resource.RLIMIT_NPROC, processes)
    lower(resource.RLIMIT_NOFILE, _FILES)
    if memory is not None:
        lower(resource.RLIMIT_AS, memory)
    if disk is not None:
        lower(resource.RLIMIT_FSIZE, disk)
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:  # the file is missing or read-only: the kernel chooses
        return
    try:
        os.write(file, _FIRST)
    except OSError:
        return
    finally:
        os.close(file)


def lower(what: int, most: int) -> None:
    """Set a limit, never above the present hard limit."""
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most))
