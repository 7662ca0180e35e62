"""A server in a thread of its own, on loopback, and calls to it over real HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent, indent
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from noetl.adapters.secrets.private_files import read_token, write_private
from noetl.config import read_settings
from noetl.local.home import Home
from noetl.local.process_files import members
from noetl.server import Server
from noetl.wiring.server_options import Options

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\n"
HUNG = 60.0
"""Seconds after which a call that is waited for is declared dead."""


Watcher = Callable[[str | None, str, bytes], None]
watchers: list[Watcher] = []
"""Called with the token, the path and the body of every answer."""


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str]


KEY = bytes(range(32))


class Running:
    """A server that runs until ``stop``; ``token`` opens it."""

    def __init__(self, home: Path, **options: Any) -> None:
        self.home = Home(home)
        self._options = Options(**{"port": 0, "slots": 8, **options})
        if "database" in options and not self.home.key.exists():
            self.home.make()  # servers on one database have the same key
            write_private(self.home.key, KEY)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.server: Server | None = None
        self.error: BaseException | None = None
        self.url = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(HUNG)
        if self.error is not None:
            raise self.error
        self.token = read_token(self.home.token)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.server = await Server.open(self.home, self._options, read_settings())
        await self.server.serve(self._note)

    def _note(self, url: str) -> None:
        self.url = url
        self._ready.set()

    def person(self, name: str, *roles: str) -> Api:
        """An account with these roles and a token, in place of one of this name.

        A fixture of a module asks again if tests of other modules ran in between.
        """
        admin = Api(self.url, self.token)
        body = {"name": name, "roles": [*roles]}
        made = admin.post("/api/users", body)
        if made.status == 409:
            assert admin.call("DELETE", f"/api/users/{name}").status == 200
            made = admin.post("/api/users", body)
        assert made.status == 201, made.body
        token = admin.post("/api/tokens", {"user": name, "label": "test"})
        return Api(self.url, token.body["token"])

    def do(self, work: Any, *args: Any) -> None:
        """Call something on the server's own loop."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(work, *args)

    def stop(self) -> None:
        assert self.server is not None
        if self._thread.is_alive():
            self.do(self.server.stop)
        self._thread.join(HUNG)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error


class Api:
    """Whoever calls; a token of None sends none."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """``body`` is sent as JSON, or as it is if it is bytes."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            said.setdefault("Authorization", f"Bearer {self.token}")
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
        if data is not None:
            said.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HUNG)
        try:
            connection.request(method, path, data, said)
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        for watch in watchers:
            watch(self.token, path, raw)
        names = {name.lower(): value for name, value in response.getheaders()}
        is_json = raw and "json" in names.get("content-type", "")
        return Answer(response.status, json.loads(raw) if is_json else raw, names)

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, **headers)

    # -- what tests do all the time ----------------------------------------------

    def start(self, text: str, **more: Any) -> str:
        answer = self.post("/api/executions", {"playbook": text, **more})
        assert answer.status == 201, answer.body
        execution_id: str = answer.body["execution_id"]
        return execution_id

    def run(self, text: str, **more: Any) -> dict[str, Any]:
        """Start it, wait for its end; its document."""
        return self.finish(self.start(text, **more))

    def finish(self, execution_id: str) -> dict[str, Any]:
        for _ in self.stream(execution_id):
            pass
        document: dict[str, Any] = self.get(f"/api/executions/{execution_id}").body
        return document

    def await_event(self, execution_id: str, name: str) -> dict[str, Any]:
        """Until it is committed."""
        for event in self.stream(execution_id):
            if event["name"] == name:
                return event
        raise AssertionError(f"it ended without {name}")

    def stream(
        self, execution_id: str, after: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Events as the server sends them, to the last."""
        for line in self.lines(execution_id, after):
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def lines(self, execution_id: str, after: int | None = None) -> Iterator[bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HUNG)
        said = {"Accept": "text/event-stream"}
        if self.token is not None:
            said["Authorization"] = f"Bearer {self.token}"
        if after is not None:
            said["Last-Event-ID"] = str(after)
        try:
            path = f"/api/executions/{execution_id}/events"
            connection.request("GET", path, headers=said)
            response = connection.getresponse()
            assert response.status in (200, 204), response.read()
            for line in response:
                for watch in watchers:
                    watch(self.token, path, line)
                yield line
        finally:
            connection.close()


def playbook(
    name: str, workflow: str, root: str = "", version: str | None = None
) -> str:
    """The text of a playbook with the path ``tests/<name>``."""
    metadata = f"name: {name}, path: tests/{name}"
    if version is not None:
        metadata += f', version: "{version}"'
    steps = "workflow:\n" + indent(dedent(workflow).strip("\n"), "  ") + "\n"
    return f"{HEAD}metadata: {{{metadata}}}\n{dedent(root)}{steps}"


HELLO = playbook("hello", "- {step: start, tool: {kind: noop, result: 1}}")
ASKS = playbook(
    "asks",
    """
    - step: start
      tool: {kind: wait, signal: go}
      next: {arcs: [{step: end}]}
    - {step: end, tool: {kind: noop, result: over}}
    """,
)


class WorkerProcess:
    """A worker of its own process, until ``stop`` or ``kill``."""

    def __init__(
        self,
        home: Path,
        url: str,
        token: str,
        slots: int = 8,
        pool: str = "default",
    ) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "noetl", "worker", "start", "--foreground"),
                *("--server", url, "--slots", str(slots), "--pool", pool),
            ],
            env={**os.environ, "NOETL_HOME": str(home), "NOETL_TOKEN": token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        deadline = time.monotonic() + HUNG
        while self._process.pid not in {each.pid for each in members(home / "workers")}:
            assert time.monotonic() < deadline, "the worker does not start"
            time.sleep(0.02)

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(HUNG)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
