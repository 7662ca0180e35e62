"""Runs a playbook like ``noetl run`` and dies by SIGKILL at a named point of it.

python kill_points.py PLAYBOOK POINT NUMBER: at the NUMBER-th time. Exit code 3 says
that it ended before that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noetl.adapters.tools import BUILTIN
from noetl.config import read_settings
from noetl.dsl.load import load
from noetl.embedded import Embedded, open_free_log
from noetl.local.home import Home


class Death:
    """Counts how often a point was passed; the last time is the end."""

    def __init__(self, point: str, number: int) -> None:
        self._point = point
        self._number = number
        self._passed: Counter[str] = Counter()

    def at(self, point: str) -> None:
        self._passed[point] += 1
        if point == self._point and self._passed[point] == self._number:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, thing: Any, method: str, noun: str) -> None:
        """Make the call of a method two points."""
        call: Callable[..., Any] = getattr(thing, method)

        async def between(*args: Any, **options: Any) -> Any:
            self.at(f"before the {noun}")
            answer = await call(*args, **options)
            self.at(f"after the {noun}")
            return answer

        setattr(thing, method, between)


async def main(file: Path, source: bytes, death: Death) -> None:
    loaded = load(source, BUILTIN)
    settings = read_settings()
    home = Home.of(settings)
    store = open_free_log(home)
    runtime = Embedded(home, store, str(file.parent), settings)
    death.around(store, "claim", "claim")
    death.around(store, "commit", "commit")
    death.around(runtime.orchestrator.blobs, "put", "blob")
    for tool in runtime._tools.values():
        death.around(tool, "run", "tool")
    await runtime.start(loaded, source, {})
    await runtime.finish()
    await runtime.close()
    sys.exit(3)


if __name__ == "__main__":
    file, death = Path(sys.argv[1]), Death(sys.argv[2], int(sys.argv[3]))
    asyncio.run(main(file, file.read_bytes(), death))
