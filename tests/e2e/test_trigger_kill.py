"""A server is killed around fires, again and again: each slot has one execution."""

from __future__ import annotations

import http.client
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import HELLO, Api

from noetl.adapters.secrets.private_files import read_token
from noetl.local.home import Home
from noetl.local.process_files import find_server

HUNG = 60.0
KILLS = 8


class Mortal:
    """A server in a process of its own; whoever finds it dead starts it again."""

    def __init__(self, home: Path) -> None:
        self._home = Home(home)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "noetl", "server", "start"),
                *("--foreground", "--port", "0"),
            ],
            env={**os.environ, "NOETL_HOME": str(self._home.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + HUNG
        while True:
            found = find_server(self._home.server)
            if found is not None and found.pid == self.process.pid and found.url:
                break
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.02)
        self.url = found.url
        self.api = Api(found.url, read_token(self._home.token))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Mortal]:
    mortal = Mortal(tmp_path / "home")
    mortal.api.post("/api/catalog", {"playbook": HELLO})
    yield mortal
    mortal.kill()


def make(api: Api, name: str, **members: Any) -> str | None:
    trigger = {"name": name, "playbook": "tests/hello", **members}
    made = api.post("/api/triggers", {"trigger": trigger})
    assert made.status == 201, made.body
    token: str | None = made.body["token"]
    return token


def slots(api: Api) -> list[str]:
    lines = api.get("/api/executions?limit=1000").body["executions"]
    found = []
    for line in lines:
        path = f"/api/executions/{line['execution_id']}/events?limit=1"
        caller = api.get(path).body["events"][0]["payload"]["caller"]
        found.append(caller["trigger"]["slot"])
    return found


def test_a_backfill_goes_on_after_each_kill(server: Mortal) -> None:
    make(server.api, "daily", schedule={"cron": "0 2 * * *"})
    body = {"trigger": "daily", "since": "2026-01-01", "until": "2026-04-11"}
    begun = server.api.post("/api/backfills", body).body
    path, dice = f"/api/backfills/{begun['backfill_id']}", random.Random(11)
    for _ in range(KILLS):
        moment = time.monotonic() + dice.uniform(0.0, 0.15)
        while time.monotonic() < moment:
            if server.api.get(path).body["state"] == "finished":
                break
        server.kill()
        server.start()
    deadline = time.monotonic() + HUNG
    while (now := server.api.get(path).body)["state"] != "finished":
        assert time.monotonic() < deadline, now
        time.sleep(0.05)

    assert (now["total"], now["left"], now["failed"]) == (100, 0, 0)
    found = slots(server.api)
    assert len(found) == len(set(found)) == 100


def test_a_sender_that_tries_again_gets_one_execution(server: Mortal) -> None:
    """Whatever moment the server dies at: the same key, until there is an answer."""
    token = make(server.api, "push", webhook={"key": "{{ payload.id }}"})
    dice, answered = random.Random(5), []
    for number in range(KILLS):
        try:
            host = Api(server.url, token)
            connection = http.client.HTTPConnection(host.host, host.port, timeout=HUNG)
            connection.request(
                "POST",
                "/hooks/push",
                b'{"id": %d}' % number,
                {
                    "Authorization": f"Bearer {token}",
                    "Content-Type": "application/json",
                },
            )
            moment = time.monotonic() + dice.uniform(0.0, 0.02)
            while time.monotonic() < moment:
                pass
        finally:
            server.kill()
            connection.close()
        server.start()
        for _ in range(2):
            again = Api(server.url, token).post("/hooks/push", {"id": number})
            assert again.status == 201, again.body
            answered.append(again.body["execution_id"])

    assert len(set(answered)) == KILLS
    assert sorted(slots(server.api), key=int) == [str(n) for n in range(KILLS)]
