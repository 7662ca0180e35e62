"""Launcher: one small process from which all others are forked.

Python takes 20 ms to start, a fork of a running interpreter takes 2 ms. The launcher
has a single thread, so that forking is safe. It alone signals and reaps its children,
so that it never signals a reused process id. Orders are packets, ``{"program": id}``
and ``{"server": id}`` with open files, or ``{"kill": id}``; answers are ``started``,
``failed`` and ``exited``. The first file of a program describes it; a server reads its
order from its channel later.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from .rlimits import adopt_orphans, die_with, limit
from .seccomp import install
from .serve import NO_MEMORY, Server, prepare

PACKET = 4096
FILES = 9  # at most: an order, standard streams, a channel, a sandbox
OPEN = 4096  # more than the launcher ever has open
ROUNDS = 10_000
NOT_FOUND, NOT_RUNNABLE, BROKEN = 127, 126, 70
Become = Callable[[list[int], int], NoReturn]


class Launcher:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._pids: dict[int, int] = {}  # order -> pid
        self._watched: dict[int, int] = {}  # pidfd -> order

    def run(self) -> None:
        """Serve orders until the worker is gone, then kill all processes."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._watched:
                    self._bury(descriptor)
                elif not self._obey():
                    for pidfd in list(self._watched):
                        self._kill(self._pids[self._watched[pidfd]])
                        self._bury(pidfd)
                    return

    def _obey(self) -> bool:
        try:
            packet, files, _, _ = socket.recv_fds(self._control, PACKET, FILES)
        except ConnectionResetError:  # the worker left before it read our last answer
            return False
        if not packet:
            return False
        order = json.loads(packet)
        if "kill" in order:
            if order["kill"] in self._pids:
                self._kill(self._pids[order["kill"]])
            return True
        [(role, number)] = order.items()
        become = become_program if role == "program" else become_server
        try:
            self._start(number, files, become)
        except OSError as error:
            self._say({"failed": number, "why": error.strerror})
        finally:
            for file in files:
                os.close(file)
        return True

    def _start(self, number: int, files: list[int], become: Become) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(files, parent)
        pidfd = os.pidfd_open(pid)
        self._poll.register(pidfd, select.POLLIN)
        self._pids[number] = pid
        self._watched[pidfd] = number
        self._say({"started": number, "pid": pid})

    def _kill(self, pid: int) -> None:
        # The child is not reaped yet, so the numbers are still those of its group.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)

    def _bury(self, pidfd: int) -> None:
        """Reap a dead child, and kill its group and its daemons."""
        number = self._watched.pop(pidfd)
        pid = self._pids.pop(number)
        self._poll.unregister(pidfd)
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOWAIT)
        self._kill(pid)
        _, status = os.waitpid(pid, 0)
        os.close(pidfd)
        self._sweep()
        self._say({"exited": number, "status": os.waitstatus_to_exitcode(status)})

    def _sweep(self) -> None:
        """Kill the adopted orphans: descendants of the dead that left its group."""
        for _ in range(ROUNDS):  # a fork bomb starts more during a round
            strays = children(os.getpid()) - set(self._pids.values())
            if not strays:
                return
            for pid in strays:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def _say(self, answer: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the worker is gone: the next read notices
            self._control.send(json.dumps(answer).encode())


def children(pid: int) -> set[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return {int(text) for text in file.read().split()}
    except OSError:  # a kernel without this file: only the group is killed
        return set()


def become_program(files: list[int], parent: int) -> NoReturn:
    """Execute the program of the order in the forked child; never returns."""
    try:
        leave_home(parent)
        with open(files[0], "rb", closefd=False) as file:
            order = json.load(file)
        put_on(files[1:])
        if order["folder"] is not None:
            os.chdir(order["folder"])
        limit(order["memory"], order["disk"], order["processes"])
        if order["filtered"]:
            install()
        execute(order["program"], order["environment"])
    except BaseException as error:
        complain(error)


def become_server(files: list[int], parent: int) -> NoReturn:
    """Run a server in the forked child; standard input stays empty."""
    try:
        leave_home(parent)
        put_on([0, *files])
        Server().run()
    except MemoryError:
        os._exit(NO_MEMORY)
    except BaseException as error:
        complain(error)


def leave_home(parent: int) -> None:
    os.setsid()
    die_with(parent)
    adopt_orphans()


def put_on(files: list[int]) -> None:
    """Make these files the descriptors from 0 on, and close all others."""
    for target, source in enumerate(files):
        os.dup2(source, target)
        os.set_inheritable(target, True)
    os.closerange(len(files), OPEN)


def complain(error: BaseException) -> NoReturn:
    os.write(2, f"noetl: cannot start: {error}\n".encode())
    os._exit(BROKEN)


def execute(program: list[str], environment: dict[str, str]) -> NoReturn:
    # Python ignores these signals; programs expect the default action.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvpe(program[0], program, environment)
    except OSError as error:
        os.write(2, f"noetl: {program[0][:200]}: {error.strerror}\n".encode())
        missing = isinstance(error, FileNotFoundError)
        os._exit(NOT_FOUND if missing else NOT_RUNNABLE)


def main(parent: int) -> None:
    """Run the launcher; its standard input is the control socket."""
    die_with(parent)
    adopt_orphans()
    control = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _, writer = os.pipe()  # pipes as in servers, so that streams are set up alike
    for file in (1, 2):
        os.dup2(writer, file)
    prepare()
    gc.collect()
    gc.freeze()  # a collection in a child would copy the pages of these objects
    Launcher(socket.socket(fileno=control)).run()
