"""Processes started by the launcher, which forks, kills and reaps them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from noetl.adapters.processes.capture import MAX_KEPT_BYTES, Capture
from noetl.adapters.processes.limits import clean_environment
from noetl.errors import ToolError
from noetl.ports.tools import Output

ENTRY = Path(__file__).with_name("noetl_child") / "__main__.py"
INTERPRETER = (sys.executable, "-I", "-X", "utf8", str(ENTRY))
_PACKET = 4096
_KILLED = -9
PROCESSES = 8192  # per user: a fork bomb leaves room for others


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Order to start a ``program``, or a server of Python calls.

    ``shared`` servers serve all executions. ``filtered`` denies some system calls;
    bubblewrap needs them, and filters those of its program itself. ``processes`` is
    the limit for the user, or for the sandbox in which the server receives the order.
    """

    environment: Mapping[str, str]
    program: Sequence[str] | None = None
    folder: str | None = None
    memory: int | None = None
    disk: int | None = None
    processes: int = PROCESSES
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
    """Process that runs code of a playbook, with all its descendants."""

    def __init__(self, launcher: Launcher, number: int, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.pid = 0
        self.failure = ""  # why it could not be started
        self.stdout, self.stderr = Capture(limit), Capture(limit)
        self.started: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()
        self._launcher = launcher

    def log_to(self, output: Output | None) -> None:
        """Add all that it prints to the log of a task."""
        if output is not None:
            self.stdout.feed = partial(self.stdout.pour, output, "stdout")
            self.stderr.feed = partial(self.stderr.pour, output, "stderr")

    def kill(self) -> None:
        """Kill it with its group and its daemons; ``wait`` returns when they ended."""
        self._launcher.kill(self)

    async def wait(self) -> int:
        """Wait until it and its descendants have ended, and return the exit code.

        The code is negative if a signal ended the process.
        """
        return await asyncio.shield(self.exited)

    def close(self) -> None:
        self.stdout.close()
        self.stderr.close()


class Launcher:
    """Starts processes by a launcher, which is restarted if it dies."""

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
        limit: int = MAX_KEPT_BYTES,
        more: Sequence[int] = (),
        output: Output | None = None,
    ) -> Process:
        """Start a process and wait until it runs; kills it if cancelled.

        ``more`` are its open files after the standard streams.
        """
        process = self.launch(order, stdin=stdin, limit=limit, more=more)
        process.log_to(output)
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
        limit: int = MAX_KEPT_BYTES,
        more: Sequence[int] = (),
    ) -> Process:
        """Ask the launcher to fork a process; closes the given files.

        A failure is reported by ``started`` and ``exited`` of the process.
        """
        files = [
            written(msgspec.json.encode(order)),
            os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin,
        ]
        return self._fork("program", files, [*channel, *more], limit)

    def launch_server(self, channel: Sequence[int]) -> Process:
        """Fork a server, which reads its order and then calls from the channel."""
        return self._fork("server", [], channel, MAX_KEPT_BYTES)

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
            self._program.wait()  # it has closed its socket, so it is about to exit
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        # From this thread: PDEATHSIG kills the launcher when the thread that started it
        # ends. In a session of its own: the worker handles Ctrl-C.
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
            except OSError:  # the launcher is gone: ``_read`` notices and cleans up
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
        """Mark all processes as ended: they die with the launcher (``PDEATHSIG``).

        A process whose order was sent may have run, so it counts as started.
        """
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
        process.started.exception()  # marks it as retrieved: the caller may be gone
    if not process.exited.done():
        process.exited.set_result(status)


def written(data: bytes) -> int:
    """Return a file in memory with this content, at its start."""
    file = os.memfd_create("noetl")
    with open(file, "wb", closefd=False) as writer:
        writer.write(data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


async def ended(program: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a program without blocking the loop, and reap it."""
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
