"""Keep other processes of the same user out of this one's memory."""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4


def forbid_tracing() -> None:
    """No debugger, no core file, and nothing of this process in ``/proc`` for others
    of its user. A program that it starts can be looked at again."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
