"""Backups of a home: one archive, whose last member lists the others with their hashes.

Databases are copied by SQLite's own backup, each as of one moment, and in an order in
which what a later copy knows was known to none before: a trigger's slot without its
execution would be lost, an execution without its trigger's slot is started once. Values
follow the logs that name them.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec

from noetl.adapters.secrets.private_files import make_folder, sync_folder
from noetl.errors import ConfigError
from noetl.local.home import Home

MANIFEST = "manifest.json"
FORMAT = 1
MAX_MANIFEST_BYTES = 256 * 1024 * 1024
_CHUNK = 1 << 20


class Member(msgspec.Struct, frozen=True):
    path: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``keys`` says whether the archive opens the secrets in it; ``database`` is the
    place of a database that has the log, and that the archive does not have."""

    format: int
    noetl: str
    made_at: str
    keys: bool
    database: str | None
    files: list[Member]


def write_backup(
    home: Home, target: Path, *, keys: bool, about: tuple[str, str, str | None]
) -> Manifest:
    """Write the archive, which appears under its name when it is complete.

    ``about`` is the version of NoETL, the time, and the place of a database. Raises
    ``ConfigError``.
    """
    if not home.folder.is_dir():
        raise ConfigError(f"there is no home {home.folder}")
    if target.exists():
        raise ConfigError(f"{target} exists: name another file")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    copies = draft.with_name(draft.name + ".copies")
    try:
        copies.mkdir(mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            with _new_archive(file, target.suffix) as archive:
                files = list(_add_files(archive, home, copies, keys=keys))
                version, made_at, database = about
                manifest = Manifest(
                    format=FORMAT,
                    noetl=version,
                    made_at=made_at,
                    keys=keys,
                    database=database,
                    files=files,
                )
                _add(archive, MANIFEST, io.BytesIO(msgspec.json.encode(manifest)))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, target)
        sync_folder(target.parent)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
        shutil.rmtree(copies, ignore_errors=True)
    return manifest


def _new_archive(file: IO[bytes], suffix: str) -> tarfile.TarFile:
    if suffix in (".gz", ".tgz"):
        return tarfile.open(fileobj=file, mode="w|gz")
    return tarfile.open(fileobj=file, mode="w|")


def _add_files(
    archive: tarfile.TarFile, home: Home, copies: Path, *, keys: bool
) -> Iterator[Member]:
    seen: set[str] = set()

    def add(path: Path) -> Iterator[Member]:
        name = path.relative_to(home.folder).as_posix()
        if name in seen:
            return
        try:
            with path.open("rb") as source:
                seen.add(name)
                yield _add(archive, name, source)
        except FileNotFoundError:  # its execution has ended, or it was replaced
            return

    for path in _files_of(home.sealed):  # of executions that end while we copy
        yield from add(path)
    for path in (home.triggers, home.catalog, home.accounts, *home.logs()):
        if path.is_file():
            with _copy(path, copies) as copy, copy.open("rb") as source:
                yield _add(archive, path.name, source)
    for folder in (home.sealed, home.blobs, home.task_logs):
        for path in _files_of(folder):
            yield from add(path)
    names = ["config.toml", "id", "keychain.json"]
    for name in [*names, "key", "token"] if keys else names:
        yield from add(home.folder / name)


def _files_of(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and path.is_file() and not path.is_symlink():
                yield path


@contextmanager
def _copy(path: Path, copies: Path) -> Iterator[Path]:
    """Provide a copy of a database, as of one moment. Writers are not kept waiting."""
    copy = copies / path.name
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be copied: {error}") from error
    try:
        yield copy
    finally:
        copy.unlink()


def _add(archive: tarfile.TarFile, name: str, source: IO[bytes]) -> Member:
    """Add a file as long as it is now: a task's log may grow while it is copied."""
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    hashed = _Hashed(source)
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    archive.addfile(entry, hashed)
    return Member(name, size, hashed.sum.hexdigest())


class _Hashed:
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.sum = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.sum.update(data)
        return data


def restore_backup(source: Path, home: Home) -> Manifest:
    """Make the home from an archive; it appears when all of it has proved whole.

    Raises ``ConfigError``: also if the home exists and is not empty.
    """
    if home.folder.exists() and any(home.folder.iterdir()):
        message = f"{home.folder} is not empty: move it away, or set NOETL_HOME"
        raise ConfigError(message)
    parent = home.folder.absolute().parent
    draft = parent / f".{home.folder.name}.{secrets.token_hex(8)}"
    try:
        make_folder(draft)
        manifest = _unpack(source, draft)
        for path in draft.glob("*.db"):
            _check_database(path)
        if home.folder.exists():
            home.folder.rmdir()
        draft.rename(home.folder)
        sync_folder(parent)
    except (OSError, tarfile.TarError, zlib.error, EOFError) as error:
        raise ConfigError(f"{source} cannot be restored: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


def _unpack(source: Path, folder: Path) -> Manifest:
    found: dict[str, Member] = {}
    with tarfile.open(source, mode="r|*") as archive:
        for entry in archive:
            stream = archive.extractfile(entry) if entry.isreg() else None
            if stream is None or not _is_plain(entry.name) or entry.name in found:
                raise ConfigError(
                    f"{source} is not a backup of NoETL: it has '{entry.name[:80]}'"
                )
            if entry.name == MANIFEST:
                manifest = _read_manifest(source, stream.read(MAX_MANIFEST_BYTES))
                break
            found[entry.name] = _write(entry.name, stream, folder)
        else:
            raise ConfigError(f"{source} ends too early, or is not a backup of NoETL")
    listed = {each.path: each for each in manifest.files}
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) != found.get(name):
            raise ConfigError(f"{source} is damaged: {name} is not what was backed up")
    return manifest


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _read_manifest(source: Path, data: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{source} is not a backup of NoETL: {error}") from None
    if manifest.format != FORMAT:
        message = f"{source} has format {manifest.format}, and this NoETL knows"
        raise ConfigError(f"{message} {FORMAT}: use NoETL {manifest.noetl} or newer")
    return manifest


def _write(name: str, stream: IO[bytes], folder: Path) -> Member:
    path = folder / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hashed, size = _Hashed(stream), 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        while data := hashed.read(_CHUNK):
            size += file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return Member(name, size, hashed.sum.hexdigest())


def _check_database(path: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as db:
            [(found,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise ConfigError(f"{path.name} of the backup is damaged: {found}")
