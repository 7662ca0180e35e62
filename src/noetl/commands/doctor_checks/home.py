"""Checks of the home: its access rights, its free space, its services and logs."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.adapters.stores.sqlite.connection import (
    Holder,
    connect_reader,
    find_holder,
    refuse_network,
    translated,
)
from noetl.adapters.stores.sqlite.schema import check_version, newest_version
from noetl.commands.doctor_checks import Finding, Status
from noetl.commands.local.services import parts_of
from noetl.config import DATABASE, Settings, read_plugins
from noetl.errors import NoetlError, StoreError
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.local.process_files import find_server

if TYPE_CHECKING:
    from noetl.adapters.database_roles import Role


_MIB = 1024 * 1024
_LOW_BYTES = 1024 * _MIB
_MIN_BYTES = 64 * _MIB


def check_home(home: Home) -> Iterator[Finding]:
    folder = home.folder.absolute()
    yield _writable(folder)
    if folder.is_dir():
        about = folder.stat()
        yield judge_access(folder, about.st_mode, about.st_uid, os.geteuid())
    yield _local(folder)
    existing = nearest_existing(folder)
    yield judge_space(existing, shutil.disk_usage(existing).free)


def nearest_existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _writable(folder: Path) -> Finding:
    if folder.exists() and not folder.is_dir():
        cure = "move it away, or set NOETL_HOME to a folder"
        return Finding("home", "problem", f"{folder} is not a folder", cure)
    place = nearest_existing(folder)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        why = f"{place} cannot be written: {error.strerror}"
        cure = "give this user the right to write there, or set NOETL_HOME"
        return Finding("home", "problem", why, cure)
    made = "" if place == folder else " (created by the first run)"
    return Finding("home", "ok", f"{folder}{made}")


def judge_access(folder: Path, mode: int, owner: int, user: int) -> Finding:
    """Check that only this user can read the logs and results of the home."""
    shown = f"{stat.S_IMODE(mode):04o}"
    if owner != user:
        message = f"the home belongs to user {owner}, this user is {user}"
        cure = f"use a home of your own: set NOETL_HOME, or chown {user} {folder}"
        return Finding("access", "warning", message, cure)
    if mode & 0o077:
        message = f"{shown}: other users of this machine can read the home"
        return Finding("access", "warning", message, f"chmod 700 {folder}")
    return Finding("access", "ok", shown)


def _local(folder: Path) -> Finding:
    try:
        refuse_network(folder.resolve())
    except StoreError as error:
        cure = "set NOETL_HOME to a folder on a local disk"
        return Finding("file system", "problem", str(error), cure)
    return Finding("file system", "ok", "local")


def judge_space(place: Path, free: int) -> Finding:
    shown = f"{free / (1024 * _MIB):.1f} GiB free at {place}"
    cure = "free some space, or set NOETL_HOME to a larger disk"
    if free < _MIN_BYTES:
        return Finding("disk", "problem", shown, cure)
    if free < _LOW_BYTES:
        return Finding("disk", "warning", shown, cure)
    return Finding("disk", "ok", shown)


_CURES = {
    "store.corrupt": "move the file away, or restore it from a backup",
    "store.migration": "restore the file from a backup",
    "store.version": "upgrade NoETL to the version that wrote it",
    "store.readonly": "give this user the right to read the file and its folder",
}
_MAX_SKEW_S = 60.0


def check_logs(home: Home, now: float) -> Iterator[Finding]:
    logs = home.logs()
    if not logs:
        message = "in the database of the cluster" if home.has_cluster else "none yet"
        yield Finding("logs", "ok", message)
    for path in logs:
        try:
            yield _check(path)
        except (StoreError, OSError) as error:
            kind = error.kind if isinstance(error, StoreError) else "store.readonly"
            yield Finding(path.name, "problem", str(error), _CURES.get(kind))
    newest = max((path.stat().st_mtime for path in logs), default=0.0)
    if newest > now + _MAX_SKEW_S:
        moment = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M:%S} UTC"
        message = f"a log was written at {moment}, which is in the future"
        cure = "set the clock, for instance by a time service (NTP)"
        yield Finding("clock", "warning", message, cure)


def _check(path: Path) -> Finding:
    with translated(path), closing(connect_reader(path)) as db:
        version = check_version(db, path, newest_version())
        count = _count(db) if version else 0
    return judge_log(path.name, version, count, _words(find_holder(path)))


def _count(db: sqlite3.Connection) -> int:
    """Count executions by the largest number: numbers have no gaps, O(log n)."""
    (largest,) = db.execute("SELECT max(number) FROM execution").fetchone()
    return largest or 0


def _words(holder: Holder | None) -> str | None:
    return str(holder) if holder is not None else None


def judge_log(name: str, version: int, executions: int, holder: str | None) -> Finding:
    used = f", in use by {holder}" if holder else ""
    count = "1 execution" if executions == 1 else f"{executions:,} executions"
    shown = f"version {version}, {count}{used}"
    if version < newest_version():
        cure = f"start a noetl run: it brings the log to version {newest_version()}"
        return Finding(name, "warning", shown, cure)
    return Finding(name, "ok", shown)


_START = "start it: noetl up"
_STATES: dict[str, tuple[Status, str | None]] = {
    "runs": ("ok", None),
    "ready": ("ok", None),
    "given": ("ok", None),
    "silent": ("warning", "see noetl worker status"),
    "stopped": ("warning", _START),
    "killed": ("problem", _START),
    "not ready": ("problem", "see its log, in the folder logs of the home"),
}


def check_services(home: Home, settings: Settings) -> Iterator[Finding]:
    """Check the services that this home has started once; none of them is needed by
    ``noetl run``."""
    parts = parts_of(home, settings)["parts"]
    if all(part["state"] in ("stopped", "given") for part in parts):
        if home.has_cluster:
            message = "the cluster is stopped; to start it: noetl up"
            yield Finding("services", "ok", message)
        return
    for part in parts:
        if home.has_cluster or part["state"] not in ("stopped", "given"):
            yield judge_service(part)


def judge_service(part: dict[str, Any]) -> Finding:
    status, cure = _STATES[part["state"]]
    place = f": {part['place']}" if part["place"] is not None else ""
    process = f" (process {part['pid']})" if part["pid"] is not None else ""
    return Finding(part["name"], status, f"{part['state']}{place}{process}", cure)


def check_schedules(home: Home) -> Iterator[Finding]:
    """Check that a home with a server can run schedules."""
    if not home.triggers.is_file() and find_server(home.server) is None:
        return
    if find_spec("cronsim") is None:
        message = "triggers with a schedule cannot run: cronsim is not installed"
        cure = f"{install_command('server')}, then noetl server restart"
        yield Finding("schedules", "warning", message, cure)
    else:
        yield Finding("schedules", "ok", "can run")


_TIMEOUT_S = 10.0
_CHECK = "database"
_RESTORED = "cancel open executions whose calls must not be repeated, then start the "
_RESTORED += "server: it goes on from the restored state"
_CURE = "give servers a role of their own, and set database_owner: see the guide to "
_CURE += "deploying"


def check_database(address: str | None, home: Home | None) -> Iterator[Finding]:
    """Connect and read the role's rights; nothing is written.

    The PostgreSQL of ``noetl up`` needs no check.
    """
    if address is None:
        return
    from noetl.adapters.database_roles import judge_role

    try:
        role, restored = asyncio.run(_look(address, home))
    except (NoetlError, TimeoutError) as error:
        message = str(error) or f"PostgreSQL did not answer in {_TIMEOUT_S:g} s"
        yield Finding(_CHECK, "problem", message, "start it, or correct the address")
        return
    if restored is not None:
        yield Finding(_CHECK, "problem", restored, _RESTORED)
    wrong = judge_role(role)
    if wrong is not None:
        yield Finding(_CHECK, "warning", wrong, _CURE)
    else:
        message = (
            f"answers; the role '{role.name}' may add to the log and not change it"
        )
        yield Finding(_CHECK, "ok", message)


def check_keychain(home: Home, settings: Settings) -> Iterator[Finding]:
    """Check that the key of this home or setting opens the keychain of its servers'
    database; nothing is made or written."""
    address = settings[DATABASE]
    if address is None:
        return
    cure = "give this machine the same key as the other servers: see keychain_key"
    try:
        count = asyncio.run(_count_keys(home, settings, address))
    except (NoetlError, TimeoutError) as error:
        if not (isinstance(error, StoreError) and error.kind == "store.unreachable"):
            yield Finding("keychain", "problem", str(error) or "no answer", cure)
        return
    opened = f"it opens: {count} key{'' if count == 1 else 's'}"
    message = opened if count else "none yet: the first server makes it"
    left = len(StoredKeychain(home.keychain, Cipher(home.key)).list())
    if left:
        message += f"; in this home are {left} more, which other servers do not see"
        yield Finding("keychain", "warning", message, "run: noetl keychain move")
    else:
        yield Finding("keychain", "ok", message)


async def _count_keys(home: Home, settings: Settings, address: str) -> int:
    from noetl.adapters.postgres import Postgres
    from noetl.adapters.secrets.data_keys import DataKeys
    from noetl.wiring.keyring import master_key

    postgres = Postgres(address, size=1)
    master = master_key(home, settings, read_plugins(settings))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await DataKeys(postgres, master).count()
    finally:
        await postgres.close()


async def _look(address: str, home: Home | None) -> tuple[Role, str | None]:
    from noetl.adapters.database_roles import look_at_role
    from noetl.adapters.postgres import Postgres
    from noetl.wiring.database_mark import find_restored

    postgres = Postgres(address, size=1)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            role = await look_at_role(postgres)
            if home is None:
                return role, None
            return role, await find_restored(home, address, postgres)
    finally:
        await postgres.close()
