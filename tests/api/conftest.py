"""One server for all tests of a module, and one who holds its token."""

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
def api(running: Running) -> Api:
    return Api(running.url, running.token)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Api]:
    """A server of one's own."""
    server = Running(tmp_path / "home")
    yield Api(server.url, server.token)
    server.stop()
