"""Jobs of the local simulator as files, which outlive their process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from noetl.errors import ToolError
from noetl.types import JSON

_ID = re.compile(r"[0-9a-f]{32}\Z")
_MAX_AGE_S = 30 * 86400.0


class Jobs:
    """``<id>.job`` is the request, ``<id>.end`` the result. Calls block shortly."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, job: str, body: dict[str, JSON]) -> None:
        """Create a job; does nothing if it exists."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._prune()
        if not self._file(job, "job").exists():
            self._write(self._file(job, "job"), body)

    def read(self, job: str) -> dict[str, JSON]:
        """Return the request of a job. Raises ``ToolError`` if it does not exist."""
        body = self._load(self._file(job, "job"))
        if body is None:
            message = f"the local simulator has no job '{job:.60}' in {self._folder}"
            raise ToolError("quantum.unknown_job", message)
        return body

    def end(self, job: str) -> dict[str, JSON] | None:
        """Return ``{"status": …}`` with the result or the error; None if unfinished."""
        return self._load(self._file(job, "end"))

    def finish(self, job: str, end: dict[str, JSON]) -> bool:
        """Store the end of a job; returns False if it has already ended."""
        if self._file(job, "end").exists():
            return False
        self._write(self._file(job, "end"), end)
        return True

    def is_locked(self, job: str) -> bool:
        """Return whether a process is running the job."""
        with self.lock(job) as free:
            return not free

    @contextlib.contextmanager
    def lock(self, job: str) -> Iterator[bool]:
        """Try to lock the job; yields whether it succeeded.

        The system releases the lock if this process dies.
        """
        try:
            file = os.open(self._file(job, "job"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield False
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(file)

    def _file(self, job: str, ending: str) -> Path:
        # An id that was not made here could be the path of another file.
        name = job if _ID.match(job) else "none"
        return self._folder / f"{name}.{ending}"

    def _load(self, file: Path) -> dict[str, JSON] | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=dict)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            message = f"{file} cannot be read: {error}"
            raise ToolError("quantum.failed", message) from None

    def _write(self, file: Path, body: dict[str, JSON]) -> None:
        """Write a file atomically."""
        temporary = file.with_suffix(f".{secrets.token_hex(8)}")
        try:
            with open(temporary, "xb", opener=_private) as stream:
                stream.write(msgspec.json.encode(body))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, file)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            message = f"{file} cannot be written: {error.strerror}"
            raise ToolError("quantum.failed", message) from None

    def _prune(self) -> None:
        """Remove jobs that ended more than ``_MAX_AGE_S`` ago."""
        oldest = time.time() - _MAX_AGE_S
        for end in self._folder.glob("*.end"):
            with contextlib.suppress(FileNotFoundError):
                if end.stat().st_mtime < oldest:
                    end.with_suffix(".job").unlink(missing_ok=True)
                    end.unlink()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
