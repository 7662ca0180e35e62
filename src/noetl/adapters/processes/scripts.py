"""Text for an interpreter, as a file for the time of one call."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PREFIX = "noetl-script-"
# Others may put anything there: no link is followed, and no pipe is waited for.
_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def script_file(text: str) -> Iterator[str]:
    """Its path. It is locked before it has its name, and filled after that."""
    file, path = tempfile.mkstemp()
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        folder, name = os.path.split(path)
        os.rename(path, path := os.path.join(folder, _PREFIX + name))
        with open(file, "w", encoding="utf-8", closefd=False) as writer:
            writer.write(text)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.close(file)


def sweep_scripts() -> None:
    """Remove what killed processes left, for it may hold a secret: nobody locks it."""
    with os.scandir(tempfile.gettempdir()) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
    for path in left:
        with suppress(OSError):  # it is somebody else's, or gone
            file = os.open(path, _LOOK)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(file)
