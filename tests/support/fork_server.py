"""A process that has imported NoETL and forks itself for each command of a test.

``warm_start`` starts it and explains why. A request is one message: the options of the
command as JSON, with its three streams as file descriptors. The answer is the pid.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import runpy
import socket
import sys
from importlib import import_module
from typing import Any, NoReturn, TextIO

MAX_REQUEST = 1 << 20
FOLDER = os.path.dirname(os.path.abspath(__file__))


def preload() -> None:
    """Import what commands import; none of it starts a thread."""
    from noetl.clictl import COMMANDS

    for name in COMMANDS:
        import_module(f"noetl.commands.{name}")
    for name in ("embedded", "server", "worker", "adapters.tools", "api.app"):
        import_module(f"noetl.{name}")
    for name in ("aiohttp", "uvicorn", "asyncpg", "nats"):
        with contextlib.suppress(ImportError):
            import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy these pages


def serve(requests: socket.socket) -> None:
    """Fork for each request, until the test process closes its end."""
    while True:
        data, streams, _, _ = socket.recv_fds(requests, MAX_REQUEST, 3)
        if not data:
            return
        # The fork's own parent ends at once: the test process, a subreaper at this
        # moment, becomes the parent.
        reading, writing = os.pipe()
        middle = os.fork()
        if not middle:
            pid = os.fork()
            if not pid:
                requests.close()
                os.close(reading)
                os.close(writing)
                run(json.loads(data), streams)
            os.write(writing, str(pid).encode())
            os._exit(0)
        os.close(writing)
        pid_text = os.read(reading, 32)
        os.close(reading)
        os.waitpid(middle, 0)
        for each in streams:
            os.close(each)
        requests.send(pid_text)


def run(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Become the command: its streams, folder, environment and arguments."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1 << 16)
    if request["new_session"]:
        os.setsid()
    elif request["process_group"] != -1:
        os.setpgid(0, request["process_group"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    script = request["script"]
    sys.argv = [script or os.path.join(FOLDER, "noetl"), *request["args"]]
    folders = filter(None, request["env"].get("PYTHONPATH", "").split(os.pathsep))
    first = os.path.dirname(script) if script else request["cwd"]
    sys.path[:1] = [first, *folders]  # as ``python script`` and ``python -m`` have it
    sys.stdin = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, closefd=False)),
        sys.stdin.encoding,
        sys.stdin.errors,
    )
    sys.stdout = text_stream(1, sys.stdout)
    sys.stderr = text_stream(2, sys.stderr)
    gc.enable()
    code: Any = 1
    try:
        if script:
            runpy.run_path(script, run_name="__main__")
        else:
            from noetl.clictl import main

            main()
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def text_stream(number: int, like: TextIO) -> io.TextIOWrapper:
    """Open standard output or error with the settings that the interpreter chose."""
    raw = io.FileIO(number, "w", closefd=False)
    unbuffered = getattr(like, "write_through", False)
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        like.encoding,
        like.errors,
        line_buffering=number == 2 or raw.isatty(),
        write_through=unbuffered,
    )


if __name__ == "__main__":
    connection = socket.socket(fileno=int(sys.argv[1]))
    preload()
    serve(connection)
