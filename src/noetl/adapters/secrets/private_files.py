"""Files that only their owner can read, written atomically and durably."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from noetl.access.credentials import API, digest, mint
from noetl.errors import ConfigError


def write_private(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write a file of mode 0600.

    Without ``replace``, raises ``FileExistsError`` if the file exists.
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


def make_folder(path: Path) -> None:
    """Create a folder of mode 0700, and those above it that are missing.

    The folder above each new one is synced: a power cut does not take what a file in
    it was synced for.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700 if each == path else 0o777, exist_ok=True)
        with suppress(PermissionError):  # of a folder that may be used, but not listed
            sync_folder(each.parent)


def sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_token(file: Path) -> str:
    """Return the token; makes it on the first call."""
    token = mint(API, secrets.token_bytes(32))
    with suppress(FileExistsError):
        write_private(file, f"{token}\n".encode(), replace=False)
    return read_token(file)


def read_token(file: Path) -> str:
    """Return the token. Raises ``ConfigError`` if it is missing or not private."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor) as stream:
            mode, token = os.fstat(descriptor).st_mode, stream.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: the token cannot be read: {error}") from None
    if mode & 0o077:
        message = f"{file}: other users can read it; run: chmod 600 {file}"
        raise ConfigError(message)
    if digest(token, API) is None:
        raise ConfigError(f"{file} has no token; delete it, and start the server")
    return token
