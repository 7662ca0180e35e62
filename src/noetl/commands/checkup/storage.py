"""The home: whether it can be written, who else can read it, how much room is left."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from noetl.adapters.stores.sqlite.mounts import refuse_network
from noetl.commands.checkup.finding import Finding
from noetl.errors import StoreError
from noetl.home import Home

_MIB = 1024 * 1024
_LITTLE = 1024 * _MIB
_TOO_LITTLE = 64 * _MIB


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
        cure = "give yourself the right to write there, or set NOETL_HOME"
        return Finding("home", "problem", why, cure)
    made = "" if place == folder else " (made by the first run)"
    return Finding("home", "ok", f"{folder}{made}")


def judge_access(folder: Path, mode: int, owner: int, user: int) -> Finding:
    """Logs and results are its user's alone."""
    shown = f"{stat.S_IMODE(mode):04o}"
    if owner != user:
        message = f"the home belongs to user {owner}, you are user {user}"
        cure = f"use a home of your own: set NOETL_HOME, or chown {user} {folder}"
        return Finding("access", "warning", message, cure)
    if mode & 0o077:
        message = f"{shown}: other users of this machine can look into the home"
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
    cure = "make room, or set NOETL_HOME to a larger disk"
    if free < _TOO_LITTLE:
        return Finding("disk", "problem", shown, cure)
    if free < _LITTLE:
        return Finding("disk", "warning", shown, cure)
    return Finding("disk", "ok", shown)
