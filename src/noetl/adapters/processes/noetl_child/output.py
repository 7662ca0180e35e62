"""Output of user code: flushed while the code runs, and records of ``logging``."""

from __future__ import annotations

import _thread
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from time import sleep
from types import ModuleType
from typing import Any, TextIO

INTERVAL = 0.2  # seconds that printed text may wait in the buffer
RECORD = "\x1e"  # begins a line of a record: then the level, two digits, and a space
HIGHEST = 99
STACK = 256 * 1024


class Flusher:
    """Flushes a buffered stream shortly after something was printed.

    The first ``write`` wakes a thread, and later ones cost nothing until the thread has
    flushed. Code that prints nothing starts no thread. A line-buffered stream instead
    would make each line of a long output a system call.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: Any = stream
        self._pending = _thread.allocate_lock()
        self._pending.acquire()
        self._flushing = _thread.allocate_lock()
        self._started = False
        self._arm()

    def _arm(self) -> None:
        self._stream.write = self._write

    def _write(self, text: str) -> Any:
        with suppress(AttributeError):  # another thread was faster
            del self._stream.write
        if not self._started:
            self._start()
        else:
            with suppress(RuntimeError):  # it is released already
                self._pending.release()
        return self._stream.write(text)

    def _start(self) -> None:
        self._started = True
        before = _thread.stack_size(STACK)
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # no thread is left: each line is flushed by itself
            self._stream.reconfigure(line_buffering=True)
            return
        finally:
            _thread.stack_size(before)
        # A copy of the process must not inherit a buffer that is being flushed.
        lock = self._flushing
        os.register_at_fork(
            before=lock.acquire,
            after_in_parent=lock.release,
            after_in_child=lock.release,
        )

    def _run(self) -> None:
        while True:
            sleep(INTERVAL)
            self._arm()  # first: what is printed from now on wakes the thread again
            with self._flushing, suppress(Exception):
                self._stream.flush()
            self._pending.acquire()


class LoggingSetup:
    """Sets up ``logging`` when user code imports it: no other code pays for that.

    Code that configures logging itself is not affected: ``lastResort`` is for records
    that no handler takes.
    """

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "logging":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                set_up_logging(module)

            loader.exec_module = exec_module
        return spec


def set_up_logging(logging: Any) -> None:
    """Write records that no handler takes to stderr, from INFO on, with their level.

    ``logging.info`` and its like call ``basicConfig()`` first, which must not add a
    handler; with arguments it is a configuration of the user's own.
    """

    def emit(record: Any) -> None:
        try:
            text = handler.format(record)
            stream: Any = sys.stderr
            if stream is sys.__stderr__:
                with suppress(Exception):  # closed or replaced by the code
                    sys.stdout.flush()  # it is read before the record
                mark = f"{RECORD}{min(max(record.levelno, 0), HIGHEST):02d} "
                text = mark + text.replace("\n", f"\n{mark}")
            stream.write(f"{text}\n")
        except Exception:
            handler.handleError(record)

    handler = logging.Handler()
    handler.emit = emit
    logging.lastResort = handler
    logging.root.setLevel(logging.INFO)
    configure = logging.basicConfig
    logging.basicConfig = lambda **options: configure(**options) if options else None


def prepare_logging() -> None:
    """Set up ``logging`` now or when it is imported."""
    loaded = sys.modules.get("logging")
    if loaded is not None:
        set_up_logging(loaded)
    else:
        sys.meta_path.insert(0, LoggingSetup())
