"""What only reads runs nothing of a playbook, renders no data and changes nothing."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HELLO, Api, Running, playbook

from noetl.api.app import endpoints

TEMPLATES = {
    "workload": "{{ 7 * 7 }} {% for a in range(3) %}x{% endfor %}",
    "secret": "{{ keychain.kept }}",
    "context": "{{ workload }}{{ ctx }}",
}


def code_everywhere(marker: Path) -> str:
    """A playbook each task of which would leave the marker if it ran."""
    opens = f"open({str(marker)!r}, 'w')"
    copy = f"COPY (SELECT 1) TO '{marker}'"
    touch = f"touch {marker}"
    tools = [
        {"kind": "python", "code": f"{opens}\ndef main(): {opens}"},
        {"kind": "shell", "command": touch},
        {"kind": "script", "interpreter": "sh", "command": touch},
        {"kind": "duckdb", "command": copy},
        {"kind": "noop", "result": f"{{{{ {opens} }}}}"},
    ]
    steps = f"- {json.dumps({'step': 'start', 'tool': tools})}"
    root = f"workload:\n  a: !!python/object/apply:os.mkdir ['{marker}']\n"
    return playbook("reads", steps, root=root)


def without_mistakes(text: str) -> str:
    """What of it is valid: it would run."""
    valid = re.sub(r"workload:\n.*\n", "", text)
    return re.sub(r', \{"kind": "noop".*?\}\}"\}', "", valid)


@pytest.mark.parametrize(
    "command",
    [["validate"], ["validate", "--canonical"], ["verify"], ["graph"], ["migrate"]],
    ids=" ".join,
)
def test_commands_that_read_a_playbook_run_nothing_of_it(
    tmp_path: Path, command: list[str]
) -> None:
    marker, file = tmp_path / "marker", tmp_path / "book.yaml"
    for text in (code_everywhere(marker), without_mistakes(code_everywhere(marker))):
        file.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "noetl", *command, str(file)],
            env={**os.environ, "NOETL_HOME": str(tmp_path / "home")},
            cwd=tmp_path,
            capture_output=True,
        )
        assert not marker.exists()
        assert b"Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["/api/validate", "/api/catalog"])
def test_routes_that_read_a_playbook_run_nothing_of_it(
    admin: Api, tmp_path: Path, path: str
) -> None:
    marker = tmp_path / "marker"
    hostile = code_everywhere(marker)

    refused = admin.post(path, {"playbook": hostile})
    taken = admin.post(path, {"playbook": without_mistakes(hostile)})

    assert refused.status in (200, 422), refused.body
    assert taken.status in (200, 201), taken.body
    assert not marker.exists()


def test_data_that_look_like_templates_stay_data(running: Running, admin: Api) -> None:
    """By a workload and by a signal, of a caller who may not write templates."""
    text = playbook(
        "data",
        """
        - step: start
          tool:
            - hears: {kind: wait, signal: go}
            - shows: {kind: noop, result: ["{{ workload.given }}", "{{ _prev }}"]}
        """,
        root="workload: {given: {}}\n",
    )
    assert admin.post("/api/catalog", {"playbook": text}).status == 201
    operator = running.person("data-operator", "operator:tests/data")
    body = {"path": "tests/data", "workload": {"given": TEMPLATES}}
    execution_id = operator.post("/api/executions", body).body["execution_id"]
    operator.await_event(execution_id, "task.suspended")
    signal = {"name": "go", "data": TEMPLATES}
    operator.post(f"/api/executions/{execution_id}/signal", signal)

    document = operator.finish(execution_id)

    assert document["status"] == "completed", document["error"]
    given, heard = document["result"]
    assert given == TEMPLATES
    assert heard.get("data", heard) == TEMPLATES


ESCAPES = """
        - step: start
          tool:
            - prints:
                kind: python
                code: |
                  print("\\x1b[31m printed \\x1b]0;title\\x07")
                  result = {"\\x1b[1m key": "\\x1b[2J value \\x9b1m \\r"}
            - fails:
                kind: python
                code: raise ValueError("\\x1b[2J failed")
"""


def test_no_command_prints_control_characters_of_data(tmp_path: Path) -> None:
    file = tmp_path / "book.yaml"
    file.write_text(playbook("escapes", ESCAPES, 'workload: {given: "\\e[2J\\a"}\n'))
    environ = {**os.environ, "NOETL_HOME": str(tmp_path / "home")}
    for command in (
        *(["run", str(file)], ["show", "last"], ["list"]),
        *(
            ["events", "last"],
            ["replay", "last"],
            ["sql", "select payload from events"],
        ),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "noetl", *command],
            env=environ,
            capture_output=True,
            encoding="utf-8",
        )
        printed = done.stdout + done.stderr
        assert printed, command
        assert "ValueError" in printed or command[0] not in ("run", "show"), printed
        found = {char for char in printed if unicodedata.category(char) == "Cc"}
        assert found <= {"\n", "\t"}, (command, found)


# -- GET ------------------------------------------------------------------------------

CREDENTIALS_USED = re.compile(r'^INSERT INTO "?(?:token|sqlite_stat)')


def contents(home: Path) -> dict[str, Any]:
    """All rows and files of a home, but for when tokens were used."""
    found: dict[str, Any] = {}
    for file in sorted(home.rglob("*")):
        if file.suffix == ".db":
            with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
                rows = [row for row in db.iterdump() if not CREDENTIALS_USED.match(row)]
            db.close()
            found[str(file)] = rows
        elif file.is_file() and not file.name.endswith(("-wal", "-shm", ".log")):
            found[str(file)] = file.read_bytes()
    return found


def test_no_get_changes_anything(fresh: Running) -> None:
    """A page of another site can send one, and a crawler does (RELIABILITY 4.3)."""
    api = Api(fresh.url, fresh.token)
    api.post("/api/catalog", {"playbook": HELLO})
    api.run(HELLO)
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    api.post("/api/users", {"name": "ann", "roles": ["viewer"]})
    api.post("/api/keychain/kept", {"value": "a-secret-value"})
    trigger = {
        "name": "daily",
        "path": "tests/hello",
        "schedule": {"cron": "0 0 1 1 *"},
    }
    api.post("/api/triggers", trigger)
    known = {"execution_id": execution_id, "path": "tests/hello", "name": "daily"}
    before = contents(fresh.home.folder)

    answered = 0
    for endpoint in endpoints():
        if endpoint.method == "GET":
            path = re.sub(
                r"\{(\w+)(?::\w+)?\}", lambda m: known.get(m[1], "x"), endpoint.path
            )
            for method in ("GET", "HEAD"):
                answered += api.call(method, path).status == 200

    assert answered > 30
    assert contents(fresh.home.folder) == before
