"""An execution whose log was damaged: its operator sees it, and brings it back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import ASKS, HELLO, HUNG, Api, Running
from stored_log import SqliteLog

pytestmark = pytest.mark.spec("S-62")


class Operator:
    """A server, a damaged execution on it, and whoever looks after both."""

    def __init__(self, home: Path) -> None:
        self.running = Running(home)
        self.api = Api(self.running.url, self.running.token)
        self.id = self.api.start(ASKS)
        self.api.await_event(self.id, "task.suspended")
        self._file = home / "log-server.db"

    def log(self) -> SqliteLog:
        return SqliteLog(self._file, self.id)

    def damage(self) -> bytes:
        """Make an event of it something that nobody can read."""
        body = self.log().read(2)
        self.log().write(2, b"{}")
        assert self.running.server is not None
        self.running.do(self.running.server.orchestrator.cache.drop, self.id)
        return body

    def noetl(self, *args: str) -> subprocess.CompletedProcess[str]:
        with self.begin(*args) as process:
            out, err = process.communicate()
            return subprocess.CompletedProcess(args, process.returncode, out, err)

    def begin(self, *args: str) -> subprocess.Popen[str]:
        environ = {**os.environ, "NOETL_HOME": str(self.running.home.folder)}
        command = [sys.executable, "-m", "noetl", *args]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=environ, stdout=pipe, stderr=pipe, text=True
        )


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    someone = Operator(tmp_path / "home")
    yield someone
    someone.running.stop()


def test_what_is_damaged_is_seen_and_others_go_on(operator: Operator) -> None:
    operator.damage()
    refused = operator.api.post(
        f"/api/executions/{operator.id}/signal", {"name": "go", "data": 1}
    )
    assert (refused.status, refused.body["kind"]) == (409, "execution.quarantined")
    assert "cannot be decoded" in refused.body["detail"]
    assert operator.api.run(HELLO)["status"] == "completed"

    found = operator.api.get("/api/executions?status=quarantined").body["executions"]
    assert [each["execution_id"] for each in found] == [operator.id]
    document = operator.api.get(f"/api/executions/{operator.id}").body
    assert document["status"] == "quarantined"
    assert document["error"]["kind"] == "execution.quarantined"
    assert document["playbook"]["name"] == "asks"
    assert b"noetl_quarantined_total 1.0" in operator.api.get("/metrics").body


def test_commands_show_it_and_say_how_to_go_on(operator: Operator) -> None:
    operator.damage()
    operator.noetl("signal", operator.id, "go")

    listed = operator.noetl("list", "--status", "quarantined")
    shown = operator.noetl("show", operator.id)
    as_json = json.loads(operator.noetl("show", operator.id, "--json").stdout)
    cancelled = operator.noetl("cancel", operator.id)
    again = operator.noetl("resume", operator.id)

    assert operator.id[-8:] in listed.stdout
    assert "it is set aside" in listed.stdout
    assert f"continue with: noetl resume {operator.id}" in shown.stdout
    assert as_json["status"] == "quarantined"
    assert "noetl resume" in cancelled.stderr
    assert cancelled.returncode == 2
    assert "cannot be decoded" in again.stderr
    assert "Traceback" not in again.stderr + shown.stderr + listed.stderr


def test_repaired_it_is_taken_back_and_ends(operator: Operator) -> None:
    body = operator.damage()
    operator.api.post(f"/api/executions/{operator.id}/signal", {"name": "go"})
    operator.log().write(2, body)

    answer = operator.api.post(f"/api/executions/{operator.id}/resume")
    told = operator.api.post(f"/api/executions/{operator.id}/signal", {"name": "go"})
    document = operator.api.finish(operator.id)

    assert (answer.status, answer.body["status"]) == (200, "waiting")
    assert told.status == 200
    assert (document["status"], document["result"]) == ("completed", "over")


def test_a_server_starts_with_it(operator: Operator, tmp_path: Path) -> None:
    operator.damage()
    operator.api.post(f"/api/executions/{operator.id}/signal", {"name": "go"})
    operator.running.stop()

    operator.running = Running(tmp_path / "home")
    api = Api(operator.running.url, operator.running.token)

    assert api.get("/readyz").status == 200
    assert api.run(HELLO)["status"] == "completed"
    found = api.get("/api/executions?status=quarantined").body["executions"]
    assert [each["execution_id"] for each in found] == [operator.id]


@pytest.mark.parametrize("more", [["--no-progress"], ["--json"]])
def test_waiting_for_a_quarantined_execution_ends_with_a_message(
    operator: Operator, tmp_path: Path, more: list[str]
) -> None:
    file = tmp_path / "asks.yaml"
    file.write_text(ASKS)
    assert operator.noetl("catalog", "register", str(file)).returncode == 0
    with operator.begin("exec", "tests/asks", "--wait", *more) as waiting:
        known, others = operator.id, [operator.id]
        while others[0] == known:  # until it is there
            found = operator.api.get("/api/executions").body["executions"]
            others = [each["execution_id"] for each in found]
        operator.id = others[0]
        operator.api.await_event(operator.id, "task.suspended")
        operator.damage()
        operator.api.post(f"/api/executions/{operator.id}/signal", {"name": "go"})
        out, err = waiting.communicate(timeout=HUNG)

    assert waiting.returncode == 130
    assert "Traceback" not in err
    if "--json" in more:
        document = json.loads(out)
        assert document["status"] == "quarantined"
        assert document["error"]["kind"] == "execution.quarantined"
    else:
        assert out.startswith("quarantined: ")
        assert "it is set aside: " in out
        assert f"continue with: noetl resume {operator.id}" in out


def test_who_follows_what_is_set_aside_comes_to_an_end(operator: Operator) -> None:
    operator.damage()
    operator.api.post(f"/api/executions/{operator.id}/signal", {"name": "go"})

    followed = operator.noetl(
        "events", operator.id, "--follow", "--server", operator.running.url
    )

    assert followed.returncode == 0
    assert "Traceback" not in followed.stderr
