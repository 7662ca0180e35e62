"""PostgreSQL as operators run it: with a standby, or behind a pooler."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from databases import PASSWORD
from peers.postgres import (
    SETTINGS,
    die_with_parent,
    find_programs,
    initialize,
    reachable,
    whom_to_be,
)

POOLER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
READY = "database system is ready to accept"


class Node:
    """One server of the pair."""

    def __init__(self, programs: Path, data: Path, user: dict[str, Any]) -> None:
        self.data = data
        self._log = data.with_suffix(".log")
        self._programs = programs
        self._user = user
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self.data)]
        own = {"port": str(self.port), "wal_retrieve_retry_interval": "100ms"}
        for name, value in {**SETTINGS, **own}.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                cwd=self.data.parent,
                preexec_fn=die_with_parent,
                **self._user,
            )

    def stop(self) -> None:
        """Stop it as an operator does: connections are told, and closed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """Kill it without a word (``kill -9``)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def copy(self, origin: Node) -> None:
        """Replace the data by a copy of a primary's, to be its standby."""
        shutil.rmtree(self.data, ignore_errors=True)
        command = [str(self._programs / "bin" / "pg_basebackup"), "-h", "127.0.0.1"]
        command += ["-R", "-p", str(origin.port), "-U", "postgres"]
        command += ["-D", str(self.data), "-c", "fast", "--no-sync"]
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            cwd=self.data.parent,
            **self._user,
        )

    def is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "PostgreSQL has ended"
        return READY in self._log.read_text()

    def await_ready(self) -> None:
        while not self.is_ready():
            assert self._process is not None
            try:
                self._process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue


class Pair:
    """A primary and its standby; ``address`` names both."""

    def __init__(self, primary: Node, standby: Node) -> None:
        self.primary = primary
        self.standby = standby

    def swap(self) -> None:
        """Take the standby for the primary from now on, after its promotion."""
        self.primary, self.standby = self.standby, self.primary

    @property
    def address(self) -> str:
        secret = quote(PASSWORD, safe="")
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://postgres:{secret}@{hosts}/postgres"

    def address_of(self, node: Node) -> str:
        secret = quote(PASSWORD, safe="")
        return f"postgresql://postgres:{secret}@127.0.0.1:{node.port}/postgres"


@contextmanager
def replicated() -> Iterator[Pair]:
    """Start a primary and its standby; remove them in the end."""
    folder = Path(tempfile.mkdtemp(prefix="noetl-replicas-"))
    nodes: list[Node] = []
    os.environ["PGPASSWORD"] = PASSWORD
    try:
        user = whom_to_be()
        if user:
            folder.chmod(0o755)
            os.chown(folder, user["user"], user["group"])
        programs = reachable(find_programs(), folder, user)
        initialize(programs, folder, user)
        nodes.append(Node(programs, folder / "data", user))
        nodes[0].start()
        nodes[0].await_ready()
        nodes.append(Node(programs, folder / "copy", user))
        nodes[1].copy(nodes[0])
        nodes[1].start()
        nodes[1].await_ready()
        yield Pair(*nodes)
    finally:
        del os.environ["PGPASSWORD"]
        for node in nodes:
            node.stop()
        shutil.rmtree(folder, ignore_errors=True)


POOL = """
[databases]
postgres = host=127.0.0.1 port={target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = 3
"""


@contextmanager
def pooled(address: str, mode: str = "session") -> Iterator[str]:
    """Start PgBouncer in front of a database; return the address through it.

    It has three sessions, fewer than a server opens connections.
    """
    assert POOLER is not None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        target = urlsplit(address).port
        settings = POOL.format(target=target, port=port, folder=folder, mode=mode)
        (folder / "users").write_text(f'"postgres" "{PASSWORD}"\n')
        (folder / "pool.ini").write_text(settings)
        pooler = subprocess.Popen(
            [POOLER, "pool.ini"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            preexec_fn=die_with_parent,
            **whom_to_be(),
        )
        stack.enter_context(pooler)
        stack.callback(pooler.kill)
        assert pooler.stderr is not None
        while "process up" not in pooler.stderr.readline():
            assert pooler.poll() is None, "PgBouncer has ended"
        yield address.replace(f":{target}/", f":{port}/")
