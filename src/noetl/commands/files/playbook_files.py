"""Search and reading of playbook files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from noetl.errors import ConfigError

_OPENING = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*|\r)?\n|(?:---|%)[^\n]*\n)*([ \t]*)(\{?)"
)
_KEY = (
    rb"""["']?(?:apiVersion["']?[ \t]*:[ \t]*["']?noetl\.io/"""
    rb"""|kind["']?[ \t]*:[ \t]*["']?Playbook\b)"""
)
SUFFIXES = {".yaml", ".yml"}
_MAX_BYTES = 16 * 1024 * 1024  # above the limit of a playbook, to report the real size


class SourceFile(msgspec.Struct, frozen=True):
    """A file under the name that the user gave, with its bytes."""

    name: str
    content: bytes

    @property
    def lines(self) -> list[str]:
        return self.content.decode("utf-8-sig", "replace").splitlines()


def read_file(name: str) -> SourceFile:
    """Read a file, or standard input for ``-``. Raises ``ConfigError``."""
    if name == "-":
        return SourceFile("<stdin>", sys.stdin.buffer.read(_MAX_BYTES))
    try:
        with Path(name).open("rb") as stream:
            return SourceFile(name, stream.read(_MAX_BYTES))
    except FileNotFoundError:
        raise ConfigError(f"{name}: no such file") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{name}: cannot be read: {reason}") from None


def folder_of(name: str) -> str | None:
    """Return the folder of the file; None for standard input."""
    return str(Path(name).resolve().parent) if name not in ("-", "<stdin>") else None


def find_playbooks(names: Iterable[str]) -> tuple[list[SourceFile], int]:
    """Read the named files, and the playbooks in named folders.

    Also returns the number of YAML files in folders that are not playbooks.
    """
    files: list[SourceFile] = []
    skipped = 0
    for name in names:
        if name == "-" or not os.path.isdir(name):
            files.append(read_file(name))
            continue
        for path in sorted(Path(name).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            source = read_file(str(path))
            if is_playbook(source.content):
                files.append(source)
            else:
                skipped += 1
    return files, skipped


def is_playbook(content: bytes) -> bool:
    """Return whether the root has one of the two keys, also with syntax errors.

    The root's keys have the indentation of the first line that is not a comment.
    """
    opening = _OPENING.match(content)
    if opening is None:
        return False
    margin = rb"[{ \t]*" if opening[2] else re.escape(opening[1])
    key = re.compile(b"^" + margin + _KEY, re.MULTILINE)
    return key.search(content[opening.start(1) :]) is not None
