"""Blobs as files of one folder, ``ab/cdef…``, written atomically; keys of blobs."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from noetl.errors import BlobCorrupt, BlobGone, StoreError
from noetl.ports import Blob

ENDING = ".draft"
_KEY = re.compile(r"[0-9a-f]{64}")
_PART = 1 << 20


def key_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def key_of_file(file: BinaryIO) -> str:
    """Return the SHA-256 of the rest of the file, read in chunks."""
    digest = sha256()
    while part := file.read(_PART):
        digest.update(part)
    return digest.hexdigest()


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def check_key(key: str) -> str:
    """Return the key. Raises ``BlobGone`` if ``key_of`` cannot have made it."""
    if not is_key(key):
        raise BlobGone(f"{key[:80]!r} is not the key of a blob")
    return key


def check_bytes(key: str, data: bytes) -> bytes:
    if key_of(data) != key:
        message = f"blob {key} is damaged: its {len(data)} bytes have another SHA-256"
        raise BlobCorrupt(message)
    return data


def gone(key: str, place: str) -> BlobGone:
    return BlobGone(f"blob {key} is not in {place} any more")


def new_draft(folder: str) -> str:
    """Return the path of a new file; creates its folder."""
    os.makedirs(folder, 0o700, exist_ok=True)
    return os.path.join(folder, f"{secrets.token_hex(16)}{ENDING}")


@asynccontextmanager
async def copy_of(parts: AsyncIterator[bytes], folder: str) -> AsyncIterator[str]:
    """Write the parts to a file, which is removed on exit."""
    name = await asyncio.to_thread(new_draft, folder)
    try:
        with await asyncio.to_thread(open, name, "xb") as copy:
            async for part in parts:
                await asyncio.to_thread(copy.write, part)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def remove_old(folder: str, before: float, dry_run: bool) -> Sequence[Blob]:
    """Remove drafts last written before this time, and return them."""
    removed = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.endswith(ENDING):
                continue
            with suppress(FileNotFoundError):
                about = entry.stat(follow_symlinks=False)
                if about.st_mtime < before:
                    if not dry_run:
                        os.unlink(entry.path)
                    removed.append(Blob("", about.st_size, about.st_mtime))
    return removed


# Links are not followed, and opening a pipe does not block.
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_OURS = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class FileBlobs:
    """The folder is created with the first blob, readable by its user alone.

    ``put`` renews the time of a blob that exists, under a lock shared with ``remove``:
    a blob that is about to be referenced is never removed.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        self.place = str(folder)
        self.drafts = str(self._folder / "drafts")
        self._synced: set[str] = set()

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        await asyncio.to_thread(self._store, key, data)
        return key

    async def adopt(self, file: str) -> Blob:
        return await asyncio.to_thread(self._adopt, file)

    async def get(self, key: str) -> bytes:
        return await asyncio.to_thread(self._load, check_key(key))

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        yield await asyncio.to_thread(self._locate, check_key(key))

    async def each(self) -> AsyncIterator[Blob]:
        for name in await asyncio.to_thread(self._names, self._folder):
            if len(name) == 2:
                for blob in await asyncio.to_thread(self._found_below, name):
                    yield blob

    async def remove(self, key: str, before: float) -> bool:
        return await asyncio.to_thread(self._remove, check_key(key), before)

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return await asyncio.to_thread(remove_old, self.drafts, before, dry_run)

    async def others(self) -> int:
        return 0

    def _store(self, key: str, data: bytes) -> None:
        with self._writing(key) as folder:
            if self._is_intact(key):
                os.utime(key[2:], dir_fd=folder)
            else:
                self._write(folder, key[2:], data)
            # Also if the blob existed: its writer may have died before this line.
            os.fsync(folder)

    def _adopt(self, file: str) -> Blob:
        with open(file, "rb") as draft:
            key = key_of_file(draft)
            os.fsync(draft.fileno())
            os.fchmod(draft.fileno(), 0o600)
            size = os.fstat(draft.fileno()).st_size
        with self._writing(key) as folder:
            os.utime(file)
            os.replace(file, key[2:], dst_dir_fd=folder)
            os.fsync(folder)
            return Blob(key, size, os.stat(key[2:], dir_fd=folder).st_mtime)

    def _load(self, key: str) -> bytes:
        with self._found(key) as file:
            data = _read(file)
        return check_bytes(key, data)

    def _locate(self, key: str) -> str:
        with self._found(key) as file, os.fdopen(os.dup(file), "rb") as opened:
            if key_of_file(opened) != key:
                raise BlobCorrupt(f"blob {key} is damaged: its content has changed")
        return str(self._folder / key[:2] / key[2:])

    def _found_below(self, folder: str) -> list[Blob]:
        found = []
        for name in self._names(self._folder / folder):
            path = self._folder / folder / name
            with suppress(FileNotFoundError):
                about = path.stat(follow_symlinks=False)
                if is_key(folder + name) and stat.S_ISREG(about.st_mode):
                    found.append(Blob(folder + name, about.st_size, about.st_mtime))
        return found

    def _remove(self, key: str, before: float) -> bool:
        with suppress(FileNotFoundError), self._locked(fcntl.LOCK_EX):
            path = self._folder / key[:2] / key[2:]
            if path.stat(follow_symlinks=False).st_mtime < before:
                path.unlink()
                return True
        return False

    @staticmethod
    def _names(folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    @contextmanager
    def _writing(self, key: str) -> Iterator[int]:
        """Open the folder of a blob and lock it against ``remove``."""
        try:
            self._make_folders(key[:2])
            with (
                self._locked(fcntl.LOCK_SH),
                _opened(self._folder / key[:2], _FOLDER) as folder,
            ):
                yield folder
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            kind = "store.full" if full else "store.io"
            raise StoreError(f"blob {key} cannot be stored: {error}", kind) from error

    def _write(self, folder: int, name: str, data: bytes) -> None:
        """Write a draft and rename it: after a crash the blob is whole or missing."""
        draft = os.path.join(self.drafts, f"{secrets.token_hex(8)}{ENDING}")
        try:
            with _opened(draft, _WRITE) as file:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(file, rest) :]
                os.fsync(file)
            os.replace(draft, name, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with _opened(self._folder / "lock", _LOCK) as file:
            fcntl.flock(file, how)
            yield

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
                raise gone(key, self.place) from None
            raise StoreError(f"blob {key}: {error}", "store.io") from error

    def _is_intact(self, key: str) -> bool:
        """Return whether the stored bytes match the key; if not, it is rewritten."""
        try:
            self._load(key)
        except StoreError:
            return False
        return True

    def _make_folders(self, name: str) -> None:
        is_there = (self._folder / name).is_dir() and os.path.isdir(self.drafts)
        if is_there and name in self._synced:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / name).mkdir(mode=0o700, exist_ok=True)
        Path(self.drafts).mkdir(mode=0o700, exist_ok=True)
        for made in (self._folder, self._folder.parent):
            with _opened(made, os.O_RDONLY | os.O_DIRECTORY) as folder:
                os.fsync(folder)
        self._synced.add(name)  # a folder that was there may be of a killed process


@contextmanager
def _opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    file = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _read(file: int) -> bytes:
    parts = []
    while part := os.read(file, 1 << 20):
        parts.append(part)
    return b"".join(parts)
