"""One server that every attack of a process is aimed at, with canaries in its home."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from canaries import VARIABLE, Canaries
from servers import Api, Running

from noetl.runtime.event_loop import tune_interpreter


@pytest.fixture(scope="session")
def canaries() -> Canaries:
    """The secrets that no attacker may see."""
    return Canaries()


@pytest.fixture(scope="session", autouse=True)
def seldom_collected() -> Iterator[None]:
    """Tune the interpreter as in the process of a server: objects of other tests would
    stall it otherwise."""
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.freeze()
    tune_interpreter()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture(scope="session")
def running(
    tmp_path_factory: pytest.TempPathFactory, canaries: Canaries
) -> Iterator[Running]:
    """The server; when it stops, no answer and no log line may hold a canary."""
    home = tmp_path_factory.mktemp("server") / "home"
    home.mkdir(mode=0o700)
    canaries.plant_home(home)
    os.environ[VARIABLE] = canaries.plant("a variable of the server")
    try:
        server = Running(home, answer_links=True)
        canaries.learn_server(server)
        with canaries.recording():
            yield server
        server.stop()
    finally:
        del os.environ[VARIABLE]
    canaries.check()


@pytest.fixture
def admin(running: Running) -> Api:
    return Api(running.url, running.token)


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Running]:
    """A server of one test alone."""
    server = Running(tmp_path / "home")
    yield server
    server.stop()
