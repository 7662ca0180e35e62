"""One server with accounts of two teams, which every attack of a module is aimed at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Api, Running


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("server") / "home")
    yield server
    server.stop()


@pytest.fixture
def admin(running: Running) -> Api:
    return Api(running.url, running.token)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    """A server of one test alone."""
    server = Running(tmp_path / "home")
    yield server
    server.stop()
