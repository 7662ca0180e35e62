"""``noetl verify --execution``: a log that somebody changed is found out."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

FLOW = """
- step: start
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: noop, result: "{{ iter.x }}"}}, {b: {kind: wait, for: 10ms}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
"""


def tamper(shell: Any, statement: str) -> None:
    with closing(sqlite3.connect(shell.home / "log.db")) as db:
        db.execute("DROP TRIGGER event_is_never_changed")
        db.execute("DROP TRIGGER event_is_never_removed")
        db.execute(statement)
        db.commit()


@pytest.mark.spec("EVT-01", "REP-05")
def test_an_honest_log_is_intact(shell: Any) -> None:
    shell.run(shell.write("flow", FLOW))
    shell.run(shell.write("bad", "- {step: start, tool: {kind: nop}}"))

    done = shell.noetl("verify", "--execution", "all", "--json")
    found = json.loads(done.stdout)["executions"]

    assert done.returncode == 0
    assert [each["intact"] for each in found] == [True, True]


@pytest.mark.spec("EVT-01")
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "UPDATE event SET body = replace(body, '\"result\":2', '\"result\":9')",
            "is not what was recorded",
        ),
        ("DELETE FROM event WHERE key % 4294967296 = 9", "event 9 is missing"),
        ("DELETE FROM event WHERE key % 4294967296 > 20", "event 21 is missing"),
    ],
)
def test_a_changed_log_is_broken(shell: Any, statement: str, words: str) -> None:
    document = shell.run(shell.write("flow", FLOW))
    tamper(shell, statement)

    done = shell.noetl("verify", "--execution", document["execution_id"])

    assert done.returncode == 1
    assert words in done.stdout


def test_it_checks_playbooks_or_executions(shell: Any) -> None:
    assert "name playbooks, or an execution" in shell.noetl("verify").stderr
    both = shell.noetl("verify", shell.write("flow", FLOW), "--execution", "all")
    assert both.returncode == 2
