"""The process of user code: one call after another, and a reply to each."""

from __future__ import annotations

import json
import os
import sys
from fcntl import ioctl
from termios import FIONREAD
from time import perf_counter
from typing import Any, NoReturn

from .calls import MODULE, Source, call_function, perform
from .confine import die_with, limit
from .faults import OURS, Misfit, explain, fault
from .inbox import CLOSED, HEADER, Call, Inbox
from .seccomp import install
from .values import NotJson, encode

STREAMS = ("stdin", "stdout", "stderr")
OUT = 4
MAGIC = b"noe1"
LARGEST = 64 * 1024 * 1024
NO_MEMORY = 87
NOTHING = bytes(4)  # a number of bytes
WARM = 20


def prepare() -> None:
    """What is the same for all servers, once, before they are forked.

    A page of memory that a child writes to is copied first, which takes longer than
    what it does there: so streams are made here, and what changes with use is used.
    """
    sys.argv[:] = [""]
    # Half a surrogate pair in a print is no reason to fail.
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
    """All that a call does, so that the first one finds it done."""
    source = Source("def main(x): return [x]")
    if source.is_contained():
        encode(perform(source, json.loads('{"x":1}')), LARGEST)
    environment = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    is_littered()
    is_printed()


class Server:
    """One that is ``shared`` runs for any execution, and only what is contained: such
    code can neither put anything in disorder nor see in which folder it is.
    """

    def __init__(self) -> None:
        os.set_inheritable(OUT, False)
        self._inbox = Inbox()
        self._identity = identity()
        self._pid = os.getpid()
        self._shared = self._exhausted = False
        self._streams = sys.stdin, sys.stdout, sys.stderr
        rehearse()  # a spare has the time

    def _obey(self, order: dict[str, Any]) -> None:
        """For whom it is: where, with which variables and limits."""
        self._shared = order["shared"]
        if order["folder"] is not None:
            os.chdir(order["folder"])
        limit(order["memory"], order["disk"])
        if order["filtered"]:
            install()
        os.environ.clear()
        os.environ.update(order["environment"])
        self._folder = os.getcwd()
        if not self._shared:
            sys.path.insert(0, self._folder)
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
                    os._exit(0)  # the code forked, both came back: only one may answer
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
            return b'"result":' + encode(value, LARGEST)
        except NotJson as error:
            problem = fault("tool.contract", str(error))
        except Misfit as error:
            problem = fault("tool.contract", str(error))
        except BaseException as error:
            folder = OURS if self._shared else self._folder
            self._exhausted = isinstance(error, MemoryError)
            problem = explain(error, folder, source.text if source else None)
            error.__traceback__ = None  # its frames hold what the code had built
        return b'"fault":' + json.dumps(problem).encode()

    def _tidy(self, environment: dict[str, str]) -> None:
        """What an earlier call of this execution may have left in disorder."""
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
            except Exception:  # closed or replaced by the code: its output, its loss
                continue

    def _write(self, body: bytes) -> None:
        # The code may have closed the channel, and opened a file that got its number.
        try:
            if identity() != self._identity:
                os._exit(CLOSED)
            view = memoryview(HEADER.pack(MAGIC, len(body)) + body)
            while view:
                view = view[os.write(OUT, view) :]
        except OSError:
            os._exit(CLOSED)


def variables() -> dict[bytes, bytes]:
    """The environment as ``os`` keeps it: to decode it takes as long as a call."""
    kept: dict[bytes, bytes] | None = getattr(os.environ, "_data", None)
    return encoded(dict(os.environ)) if kept is None else kept


def encoded(environment: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(environment[name]) for name in environment}


def identity() -> tuple[int, int]:
    found = os.fstat(OUT)
    return found.st_dev, found.st_ino


def is_printed() -> bool:
    """Whether there is output that the worker has not read, whoever wrote it."""
    try:
        return any(ioctl(file, FIONREAD, NOTHING) != NOTHING for file in (1, 2))
    except OSError:  # closed by the code
        return True


def is_littered() -> bool:
    """Whether the code left threads or processes that would disturb the next call."""
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def main(parent: int) -> None:
    """Started by a sandbox instead of forked by the launcher."""
    die_with(parent)
    prepare()
    try:
        Server().run()
    except MemoryError:
        os._exit(NO_MEMORY)
