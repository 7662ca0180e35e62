"""A process that forks ``noetl validate`` with limits of time and memory.

It has imported what the command imports, and nothing else: the memory of a fork is that
of a fresh command, whose start it saves. A request is a line of JSON: the arguments and
the files for both outputs. The answer is the status, the seconds of CPU and the largest
memory in KiB.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
from importlib import import_module
from typing import Any, NoReturn

CPU_SECONDS = 4  # shared machines differ by a factor of two
MEMORY = 256 * 1024 * 1024
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: warm, path: tests/warm}
workflow: [{step: start, tool: {kind: noop, result: "{{ 1 }}"}}]
"""


def serve() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            validate(request)
        _, status, usage = os.wait4(pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        sys.stdout.write(json.dumps([status, seconds, usage.ru_maxrss]) + "\n")
        sys.stdout.flush()


def validate(request: dict[str, Any]) -> NoReturn:
    """Become the command."""
    new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(request["out"], new), 1)
    os.dup2(os.open(request["err"], new), 2)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.argv = ["noetl", "validate", *request["args"]]
    from noetl.clictl import main

    try:
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


def preload() -> None:
    """Import what the command imports, also that which it imports when it needs it."""
    from noetl.config import read_plugins, read_settings
    from noetl.dialects import load

    import_module("noetl.clictl")
    import_module("noetl.commands.validate")
    assert load(PLAYBOOK, read_plugins(read_settings()).kinds).valid


if __name__ == "__main__":
    preload()
    gc.collect()
    gc.freeze()
    serve()
