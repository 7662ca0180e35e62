"""What a disk may hold after a crash, given the recorded calls of a process.

A sync of a file makes the writes to it certain, a sync of a folder the names in it.
Anything else may have happened in whole, in part or not at all.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

SECTOR = 512
_HEAD = struct.Struct("<cIIq")


class Record(NamedTuple):
    """One call: its letter in ``shim.c``, path, offset or size, and data."""

    call: str
    path: str
    at: int
    data: bytes


def read_records(trace: Path) -> Iterator[Record]:
    content = trace.read_bytes()
    position = 0
    while position < len(content):
        call, path_size, size, at = _HEAD.unpack_from(content, position)
        middle = position + _HEAD.size + path_size
        path = content[position + _HEAD.size : middle].decode()
        yield Record(call.decode(), path, at, content[middle : middle + size])
        position = middle + size


class Change(NamedTuple):
    """A write to a file, or its truncation if there is no data; ``number`` orders the
    changes of all files."""

    number: int
    at: int
    data: bytes | None


class Node:
    """A file or a folder: its certain content, and the changes that are not."""

    def __init__(self, *, is_folder: bool = False) -> None:
        self.is_folder = is_folder
        self.certain = bytearray()
        self.changes: list[Change] = []

    def sync(self) -> None:
        for change in self.changes:
            apply(self.certain, change)
        self.changes.clear()


def apply(content: bytearray, change: Change) -> None:
    if change.data is None:
        grown = change.at - len(content)
        content[change.at :] = bytes(max(grown, 0))
        return
    missing = change.at - len(content)
    content.extend(bytes(max(missing, 0)))
    content[change.at : change.at + len(change.data)] = change.data


class Naming(NamedTuple):
    """A new name, or a removed one without a node; ``old`` is moved to ``path``."""

    path: str
    node: Node | None
    old: str | None = None


def rename(names: dict[str, Node], naming: Naming) -> None:
    if naming.old is not None:
        names.pop(naming.old, None)
    if naming.node is None:
        names.pop(naming.path, None)
    else:
        names[naming.path] = naming.node


class Disk:
    """The certain state of a disk, and all changes that a crash may undo."""

    def __init__(self, root: str) -> None:
        self._now: dict[str, Node] = {root: Node(is_folder=True)}
        self.names: dict[str, Node] = dict(self._now)
        self.namings: dict[str, list[Naming]] = {}
        self._number = 0

    def take(self, record: Record) -> None:
        path = record.path
        match record.call:
            case "W" | "T":
                self._number += 1
                data = record.data if record.call == "W" else None
                self._now[path].changes.append(Change(self._number, record.at, data))
            case "S":
                self._sync(path)
            case "C" | "M":
                node = self._now[path] = Node(is_folder=record.call == "M")
                self._name(path, Naming(path, node))
            case "U":
                self._now.pop(path)
                self._name(path, Naming(path, None))
            case "R":
                target = record.data.decode()
                node = self._now[target] = self._now.pop(path)
                self._name(target, Naming(target, node, old=path))
            case other:
                raise AssertionError(f"{other} of {path}: a write without a record")

    def _sync(self, path: str) -> None:
        node = self._now[path]
        if not node.is_folder:
            node.sync()
            return
        for naming in self.namings.pop(path, ()):
            rename(self.names, naming)

    def _name(self, path: str, naming: Naming) -> None:
        self.namings.setdefault(os.path.dirname(path), []).append(naming)

    def changes(self) -> list[Change]:
        """Return the uncertain changes of all files, in order."""
        nodes = {id(node): node for node in (*self._now.values(), *self.names.values())}
        found = [change for node in nodes.values() for change in node.changes]
        return sorted(found, key=lambda change: change.number)

    def image(
        self, kept: Mapping[int, Change], folders: Mapping[str, int]
    ) -> Iterator[tuple[str, bytes | None]]:
        """Yield path and content of each file, None for a folder.

        ``kept`` are the changes that the crash left, by their numbers, and ``folders``
        how many new names of each folder.
        """
        names = dict(self.names)
        for folder, count in folders.items():
            for naming in self.namings[folder][:count]:
                rename(names, naming)
        for path in sorted(names):
            if not _is_reachable(path, names):
                continue
            node = names[path]
            if node.is_folder:
                yield path, None
                continue
            content = bytearray(node.certain)
            for change in node.changes:
                if (left := kept.get(change.number)) is not None:
                    apply(content, left)
            yield path, bytes(content)


def _is_reachable(path: str, names: Mapping[str, Node]) -> bool:
    """Return whether all folders above a path are there, up to the topmost one."""
    top = min(names, key=len)
    while path != top:
        path = os.path.dirname(path)
        if path not in names:
            return False
    return True


class Crash(NamedTuple):
    """A way to crash: its name, the changes it leaves, and new names by folder."""

    kind: str
    kept: dict[int, Change]
    folders: dict[str, int]


def crashes(disk: Disk, random: Random, repeats: int = 1) -> Iterator[Crash]:
    """Yield crashes at this moment; ``repeats`` of each kind that is drawn."""
    changes = disk.changes()
    every = {folder: len(namings) for folder, namings in disk.namings.items()}
    whole = {change.number: change for change in changes}
    yield Crash("lost", {}, {})
    if not changes and not any(every.values()):
        return
    yield Crash("kept", whole, every)
    for torn in _torn(changes[-1:], random, repeats):
        yield Crash("torn", {**whole, torn.number: torn}, every)
    for _ in range(repeats):
        some = {folder: random.randint(0, count) for folder, count in every.items()}
        yield Crash("some", dict(_some(changes, random)), some)
        if changes:
            first = random.choice(changes).number
            spoilt = {c.number: _spoil(c, random) for c in changes if c.number >= first}
            yield Crash("garbage", {**whole, **spoilt}, every)


def _torn(last: Iterable[Change], random: Random, repeats: int) -> Iterator[Change]:
    """Yield the last write as if it was cut off at borders of sectors."""
    for change in last:
        if change.data is None:
            continue
        first = SECTOR - change.at % SECTOR
        borders = range(first, len(change.data), SECTOR)
        for border in random.sample(borders, min(repeats, len(borders))):
            yield change._replace(data=change.data[:border])


def _some(changes: Iterable[Change], random: Random) -> Iterator[tuple[int, Change]]:
    """Yield a random part of the changes; of some writes only a part of their start."""
    likely = random.choice((0.1, 0.5, 0.9))
    for change in changes:
        if random.random() >= likely:
            continue
        if change.data is not None and random.random() < 0.2:
            cut = random.randrange(0, len(change.data) + 1, SECTOR)
            yield change.number, change._replace(data=change.data[:cut])
        else:
            yield change.number, change


def _spoil(change: Change, random: Random) -> Change:
    """Return a write with zeros or noise instead of its data, from some sector on."""
    if change.data is None:
        return change
    keep = random.randrange(0, len(change.data) + 1, SECTOR)
    size = len(change.data) - keep
    noise = bytes(size) if random.random() < 0.5 else random.randbytes(size)
    return change._replace(data=change.data[:keep] + noise)
