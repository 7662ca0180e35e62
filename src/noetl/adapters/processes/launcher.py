"""Processes by way of the launcher, which forks, kills and reaps them for us."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from noetl.adapters.processes.capture import KEPT, Capture
from noetl.adapters.processes.environment import clean_environment
from noetl.errors import ToolError

ENTRY = Path(__file__).with_name("noetl_child") / "__main__.py"
INTERPRETER = (sys.executable, "-I", "-X", "utf8", str(ENTRY))
_PACKET = 4096
_KILLED = -9


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to start: a ``program``, or a server of python calls, which executions may
    have ``shared``. What is ``filtered`` cannot make all system calls; bubblewrap must,
    and filters those of its program itself."""

    environment: Mapping[str, str]
    program: Sequence[str] | None = None
    folder: str | None = None
    memory: int | None = None
    disk: int | None = None
    shared: bool = False
    filtered: bool = True


class _Answer(msgspec.Struct):
    started: int | None = None
    exited: int | None = None
    failed: int | None = None
    status: int = 0
    why: str = ""
    pid: int = 0


class Process:
    """A process of somebody else's code, with all that it starts itself."""

    def __init__(self, launcher: Launcher, number: int, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.pid = 0
        self.failure = ""  # why it never came to be
        self.stdout, self.stderr = Capture(limit), Capture(limit)
        self.started: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()
        self._launcher = launcher

    def kill(self) -> None:
        """End it with its group and its daemons; ``wait`` says when that is done."""
        self._launcher.kill(self)

    async def wait(self) -> int:
        """Its exit code, negative if a signal ended it; nothing of it runs then."""
        return await asyncio.shield(self.exited)

    def close(self) -> None:
        self.stdout.close()
        self.stderr.close()


class Launcher:
    """Starts processes; started itself with the first one, and anew if it dies."""

    def __init__(self) -> None:
        self._control: socket.socket | None = None
        self._program: subprocess.Popen[bytes] | None = None
        self._processes: dict[int, Process] = {}
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        self._unsent: deque[Process] = deque()  # whose orders are in the queue
        self._number = 0

    async def start(
        self,
        order: Order,
        *,
        stdin: int | None = None,
        limit: int = KEPT,
        more: Sequence[int] = (),
    ) -> Process:
        """Wait until it runs; ``more`` are its open files after the standard streams.
        Being cancelled ends it again first."""
        process = self.launch(order, stdin=stdin, limit=limit, more=more)
        try:
            await process.started
        except BaseException:
            process.kill()
            try:
                await process.wait()
            finally:
                process.close()
            raise
        return process

    def launch(
        self,
        order: Order,
        *,
        stdin: int | None = None,
        channel: Sequence[int] = (),
        limit: int = KEPT,
        more: Sequence[int] = (),
    ) -> Process:
        """Have it forked; takes over the open files. That it fails shows in its end."""
        files = [
            written(msgspec.json.encode(order)),
            os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin,
        ]
        return self._fork("program", files, [*channel, *more], limit)

    def launch_server(self, channel: Sequence[int]) -> Process:
        """One that waits in the channel for its order, and then for calls."""
        return self._fork("server", [], channel, KEPT)

    def _fork(
        self, role: str, files: Sequence[int], channel: Sequence[int], limit: int
    ) -> Process:
        control = self._connect()
        self._number += 1
        process = Process(self, self._number, limit)
        self._processes[process.number] = process
        given = [*files, process.stdout.give(), process.stderr.give(), *channel]
        self._queue.append((msgspec.json.encode({role: process.number}), given))
        self._unsent.append(process)
        self._flush(control)
        return process

    def kill(self, process: Process) -> None:
        if process.number in self._processes and self._control is not None:
            self._queue.append((msgspec.json.encode({"kill": process.number}), []))
            self._flush(self._control)

    async def close(self) -> None:
        """End all processes, and the launcher with them; leaves no zombie."""
        program = self._program
        if self._control is not None:
            self._disconnect()
        if program is not None:
            await ended(program)
            self._program = None
        self._forget()

    def _connect(self) -> socket.socket:
        if self._control is not None:
            return self._control
        if self._program is not None:
            self._program.wait()  # it has closed its end, so it is at its end
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        # From this thread: its end, not only the worker's, would kill the launcher. In
        # a session of its own: Ctrl-C is the worker's to answer.
        with theirs:
            self._program = subprocess.Popen(
                [*INTERPRETER, "launch", str(os.getpid())],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=clean_environment(),
                start_new_session=True,
            )
        asyncio.get_running_loop().add_reader(ours, self._read, ours)
        self._control = ours
        return ours

    def _read(self, control: socket.socket) -> None:
        while True:
            try:
                packet = control.recv(_PACKET)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._disconnect()
                self._forget()
                return
            self._note(msgspec.json.decode(packet, type=_Answer))

    def _note(self, answer: _Answer) -> None:
        if answer.started is not None:
            process = self._processes[answer.started]
            process.pid = answer.pid
            if not process.started.done():
                process.started.set_result(None)
        elif answer.exited is not None:
            _end(self._processes.pop(answer.exited), answer.status)
        elif answer.failed is not None:
            _end(self._processes.pop(answer.failed), _KILLED, answer.why)

    def _flush(self, control: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            packet, files = self._queue[0]
            try:
                socket.send_fds(control, [packet], files)
            except BlockingIOError:
                loop.add_writer(control, self._flush, control)
                return
            except OSError:  # the launcher is gone: reading says so, and forgets all
                pass
            self._queue.popleft()
            if files:  # an order, not a kill
                self._unsent.popleft()
            for file in files:
                os.close(file)
        loop.remove_writer(control)

    def _disconnect(self) -> None:
        assert self._control is not None
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._control)
        loop.remove_writer(self._control)
        self._control.close()
        self._control = None

    def _forget(self) -> None:
        """Without the launcher nothing lives that it started (``PDEATHSIG``). What was
        sent may have run: that nobody said so does not mean that it did not."""
        for _, files in self._queue:
            for file in files:
                os.close(file)
        self._queue.clear()
        while self._processes:
            _, process = self._processes.popitem()
            if process not in self._unsent and not process.started.done():
                process.started.set_result(None)
            _end(process, _KILLED, "the launcher of processes has ended")
        self._unsent.clear()


def _end(process: Process, status: int, why: str = "") -> None:
    if not process.started.done():
        process.failure = why
        process.started.set_exception(
            ToolError("tool.exit", f"no process was started: {why}", retryable=True)
        )
        process.started.exception()  # its caller may have been cancelled
    if not process.exited.done():
        process.exited.set_result(status)


def written(data: bytes) -> int:
    """A file in memory, to be read from its start: nobody must feed a reader."""
    file = os.memfd_create("noetl")
    with open(file, "wb", closefd=False) as writer:
        writer.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


async def ended(program: subprocess.Popen[bytes]) -> None:
    """Wait for it without blocking the loop, and reap it."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(program.pid)
        loop.add_reader(pidfd, over.cancel)
        try:
            await asyncio.wait((over,))
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
    program.wait()
