"""Damage limitation: a process dies with its parent and cannot grow at will."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_PROCESSES = 8192  # of the user: a fork bomb leaves room for others
_FIRST = b"1000"

_libc = ctypes.CDLL(None)


def die_with(parent: int) -> None:
    """Be killed when the parent dies; at once if it already has."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Keep daemons below this process, where they are found and killed.

    The setting survives ``exec`` and is not inherited by children.
    """
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def limit(memory: int | None, disk: int | None) -> None:
    """No core files (they hold secrets), no new rights, at most this much memory and
    no file that is larger. If the machine has no memory left, it goes first."""
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lower(resource.RLIMIT_NPROC, _PROCESSES)
    if memory is not None:
        lower(resource.RLIMIT_AS, memory)
    if disk is not None:
        lower(resource.RLIMIT_FSIZE, disk)
    try:
        file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError:  # no such file, or not ours to write: the kernel chooses
        return
    try:
        os.write(file, _FIRST)
    except OSError:
        return
    finally:
        os.close(file)


def lower(what: int, most: int) -> None:
    """At most this, and never more than there was."""
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(what, (most, most))
