"""The worker processes of a home: a locked file for each says that it lives."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Member(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    name: str
    pool: str
    slots: int
    servers: list[str]
    started_at: str


class Attendance:
    """Held from the making of this object to ``end``, or to the end of the process."""

    def __init__(self, folder: Path, member: Member) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{member.pid}.json"
        self._file = os.open(self._path, _FLAGS, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, msgspec.json.encode(member), 0)

    def end(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def members(folder: Path) -> list[Member]:
    """Those that live at this moment, in the order of their start."""
    return sorted(_living(folder), key=lambda member: (member.started_at, member.pid))


def _living(folder: Path) -> Iterator[Member]:
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)  # it was killed
        except BlockingIOError:
            try:
                yield msgspec.json.decode(os.pread(file, 65536, 0), type=Member)
            except msgspec.DecodeError:
                continue  # it is just being written
        finally:
            os.close(file)
