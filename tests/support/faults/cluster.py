"""A cluster of real processes: servers, workers, PostgreSQL and NATS, each of which may
die at any moment. Whoever died is started again, as a supervisor would."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.private_files import make_token
from noetl.local.home import Home
from noetl.local.services.nats import Nats
from noetl.local.services.postgres import Postgres

TTL = 2.0
SLOTS = 6
NATS, POSTGRES = "nats", "postgres"
HUNG = 60.0
LAST_WORDS = 40
"""Lines."""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until a server listens on this port."""
    deadline = time.monotonic() + HUNG
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "a server does not start"
            time.sleep(0.05)


class Cluster:
    """Its parts have names: ``server0``, ``worker0``, ``nats``, ``postgres``.

    Without NATS the servers are told of one that does not exist. Workers ask the
    servers that there are when they start, each of them another one first.
    """

    def __init__(
        self,
        folder: Path,
        servers: int,
        workers: int,
        *,
        nats: bool,
        ttl: float = TTL,
        slots: int = SLOTS,
        code: Path | None = None,
    ) -> None:
        self.home = Home(folder)
        self.home.make()
        self.elsewhere = folder / "elsewhere"  # the workers' home
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.exits: list[str] = []
        self.has_nats = nats
        self.database = self.server_database = ""
        self._postgres, self._nats = Postgres(self.home), Nats(self.home)
        self._ports: list[int] = []
        self._slots = slots
        self.code = code
        """The folder of the code of processes that are started, if not this one."""
        self.urls: list[str] = []
        self.servers: list[str] = []
        self.workers: list[str] = []
        bus = self._open_services()
        self.token = make_token(self.home.token)
        Cipher(self.home.key).make()
        self._environ = {
            **os.environ,
            "NOETL_DATABASE": self.server_database,
            "NOETL_DATABASE_OWNER": self.database,
            "NOETL_NATS": bus,
            "NOETL_LEASE_TTL": f"{ttl:g}",
            "NOETL_RESULTS_URL": f"file://{folder}/results",
            "NOETL_TOKEN": self.token,
            "NOETL_KEYCHAIN_KEY": f"file:{self.home.key}",
            "NOETL_NETWORK_PRIVATE": "allow",  # peers of tests are on loopback
        }
        for _ in range(servers):
            self.add_server()
        for _ in range(workers):
            self.add_worker()

    def _open_services(self) -> str:
        """Start PostgreSQL and NATS; return the address of NATS."""
        self._postgres.start()
        bus = f"nats://127.0.0.1:{free_port()}"
        if self.has_nats:
            self._nats.start()
            bus = self._nats.address() or ""
        self._postgres.divide()
        self.database = self._postgres.owner_address() or ""
        self.server_database = self._postgres.address() or ""
        return bus

    def add_server(self) -> None:
        port, name = free_port(), f"server{len(self.servers)}"
        self._ports.append(port)
        self.urls.append(f"http://127.0.0.1:{port}")
        self.servers.append(name)
        self.start(name)
        wait_for(port)

    def add_worker(self) -> None:
        name = f"worker{len(self.workers)}"
        self.workers.append(name)
        self.start(name)

    @property
    def parts(self) -> list[str]:
        others = [NATS, POSTGRES] if self.has_nats else [POSTGRES]
        return [*self.servers, *self.workers, *others]

    def start(self, name: str) -> None:
        if name == POSTGRES:
            self._postgres.start()
            return
        if name == NATS:
            self._nats.start()
            return
        with self._output_of(name).open("ab") as output:
            self.processes[name] = subprocess.Popen(
                self.command_of(name),
                env=self.environ_of(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def command_of(self, name: str) -> list[str]:
        command = [sys.executable, "-m", "noetl"]
        if name.startswith("server"):
            port = str(self._ports[int(name.removeprefix("server"))])
            return [*command, "server", "start", "--foreground", "--port", port]
        command += ["worker", "start", "--foreground", "--slots", str(self._slots)]
        first = int(name.removeprefix("worker")) % len(self.urls)
        for url in [*self.urls[first:], *self.urls[:first]]:
            command += ["--server", url]
        return command

    def environ_of(self, name: str) -> dict[str, str]:
        code = {} if self.code is None else {"PYTHONPATH": str(self.code)}
        if name.startswith("server"):
            home = self._home_of(int(name.removeprefix("server")))
            return {**self._environ, **code, "NOETL_HOME": str(home)}
        # As on another machine: it knows its servers, and nothing behind them.
        hidden = ("NOETL_DATABASE", "NOETL_DATABASE_OWNER", "NOETL_NATS")
        known = {key: text for key, text in self._environ.items() if key not in hidden}
        return {**known, **code, "NOETL_HOME": str(self.elsewhere)}

    def _output_of(self, name: str) -> Path:
        return self.home.folder / f"{name}.txt"

    def _home_of(self, number: int) -> Path:
        """A home for each server, with one token for all."""
        if number == 0:
            return self.home.folder
        home = self.home.folder / f"home{number}"
        if not home.exists():
            home.mkdir()
            shutil.copy(self.home.token, home / "token")
        return home

    def pid_of(self, name: str) -> int:
        if name in (POSTGRES, NATS):
            part = (self._postgres if name == POSTGRES else self._nats).find()
            assert part is not None, name
            return part.pid
        return self.processes[name].pid

    def kill(self, name: str) -> None:
        """Without a word (`kill -9`)."""
        os.kill(self.pid_of(name), signal.SIGKILL)
        if name in self.processes:
            self.processes[name].wait()
        else:
            self._gone(name)

    def _gone(self, name: str) -> None:
        part = self._postgres if name == POSTGRES else self._nats
        deadline = time.monotonic() + HUNG
        while part.find() is not None:  # its children hold the lock a moment longer
            assert time.monotonic() < deadline, f"{name} does not die"
            time.sleep(0.01)

    def replace(self, name: str, code: Path | None) -> None:
        """Stop a server or worker as an operator does, and start it with other code."""
        process = self.processes[name]
        process.send_signal(signal.SIGTERM)
        process.wait(HUNG)
        self.code = code
        self.start(name)
        if name in self.servers:
            self.await_server(self.servers.index(name))

    def wipe_nats(self) -> None:
        """NATS forgets everything that it ever knew."""
        self.kill(NATS)
        shutil.rmtree(self.home.folder / "nats" / "streams", ignore_errors=True)
        self.start(NATS)

    def stop(self, name: str) -> int:
        """End it as an operator does; return its exit code."""
        process = self.processes[name]
        process.terminate()
        return process.wait(HUNG)

    def freeze(self, name: str) -> None:
        os.kill(self.pid_of(name), signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.kill(self.pid_of(name), signal.SIGCONT)

    def supervise(self) -> None:
        """Start again whoever ended by itself; its last words are remembered."""
        for name, process in list(self.processes.items()):
            code = process.poll()
            if code is not None:
                said = self._output_of(name).read_text(errors="replace").splitlines()
                self.exits.append("\n".join([f"{name}: {code}", *said[-LAST_WORDS:]]))
                self.start(name)

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        if self.has_nats:
            self._nats.stop()
        self._postgres.stop()

    def await_server(self, number: int) -> None:
        wait_for(self._ports[number])
