"""The log leaves as JSON lines: any store that reads them can analyse it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: export, path: tests/export}
workflow:
  - step: start
    loop: {in: [3, 1, 2], iterator: x}
    tool:
      - a:
          kind: noop
          result: "{{ iter.x }}"
          spec:
            policy:
              rules:
                - when: "{{ _attempt < iter.x }}"
                  then: {do: retry, attempts: 9}
                - else: {then: {do: continue}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop}}
"""


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The events of one run, as ``noetl events --json`` prints them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    Path("playbook.yaml").write_text(PLAYBOOK)
    document = json.loads(noetl("run", "playbook.yaml"))
    lines = noetl("events", document["execution_id"]).splitlines()
    assert len(lines) == document["events"]
    return [json.loads(line) for line in lines]


def noetl(*args: str) -> str:
    command = [sys.executable, "-m", "noetl", *args, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.spec("EVT-26", "EVT-01")
def test_every_line_is_a_row_of_one_table(exported: list[dict[str, Any]]) -> None:
    """The same columns in every row, flat but for the payload: a table at once."""
    columns = list(exported[0])
    rows = [
        [json.dumps(v) if key == "payload" else v for key, v in event.items()]
        for event in exported
    ]
    with sqlite3.connect(":memory:") as store:
        store.execute(f"CREATE TABLE events ({', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        store.executemany(f"INSERT INTO events VALUES ({marks})", rows)
        attempts = store.execute(
            "SELECT iteration_id, max(attempt) FROM events "
            "WHERE name = 'task.done' AND step = 'start' GROUP BY iteration_id "
            "ORDER BY iteration_id"
        ).fetchall()
        results = store.execute(
            "SELECT json_extract(payload, '$.result') FROM events "
            "WHERE name = 'loop.iteration.done' ORDER BY seq"
        ).fetchall()
    store.close()

    assert all(list(event) == columns for event in exported)
    assert [count for _, count in attempts] == [3, 1, 2]
    assert results == [(3,), (1,), (2,)]


@pytest.mark.spec("EVT-26", "REP-05")
def test_an_execution_can_be_reconstructed_from_the_exported_rows(
    exported: list[dict[str, Any]],
) -> None:
    """Audit without NoETL: who did what, inside what, in which order."""
    runs = {e["step_run_id"]: e["step"] for e in exported if e["step_run_id"]}
    inside = [e for e in exported if e["entity_type"] in ("task", "loop", "next")]

    assert [e["seq"] for e in exported] == list(range(1, len(exported) + 1))
    assert sorted(runs.values()) == ["end", "start"]
    assert {e["parent_id"] for e in inside} == runs.keys()
