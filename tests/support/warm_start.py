"""Starts ``python -m noetl`` by forking a process that has imported NoETL already.

A command of NoETL needs 0.3 s of CPU to import its modules, and the suite runs some
thousands of them. This plug-in changes ``subprocess.Popen`` for this one command line:
a server process, started once per test process, forks itself, and the fork runs the
command with the given arguments, folder, environment and streams. The fork is a child
of the test process (``PR_SET_CHILD_SUBREAPER``), so signals and exit codes are those
of any child.

A command starts cold, in an interpreter of its own, if the test gives it options that a
fork cannot honour (another interpreter or locale, ``PYTHON…`` variables, a
``PYTHONPATH`` with another NoETL, other users, ``preexec_fn``), or the variable
``COLD_START=1``; the tests of start-up time and memory do that, and ``make nightly``
for all.
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLD = "COLD_START"
PATH = "PYTHONPATH"
SERVER = Path(__file__).with_name("fork_server.py")
PROGRAM = [sys.executable, "-m", "noetl"]
KILLED = str(Path(__file__).parents[1] / "e2e" / "kill_points.py")
"""The only other program that starts warm: a run that kills itself."""
MAX_REQUEST = 1 << 20
"""Bytes of a request: arguments and environment."""
PR_SET_CHILD_SUBREAPER = 36

_execute_child = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_signature = inspect.signature(_execute_child)
_PLAIN = {
    "executable": None,
    "preexec_fn": None,
    "shell": False,
    "pass_fds": (),
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
}
"""The options of ``Popen`` that must have these values for a warm start."""


class ForkServer:
    """The process that forks; it ends with the test process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._owner = 0
        self._libc = ctypes.CDLL(None, use_errno=True)

    def fork(self, request: dict[str, Any], streams: list[int]) -> int:
        """Fork a process that runs the request; its pid."""
        data = json.dumps(request).encode()
        assert len(data) < MAX_REQUEST, "too large for one message"
        with self._lock:
            peer = self._connected()
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(peer, [data], streams)
                return int(peer.recv(32))
            finally:
                self._libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _connected(self) -> socket.socket:
        if self._socket is None or self._owner != os.getpid():
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            for end in (ours, its):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MAX_REQUEST)
            process = subprocess.Popen(
                [sys.executable, str(SERVER), str(its.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
            its.close()
            self._socket, self._owner = ours, os.getpid()
            atexit.register(self._stop, ours, process, self._owner)
        return self._socket

    @staticmethod
    def _stop(
        ours: socket.socket, process: subprocess.Popen[bytes], owner: int
    ) -> None:
        if os.getpid() == owner:
            ours.close()
            process.wait()


server = ForkServer()


def is_warm(options: Mapping[str, Any], env: Mapping[str, str]) -> bool:
    """Return whether a fork behaves as a fresh process would with these options."""
    args = options["args"]
    if not isinstance(args, list) or program_of(args) is None:
        return False
    if env.get(COLD) or any(options.get(k, v) != v for k, v in _PLAIN.items()):
        return False
    of_interpreter = {
        name
        for name in {*env, *os.environ}
        if name.startswith(("PYTHON", "LC_", "LANG", "LD_"))
    }
    of_interpreter.discard(PATH)
    if any(env.get(name) != os.environ.get(name) for name in of_interpreter):
        return False
    return not shadows(env.get(PATH, ""))


def program_of(args: list[Any]) -> tuple[str | None, list[str]] | None:
    """Return the script, if it is not NoETL itself, and its arguments."""
    texts = [os.fspath(each) for each in args]
    if texts[:3] == PROGRAM:
        return None, texts[3:]
    if texts[:2] == [sys.executable, KILLED]:
        return KILLED, texts[2:]
    return None


def shadows(path: str) -> bool:
    """Return whether folders of a ``PYTHONPATH`` replace what a fork has imported."""
    return any(
        os.path.exists(os.path.join(folder, name))
        for folder in path.split(os.pathsep)
        if folder
        for name in ("noetl", "sitecustomize.py")
    )


def execute(process: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
    """Start a child of ``subprocess.Popen``, warm if possible."""
    options = _signature.bind(process, *args, **kwargs).arguments
    env = os.environ if options["env"] is None else options["env"]
    if not is_warm(options, env):
        _execute_child(process, *args, **kwargs)
        return
    given = [options["p2cread"], options["c2pwrite"], options["errwrite"]]
    streams = [own if fd == -1 else fd for own, fd in enumerate(given)]
    cwd = options["cwd"]
    if cwd is not None and not os.path.isdir(cwd):
        raise FileNotFoundError(2, os.strerror(2), os.fspath(cwd))
    program = program_of(options["args"])
    assert program is not None
    request = {
        "script": program[0],
        "args": program[1],
        "cwd": os.getcwd() if cwd is None else os.fspath(cwd),
        "env": {name: os.fspath(value) for name, value in env.items()},
        "new_session": bool(options["start_new_session"]),
        "process_group": options.get("process_group", -1),
    }
    process.pid = server.fork(request, streams)
    process._child_created = True  # type: ignore[attr-defined]
    process._close_pipe_fds(  # type: ignore[attr-defined]
        *(options[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite")),
        *(options[name] for name in ("errread", "errwrite")),
    )


def pytest_configure() -> None:
    if not os.environ.get(COLD):
        subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]
