"""Prints as JSON which files of NoETL one steady step visits, embedded or in a cluster.

    scripts/house_trace.py embedded|cluster

The playbook has four ``noop`` steps. The walk starts with the third call of the tool
and ends with the last one: report, decision, commit, routing, and the claim of the next
step. What is done once for a connection or an execution comes before it. ``embedded``
runs it by the command ``noetl run``. ``cluster`` starts a server without slots of its
own on SQLite and one remote worker that calls it over HTTP, both on one event loop.
Threads, such as the writer of SQLite, are not traced.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import noetl

SOURCE = str(Path(noetl.__file__).parent) + os.sep
TOOL = "NoopTool.run"
"""The function that delimits a step; it is called once for each of them."""
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: walk, path: house/walk}
workflow:
  - {step: first, tool: {kind: noop}, next: {arcs: [{step: second}]}}
  - {step: second, tool: {kind: noop}, next: {arcs: [{step: third}]}}
  - {step: third, tool: {kind: noop}, next: {arcs: [{step: fourth}]}}
  - {step: fourth, tool: {kind: noop}}
"""
CALLS = 4
WAIT = 60


class Walk:
    """The files that are entered between the last two calls of the tool."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.calls = 0

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCE):
            return
        self.calls += code.co_qualname == TOOL
        if self.calls == CALLS - 1:
            self.entered.append(code.co_filename.removeprefix(SOURCE))

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def report(self) -> dict[str, Any]:
        if self.calls != CALLS:
            sys.exit(f"house: {TOOL} was called {self.calls} times, expected {CALLS}")
        pairs = zip(self.entered, self.entered[1:], strict=False)
        return {
            "calls": len(self.entered),
            "changes": sum(one != other for one, other in pairs),
            "files": list(dict.fromkeys(self.entered)),
        }


def walk_embedded(walk: Walk, folder: Path) -> None:
    from noetl.clictl import noetl as command

    file = folder / "walk.yaml"
    file.write_text(PLAYBOOK, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()), walk.traced():
        try:
            command.main(["run", str(file), "--json"], prog_name="noetl")
        except SystemExit as leaving:
            if leaving.code:
                sys.exit(f"house: noetl run ended with exit code {leaving.code}")


async def walk_cluster(walk: Walk, folder: Path) -> None:
    # As attributes of these two modules: where their parts are defined may change.
    import noetl.server as servers
    import noetl.worker as workers
    from noetl.config import read_settings

    parts: Any = servers
    home, settings = parts.Home(folder), read_settings()
    server = await servers.Server.open(home, parts.Options(port=0, slots=0), settings)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(server.serve(ready.set_result))
    url = await ready
    token = parts.make_token(home.token)
    options = workers.Options(servers=[url], token=token, slots=1)
    worker = workers.Worker(home, options, settings, parts.Plugins())
    working = asyncio.create_task(worker.serve())
    with walk.traced():
        status = await asyncio.to_thread(start, url, token)
    worker.stop()
    await working
    server.stop()
    await serving
    if status != "completed":
        sys.exit(f"house: the execution is {status}, expected completed")


def start(url: str, token: str) -> str:
    """Start the playbook on the server and wait for its end; its status."""
    request = urllib.request.Request(
        f"{url}/api/executions?wait={WAIT}",
        json.dumps({"playbook": PLAYBOOK}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=WAIT) as response:
        status: str = json.load(response)["status"]
    return status


def main(host: str) -> None:
    walk = Walk()
    with tempfile.TemporaryDirectory(prefix="noetl-house-") as name:
        os.environ["NOETL_HOME"] = name
        if host == "embedded":
            walk_embedded(walk, Path(name))
        else:
            asyncio.run(walk_cluster(walk, Path(name)))
    print(json.dumps(walk.report()))


if __name__ == "__main__":
    main(*sys.argv[1:])
