"""The workload is merged once, when the execution starts, and is then a fact."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: merged, path: tests/merged}
workload: {db: {host: DEFAULT, port: 5432}, tags: [a, b]}
workflow:
  - step: start
    tool:
      - hang:
          kind: python
          code: |
            from pathlib import Path
            from threading import Event
            if not Path("hung").exists():
                Path("hung").touch()
                Event().wait()
            result = None
      - show: {kind: noop, result: "{{ workload }}"}
"""


def start(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "noetl", *args, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def ask(*args: str) -> list[Any]:
    process = start(*args)
    lines = process.communicate()[0].splitlines()
    assert process.returncode == 0
    return [json.loads(line) for line in lines]


@pytest.mark.spec("WRK-02", "WRK-01", "WRK-03", "WRK-05")
def test_a_restart_or_a_new_default_does_not_merge_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    file = Path("playbook.yaml")
    file.write_text(PLAYBOOK.replace("DEFAULT", "old"))
    process = start("run", "playbook.yaml", "--set", "db.port=1", "--set", "tags=[c]")
    while not Path("hung").exists():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    file.write_text(PLAYBOOK.replace("DEFAULT", "new"))
    (listed,) = ask("list")[0]["executions"]
    (document,) = ask("resume", listed["execution_id"])
    events = ask("events", listed["execution_id"])
    merged = {"db": {"host": "old", "port": 1}, "tags": ["c"]}
    holders = [event for event in events if "workload" in event["payload"]]

    assert document["workload"] == document["result"] == merged
    assert [(e["name"], e["source"]) for e in holders] == [
        ("workflow.started", "server")
    ]
    assert holders[0]["payload"]["workload"] == merged
    assert holders[0]["seq"] < min(e["seq"] for e in events if e["step"])
