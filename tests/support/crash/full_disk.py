"""A server whose disk is full for a while, and has room again.

    python -m crash.full_disk FOLDER

Prints one JSON document: the answers while the disk was full and after that.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from servers import ASKS, HELLO, Api, Running, playbook

from crash.judge import Acknowledged, Judge
from crash.shim import CALLS, Shim
from crash.workload import mark_commits

GROWING = CALLS["write"] | CALLS["truncate"]
"""Calls that take room."""
MANY = 6
"""Calls that fail, so that the worker of the server has met the full disk, too."""
WORKS = playbook(
    "works",
    """
    - step: start
      loop: {in: "{{ range(40) }}", iterator: i}
      tool: [{nap: {kind: wait, for: 10ms}}, {end: {kind: noop, result: 1}}]
    """,
)


class Told:
    """The marks of this process."""

    def __init__(self) -> None:
        self.all = Acknowledged()

    def mark(self, text: str) -> None:
        self.all.take(text)


def run(folder: Path) -> dict[str, Any]:
    home = folder / "root" / "home"
    shim, told = Shim(), Told()
    mark_commits(told)
    running = Running(home, lease_ttl=1.0)  # its own slots lose their work
    api = Api(running.url, running.token)
    waits, works = api.start(ASKS), api.start(WORKS)
    api.await_event(works, "loop.iteration.done")
    shim.arm(GROWING, 1, times=-1, error=errno.ENOSPC)
    refused = [
        api.post("/api/executions", {"playbook": HELLO}),
        api.post(f"/api/executions/{waits}/signal", {"name": "go"}),
        api.post(f"/api/executions/{waits}/cancel"),
    ]
    read = api.get(f"/api/executions/{waits}")
    while shim.failed < MANY:  # the worker reports, and is refused
        time.sleep(0.01)
    failed = shim.failed
    shim.disarm()
    sent = api.post(f"/api/executions/{waits}/signal", {"name": "go"})
    ended = api.finish(waits)
    worked, again = api.finish(works), api.run(HELLO)
    running.stop()
    judge = Judge()
    wrong = judge.judge(home, told.all)
    judge.close()
    return {
        "failed": failed,
        "refused": [[answer.status, answer.body] for answer in refused],
        "read": read.status,
        "sent": sent.status,
        "ended": [each["status"] for each in (ended, worked, again)],
        "wrong": wrong,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    os.environ["NOETL_HOME"] = str(folder / "root" / "home")
    print(json.dumps(run(folder)), flush=True)  # noqa: T201
