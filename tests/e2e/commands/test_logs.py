"""A log that another command has for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.connection import Lock
from noetl.commands.local.logs import RETRY_DELAYS_S, find_listener, open_alone
from noetl.errors import StoreError


class Waits:
    """Notes for how long somebody waits, and does something meanwhile."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.seconds: list[float] = []
        self._meanwhile = meanwhile

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._meanwhile()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    SqliteStore.open(path).close_now()
    return path


@pytest.mark.spec("S-45")
def test_a_second_command_waits_for_the_log(log: Path) -> None:
    waits = Waits(Lock(log).release)
    store = asyncio.run(open_alone(log, waits))
    store.close_now()
    assert waits.seconds == [RETRY_DELAYS_S[0]]


@pytest.mark.spec("S-45")
def test_one_who_takes_orders_has_it_for_long(log: Path) -> None:
    lock, waits = Lock(log), Waits()
    lock.publish_address("/somewhere/log.db.sock")
    with pytest.raises(StoreError, match="is in use by process"):
        asyncio.run(open_alone(log, waits))
    listener = asyncio.run(find_listener(log, waits))
    lock.release()
    assert listener is not None
    assert listener.socket == "/somewhere/log.db.sock"
    assert waits.seconds == []


@pytest.mark.spec("S-45")
def test_waiting_for_the_log_gives_up_after_the_last_delay(log: Path) -> None:
    lock, waits = Lock(log), Waits()
    with pytest.raises(StoreError, match="is in use by process"):
        asyncio.run(open_alone(log, waits))
    lock.release()
    assert waits.seconds == list(RETRY_DELAYS_S)


@pytest.mark.spec("S-45")
def test_no_listener_is_found_once_the_command_has_ended(log: Path) -> None:
    waits = Waits(Lock(log).release)
    assert asyncio.run(find_listener(log, waits)) is None
    assert waits.seconds == [RETRY_DELAYS_S[0]]
