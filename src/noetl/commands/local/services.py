"""The parts of the cluster of a home, for commands that start, stop and show them."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from noetl.access.binding import is_loopback
from noetl.cluster.nats import NAME as NATS_NAME
from noetl.cluster.nats import Nats
from noetl.cluster.parts import Part
from noetl.cluster.postgres import NAME as POSTGRES
from noetl.cluster.postgres import Postgres
from noetl.commands.targets import own_server
from noetl.config import DATABASE, NATS, Setting, read_settings
from noetl.crew import members
from noetl.engine.times import seconds_of
from noetl.errors import ConfigError, NoetlError
from noetl.home import Home
from noetl.presence import find_server

SILENT = 60.0
"""Seconds after which a worker elsewhere is no longer said to run."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def changing(home: Home) -> Iterator[None]:
    """One command at a time starts or stops parts. Raises ``ConfigError``."""
    try:
        home.make()
        lock = os.open(home.folder / "cluster.lock", _FLAGS, 0o600)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"{home.folder} cannot hold a cluster: {reason}"
        hint = "set NOETL_HOME to a folder of your own"
        raise ConfigError(f"{message}; {hint}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        message = "another noetl up or noetl down is at work"
        raise ConfigError(f"{message} under {home.folder}; wait for it") from None
    finally:
        os.close(lock)


def given_place(setting: Setting[str | None]) -> str | None:
    """Where the settings name an address, if they do; itself it is a secret."""
    value = next(v for v in read_settings() if v.setting is setting)
    return value.place if value.value is not None else None


def place_of(part: Part) -> str:
    return f"127.0.0.1:{part.port} (process {part.pid})"


def parts_of(home: Home) -> dict[str, Any]:
    """The document of the cluster."""
    workers = [
        _part("worker", "runs", f"pool {each.pool}, {each.slots} slots", each.pid)
        for each in members(home.workers)
    ]
    workers += _elsewhere()
    parts = [
        _own(POSTGRES, given_place(DATABASE), Postgres(home).find()),
        _own(NATS_NAME, given_place(NATS), Nats(home).find()),
        _server(home),
        *(workers or [_part("worker", "stopped")]),
    ]
    fine = ("runs", "ready", "given", "silent")
    ready = all(part["state"] in fine for part in parts)
    server = find_server(home.server)
    return {"ready": ready, "url": server.url if server else None, "parts": parts}


def _elsewhere() -> list[dict[str, Any]]:
    """Workers on other machines; of this one's, their files say more."""
    client = own_server()
    try:
        found = [] if client is None else client.get("/api/workers")["workers"]
    except NoetlError:
        return []
    return [
        _part(
            "worker",
            "runs" if time.time() - seconds_of(each["seen_at"]) < SILENT else "silent",
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


def _server(home: Home) -> dict[str, Any]:
    server, client = find_server(home.server), own_server()
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
