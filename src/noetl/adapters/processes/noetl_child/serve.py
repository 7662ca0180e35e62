"""Server of calls of user code: runs one after another and replies to each."""

from __future__ import annotations

import json
import os
import sys
from fcntl import ioctl
from termios import FIONREAD
from time import perf_counter
from typing import Any, NoReturn

from .calls import CLOSED, HEADER, MODULE, Call, Inbox, Source, call_function, perform
from .faults import OURS, Misfit, explain, fault
from .output import Flusher, prepare_logging
from .rlimits import die_with, limit
from .seccomp import install
from .values import NotJson, encode

STREAMS = ("stdin", "stdout", "stderr")
OUT = 4
MAGIC = b"noe1"
MAX_BYTES = 64 * 1024 * 1024
NO_MEMORY = 87
NOTHING = bytes(4)  # a number of bytes
WARM = 20


def prepare() -> None:
    """Set up what all servers share, before they are forked.

    A page of memory that a child writes to is copied first, which takes longer than
    the write. So streams are made here, and caches are filled by rehearsals.
    """
    sys.argv[:] = [""]
    # Printing half a surrogate pair must not fail.
    streams = (
        open(0, encoding="utf-8", errors="replace"),  # noqa: SIM115
        open(1, "w", encoding="utf-8", errors="backslashreplace"),  # noqa: SIM115
        open(2, "w", 1, encoding="utf-8", errors="backslashreplace"),  # noqa: SIM115
    )
    for name, stream in zip(STREAMS, streams, strict=True):
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    for _ in range(WARM):
        rehearse()


def rehearse() -> None:
    """Do all that a call does, so that caches are filled before the first one."""
    source = Source("def main(x): return [x]")
    if source.is_contained():
        encode(perform(source, json.loads('{"x":1}')), MAX_BYTES)
    environment = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    is_littered()
    is_printed()


class Server:
    """Runs calls. A ``shared`` server runs contained code of any execution.

    Contained code can neither change the process nor see its folder.
    """

    def __init__(self) -> None:
        os.set_inheritable(OUT, False)
        self._inbox = Inbox()
        self._identity = identity()
        self._pid = os.getpid()
        self._shared = self._exhausted = False
        self._streams = sys.stdin, sys.stdout, sys.stderr
        Flusher(sys.stdout)
        rehearse()  # a spare process is idle

    def _obey(self, order: dict[str, Any]) -> None:
        """Apply the order: folder, environment and limits."""
        self._shared = order["shared"]
        if order["folder"] is not None:
            os.chdir(order["folder"])
        limit(order["memory"], order["disk"], order["processes"])
        if order["filtered"]:
            install()
        os.environ.clear()
        os.environ.update(order["environment"])
        self._folder = os.getcwd()
        if not self._shared:
            sys.path.insert(0, self._folder)
            prepare_logging()
        self._path = list(sys.path)
        self._environment = dict(os.environ)
        self._variables = dict(variables())

    def run(self) -> NoReturn:
        self._obey(self._inbox.order())
        while True:
            call = self._inbox.next()
            began = perf_counter()
            if self._shared:
                reply = self._answer_shared(call)
            else:
                self._tidy(call.environment or {})
                reply = self._answer(call)
                self._flush()
                if os.getpid() != self._pid:
                    os._exit(0)  # the code forked: only the parent may answer
                if is_littered():
                    self._inbox.hold()
                    reply += b',"spent":true'
            if is_printed():
                self._inbox.hold()
                reply += b',"printed":true'
            took = (perf_counter() - began) * 1e6
            self._write(b'{"number":%d,"took":%d,%b}' % (call.number, took, reply))

    def _answer_shared(self, call: Call) -> bytes:
        if call.source is None or not call.source.is_contained():
            return b'"foreign":true'
        reply = self._answer(call)
        self._flush()
        sys.modules.pop(MODULE, None)
        if self._exhausted:
            self._inbox.hold()
            reply += b',"spent":true'
        return reply

    def _answer(self, call: Call) -> bytes:
        source = call.source
        try:
            if source is not None:
                value = perform(source, call.args)
            else:
                value = call_function(call.target, call.args)
            return b'"result":' + encode(value, MAX_BYTES)
        except NotJson as error:
            problem = fault("tool.contract", str(error))
        except Misfit as error:
            problem = fault("tool.contract", str(error))
        except BaseException as error:
            folder = OURS if self._shared else self._folder
            self._exhausted = isinstance(error, MemoryError)
            problem = explain(error, folder, source.text if source else None)
            error.__traceback__ = None  # its frames hold the objects of the code
        return b'"fault":' + json.dumps(problem).encode()

    def _tidy(self, environment: dict[str, str]) -> None:
        """Restore environment, path, streams and folder after an earlier call."""
        os.environ.update(environment)
        wanted = {**self._variables, **encoded(environment)}
        if variables() != wanted:
            os.environ.clear()
            os.environ.update({**self._environment, **environment})
        sys.path[:] = self._path
        sys.stdin, sys.stdout, sys.stderr = self._streams
        try:
            moved = os.getcwd() != self._folder
        except OSError:
            moved = True
        if moved:
            os.chdir(self._folder)

    def _flush(self) -> None:
        for stream in {sys.stdout, sys.stderr, *self._streams[1:]}:
            try:
                stream.flush()
            except Exception:  # closed or replaced by the code
                continue

    def _write(self, body: bytes) -> None:
        # The code may have closed the channel and opened a file with its number.
        try:
            if identity() != self._identity:
                os._exit(CLOSED)
            view = memoryview(HEADER.pack(MAGIC, len(body)) + body)
            while view:
                view = view[os.write(OUT, view) :]
        except OSError:
            os._exit(CLOSED)


def variables() -> dict[bytes, bytes]:
    """Return the environment as bytes: decoding it takes as long as a call."""
    kept: dict[bytes, bytes] | None = getattr(os.environ, "_data", None)
    return encoded(dict(os.environ)) if kept is None else kept


def encoded(environment: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(environment[name]) for name in environment}


def identity() -> tuple[int, int]:
    found = os.fstat(OUT)
    return found.st_dev, found.st_ino


def is_printed() -> bool:
    """Return whether the pipes have output that the worker has not read."""
    try:
        return any(ioctl(file, FIONREAD, NOTHING) != NOTHING for file in (1, 2))
    except OSError:  # closed by the code
        return True


def is_littered() -> bool:
    """Return whether the code left threads or processes behind."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def main(parent: int) -> None:
    """Run a server that is started by a sandbox, not forked by the launcher."""
    die_with(parent)
    prepare()
    try:
        Server().run()
    except MemoryError:
        os._exit(NO_MEMORY)
