"""Many executions wait, and everything is killed: each goes on exactly once."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from campaign import FULL
from servers import Api, playbook

from noetl.adapters.secrets.private_files import read_token

COUNTS = {"sqlite": 1_000 if FULL else 300, "postgres": 200 if FULL else 100}
ASK = playbook(
    "parked",
    """
    - step: start
      tool: [{ask: {kind: wait, signal: go, timeout: 30d}}]
      next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
    - {step: end, tool: {kind: noop, result: over}}
    """,
    version="1",
)
ONCE = ("message.received", "task.resumed", "workflow.finished")


class Service:
    """A server that does the work itself, or one on a database and a worker; they may
    die at any moment."""

    def __init__(self, home: Path, database: str | None) -> None:
        self._home = home
        self._environ = {**os.environ, "NOETL_HOME": str(home)}
        self._shared = database is not None
        if database is not None:
            self._environ |= {"NOETL_DATABASE": database, "NOETL_LEASE_TTL": "2"}
        self._processes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self._port = int(taken.getsockname()[1])
        self.api = self.start()

    def start(self) -> Api:
        self._run("server", "start", "--foreground", "--port", str(self._port))
        url = f"http://127.0.0.1:{self._port}"
        while not answers(self._port):
            assert self._processes[0].poll() is None, "the server does not start"
        if self._shared:
            self._run("worker", "start", "--foreground", "--server", url)
        return Api(url, read_token(self._home / "token"))

    def _run(self, *command: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "noetl", *command],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes.append(process)

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
        while self._processes:
            self._processes.pop().wait()


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start(api: Api, count: int) -> list[str]:
    assert api.post("/api/catalog", {"playbook": ASK}).status == 201

    def one(number: int) -> str:
        answer = api.post("/api/executions", {"path": "tests/parked"})
        assert answer.status == 201, answer.body
        return str(answer.body["execution_id"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(count)))


def signal(api: Api, ids: Iterable[str]) -> list[tuple[str, int]]:
    """What each was answered; 0 if nothing was."""

    def one(execution_id: str) -> tuple[str, int]:
        path = f"/api/executions/{execution_id}/signal"
        try:
            return execution_id, api.post(path, {"name": "go"}).status
        except (OSError, http.client.HTTPException):
            return execution_id, 0

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, ids))


def count(api: Api, status: str) -> int:
    found, cursor = 0, ""
    while cursor is not None:
        after = f"&cursor={cursor}" if cursor else ""
        page = api.get(f"/api/executions?status={status}&limit=1000{after}").body
        found += len(page["executions"])
        cursor = page["cursor"]
    return found


@pytest.mark.spec("S-54", "S-68", "S-45")
@pytest.mark.parametrize("store", COUNTS)
def test_each_goes_on_exactly_once(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = request.getfixturevalue("postgres") if store == "postgres" else None
    total = COUNTS[store]
    server = Service(tmp_path / "home", database)
    try:
        ids = start(server.api, total)
        while count(server.api, "waiting") < total:
            pass
        server.kill()

        api = server.start()
        answered = signal(api, ids[: total // 2])
        server.kill()  # in the middle of what these have woken
        api = server.start()
        lost = [each for each, status in answered if status == 0]
        again = signal(api, [*lost, *ids[total // 2 :]])
        while count(api, "completed") < total:
            pass

        assert {status for _, status in [*answered, *again]} == {200}
        for execution_id in ids:
            events = api.get(f"/api/executions/{execution_id}/events").body["events"]
            names = Counter(event["name"] for event in events)
            assert [names[name] for name in ONCE] == [1, 1, 1]
            assert names["task.done"] == 2
    finally:
        server.kill()
