"""Files that only their owner reads: whole or not there, and durable."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_private(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a file of mode 0600; without ``replace``, one that is there stays.

    Raises ``FileExistsError`` then.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        file = os.open(temporary, flags, 0o600)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
