"""Services of the local cluster, for commands that start, stop and show them."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noetl.access.request_guard import is_loopback
from noetl.commands.remote.choose_server import own_server
from noetl.config import DATABASE, NATS, Setting, Settings
from noetl.engine.times import seconds_of
from noetl.errors import ConfigError, NoetlError
from noetl.local.home import Home
from noetl.local.process_files import find_server, killed_members, members
from noetl.local.services.nats import NAME as NATS_NAME
from noetl.local.services.nats import Nats
from noetl.local.services.postgres import NAME as POSTGRES
from noetl.local.services.postgres import Postgres
from noetl.local.services.process import Part

SILENT_S = 60.0
"""Seconds after its last report after which a remote worker counts as silent."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def changing(home: Home) -> Iterator[None]:
    """Lock the home, so that one command starts or stops services.

    Raises ``ConfigError``.
    """
    try:
        home.make()
        lock = os.open(home.folder / "cluster.lock", _FLAGS, 0o600)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"{home.folder} cannot hold a cluster: {reason}"
        hint = "set NOETL_HOME to a folder of this user"
        raise ConfigError(f"{message}; {hint}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        message = "another noetl up or noetl down is running"
        raise ConfigError(f"{message} under {home.folder}; wait for it") from None
    finally:
        os.close(lock)


def given_place(settings: Settings, setting: Setting[str | None]) -> str | None:
    """Return where the setting comes from, if it is set; its value is a secret."""
    value = settings.value(setting)
    return value.place if value.value is not None else None


def slot_of(part: Part) -> str:
    return f"127.0.0.1:{part.port} (process {part.pid})"


def parts_of(home: Home, settings: Settings) -> dict[str, Any]:
    """Return the document of the cluster."""
    workers = [
        _part("worker", "runs", f"pool {each.pool}, {each.slots} slots", each.pid)
        for each in members(home.workers)
    ]
    workers += [
        _part("worker", "killed", f"pool {each.pool}, {each.slots} slots", each.pid)
        for each in killed_members(home.workers)
    ]
    workers += _elsewhere(settings)
    parts = [
        _own(POSTGRES, given_place(settings, DATABASE), Postgres(home).find()),
        _own(NATS_NAME, given_place(settings, NATS), Nats(home).find()),
        _server(settings, home),
        *(workers or [_part("worker", "stopped")]),
    ]
    fine = ("runs", "ready", "given", "silent")
    ready = all(part["state"] in fine for part in parts)
    server = find_server(home.server)
    return {"ready": ready, "url": server.url if server else None, "parts": parts}


def _elsewhere(settings: Settings) -> list[dict[str, Any]]:
    """List workers on other machines; those of this machine have their own files."""
    client = own_server(settings)
    try:
        found = [] if client is None else client.get("/api/workers")["workers"]
    except NoetlError:
        return []
    return [
        _part(
            "worker",
            "runs"
            if time.time() - seconds_of(each["seen_at"]) < SILENT_S
            else "silent",
            f"pool {each['pool']}, {each['slots']} slots, at {each['address']}",
        )
        for each in found
        if each["address"] and not is_loopback(each["address"])
    ]


def _own(name: str, given: str | None, part: Part | None) -> dict[str, Any]:
    if given is not None:
        return _part(name, "given", given)
    if part is None:
        return _part(name, "stopped")
    return _part(name, "runs", f"127.0.0.1:{part.port}", part.pid)


def _server(settings: Settings, home: Home) -> dict[str, Any]:
    server, client = find_server(home.server), own_server(settings)
    if server is None or client is None:
        return _part("server", "stopped")
    try:
        ready = client.get("/readyz")["status"] == "ready"
    except NoetlError:
        ready = False
    return _part("server", "ready" if ready else "not ready", server.url, server.pid)


def _part(
    name: str, state: str, place: str | None = None, pid: int | None = None
) -> dict[str, Any]:
    return {"name": name, "state": state, "place": place, "pid": pid}
