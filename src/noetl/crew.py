"""The worker processes of a home: a locked file for each says that it lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from noetl.locked import held_text, take, write


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
        self._file = take(self._path)
        write(self._file, msgspec.json.encode(member))

    def end(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def members(folder: Path) -> list[Member]:
    """Those that live at this moment, in the order of their start."""
    return sorted(_living(folder), key=lambda member: (member.started_at, member.pid))


def _living(folder: Path) -> Iterator[Member]:
    """The file of a killed one stays: removing it might hit one that just begins."""
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        text = held_text(path)
        if text:  # else it was killed, or is just being written
            yield msgspec.json.decode(text, type=Member)
