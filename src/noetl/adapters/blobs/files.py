"""Blobs as files of one folder: ``ab/cdef…``, whole or not there."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from noetl.adapters.blobs.keys import check_bytes, check_key, key_of
from noetl.errors import BlobCorrupt, BlobGone, StoreError

# Links are not followed, and a pipe put there by somebody is not waited for.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_OURS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class FileBlobs:
    """The folder is made when the first blob is put; it is its user's alone."""

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        await asyncio.to_thread(self._store, key, data)
        return key

    async def get(self, key: str) -> bytes:
        return await asyncio.to_thread(self._load, check_key(key))

    def locate(self, key: str) -> str:
        """The file of a blob, verified, for who reads files. Blocks; raises as ``get``.

        It is not to be changed: it is the blob itself.
        """
        with self._found(check_key(key)) as file:
            digest = sha256()
            while part := os.read(file, 1 << 20):
                digest.update(part)
        if digest.hexdigest() != key:
            raise BlobCorrupt(f"blob {key} holds something else")
        return str(self._folder / key[:2] / key[2:])

    def _store(self, key: str, data: bytes) -> None:
        try:
            self._make_folders(key[:2])
            with _opened(self._folder / key[:2], _FOLDER) as folder:
                if not self._is_intact(key):
                    _write(folder, key[2:], data)
                # Also if it was there: its writer may have ended before this line.
                os.fsync(folder)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            kind = "store.full" if full else "store.io"
            raise StoreError(f"blob {key} cannot be stored: {error}", kind) from error

    def _load(self, key: str) -> bytes:
        with self._found(key) as file:
            data = _read(file)
        return check_bytes(key, data)

    @contextmanager
    def _found(self, key: str) -> Iterator[int]:
        try:
            with (
                _opened(self._folder / key[:2], _FOLDER) as folder,
                _opened(key[2:], _READ, folder) as file,
            ):
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise BlobGone(f"blob {key} is not a file")
                yield file
        except OSError as error:
            if error.errno in _NOT_OURS:
                raise BlobGone(f"blob {key} is not there") from None
            raise StoreError(f"blob {key}: {error}", "store.io") from error

    def _is_intact(self, key: str) -> bool:
        """A damaged one is written again."""
        try:
            self._load(key)
        except StoreError:
            return False
        return True

    def _make_folders(self, name: str) -> None:
        if (self._folder / name).is_dir():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / name).mkdir(mode=0o700, exist_ok=True)
        for made in (self._folder, self._folder.parent):
            with _opened(made, os.O_RDONLY | os.O_DIRECTORY) as folder:
                os.fsync(folder)


@contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    file = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _write(folder: int, name: str, data: bytes) -> None:
    """Under another name first: a crash leaves the blob whole, or not there."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    try:
        with _opened(temporary, _WRITE, folder) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _read(file: int) -> bytes:
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)
