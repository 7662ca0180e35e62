"""Removal of old executions by a server, as `noetl clean` asks for it."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner
from servers import HELLO

from noetl.clictl import noetl
from noetl.errors import ConfigError


def test_old_executions_are_removed_with_all_that_belongs_to_them(fresh: Any) -> None:
    done = []
    for _ in range(2):
        answer = fresh.post("/api/executions?wait=30", {"playbook": HELLO})
        assert answer.body["status"] == "completed"
        done.append(answer.body["execution_id"])

    planned = fresh.post("/api/retention/clean", {"older_than": 0, "dry_run": True})
    kept = fresh.post("/api/retention/clean", {"older_than": 3600})
    before = len(fresh.get("/api/executions").body["executions"])
    removed = fresh.post("/api/retention/clean", {"older_than": 0})

    assert (planned.status, planned.body["executions"]) == (200, 2)
    assert planned.body["events"] > 2
    assert kept.body["executions"] == 0
    assert before == 2
    assert removed.body == {**planned.body, "dry_run": False}
    assert fresh.get("/api/executions").body["executions"] == []
    assert fresh.get(f"/api/executions/{done[0]}").status == 404
    assert b"noetl_retention_removed_total 2.0" in fresh.get("/metrics").body


def test_the_command_asks_a_server_and_says_what_it_did(fresh: Any) -> None:
    fresh.post("/api/executions?wait=30", {"playbook": HELLO})
    url = f"http://{fresh.host}:{fresh.port}"
    env = {"NOETL_SERVER": url, "NOETL_TOKEN": fresh.token}

    def clean(*words: str) -> Any:
        return CliRunner().invoke(noetl, ["clean", *words], env=env)

    aimless = clean()
    planned = clean("--older-than", "0s", "--dry-run", "--json")
    kept = clean("--older-than", "1h")
    done = clean("--older-than", "0s")

    assert isinstance(aimless.exception, ConfigError)
    assert "--older-than 90d" in str(aimless.exception)
    assert json.loads(planned.stdout)["server"]["executions"] == 1
    assert kept.stdout == f"{url}: removed 0 executions with 0 events\n"
    assert done.stdout.startswith(f"{url}: removed 1 execution with ")
    assert (kept.exit_code, done.exit_code) == (0, 0)
