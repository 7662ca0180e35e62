"""The process of user code: calls come in frames, one at a time, and so do replies."""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import Any, NoReturn

from .calls import perform
from .confine import die_with
from .faults import Misfit, explain, fault
from .values import NotJson, encode

STREAMS = ("stdin", "stdout", "stderr")
IN, OUT = 3, 4  # the channel
MAGIC = b"noe1"
HEADER = struct.Struct("!4sI")
LARGEST = 64 * 1024 * 1024
CLOSED, NO_MEMORY = 71, 87


class Server:
    def __init__(self) -> None:
        for file in (IN, OUT):
            os.set_inheritable(file, False)
        self._identity = identity()
        self._pid = os.getpid()
        self._folder = os.getcwd()
        sys.argv[:] = [""]
        sys.path.insert(0, self._folder)
        self._path = list(sys.path)
        self._environment = dict(os.environ)
        self._variables = dict(variables())
        # Anew: those of the launcher were made for other files. And half a surrogate
        # pair in a print is no reason to fail.
        self._streams = (
            open(0, encoding="utf-8", errors="replace"),  # noqa: SIM115
            open(1, "w", encoding="utf-8", errors="backslashreplace"),  # noqa: SIM115
            open(2, "w", 1, encoding="utf-8", errors="backslashreplace"),  # noqa: SIM115
        )
        for name, stream in zip(STREAMS, self._streams, strict=True):
            setattr(sys, f"__{name}__", stream)

    def run(self) -> NoReturn:
        while True:
            call = json.loads(self._read())
            self._tidy(call.pop("environment"))
            head = f'{{"number":{call["number"]},'.encode()
            reply = self._answer(call)
            self._flush()
            if os.getpid() != self._pid:
                os._exit(0)  # the code forked and both came back: only one may answer
            tail = b',"spent":true}' if is_littered() else b"}"
            self._write(head + reply + tail)

    def _answer(self, call: dict[str, Any]) -> bytes:
        try:
            return b'"result":' + encode(perform(call), LARGEST)
        except NotJson as error:
            problem = fault("tool.contract", str(error))
        except Misfit as error:
            problem = fault("tool.contract", str(error))
        except BaseException as error:
            problem = explain(error, self._folder, call.get("code"))
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

    def _read(self) -> bytes:
        # One call at a time is under way, so nothing of a next one is read along.
        data = bytearray()
        wanted = HEADER.size
        while len(data) < wanted:
            more = os.read(IN, 65536)
            if not more:
                os._exit(0)  # the worker is gone
            data += more
            if len(data) >= HEADER.size:
                wanted = HEADER.size + HEADER.unpack_from(data)[1]
        return bytes(data[HEADER.size :])

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


def serve() -> NoReturn:
    try:
        Server().run()
    except MemoryError:
        os._exit(NO_MEMORY)


def main(parent: int) -> None:
    """Started by a sandbox instead of forked by the launcher."""
    die_with(parent)
    serve()
