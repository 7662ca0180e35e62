"""Files that a living process keeps locked: however it ends, the lock ends with it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

TRIES = 25
LOOK = 0.02
_TAKE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST = 65536


def take(file: Path) -> int:
    """Lock it, and give its descriptor. Raises ``BlockingIOError`` if somebody has it.

    Whoever only looks holds it for a moment: that is no answer yet.
    """
    descriptor = os.open(file, _TAKE, 0o600)
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if not left:
                os.close(descriptor)
                raise
            time.sleep(LOOK)
    raise AssertionError


def write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def held_text(file: Path) -> bytes | None:
    """What its holder wrote; None if nobody has it at this moment."""
    try:
        descriptor = os.open(file, _READ)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, _MOST, 0)
    finally:
        os.close(descriptor)
    return None
