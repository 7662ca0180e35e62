"""``noetl verify --execution``: a log that somebody changed is found out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from stored_log import SqliteLog, row_of

FLOW = """
- step: start
  loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: noop, result: "{{ iter.x }}"}}, {b: {kind: wait, for: 10ms}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: {kind: noop}}
"""


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
    ("tamper", "words"),
    [
        pytest.param(
            lambda log, seq: log.change(edit),
            "one of the events {first} to {last} is not what was recorded",
            id="an event is edited",
        ),
        pytest.param(
            lambda log, seq: log.write(seq, b"no JSON"),
            "one of the events {first} to {last} is not what was recorded",
            id="an event becomes something else",
        ),
        pytest.param(
            lambda log, seq: log.cut(seq),
            "event {first} is missing",
            id="an event is taken out of its row",
        ),
        pytest.param(
            lambda log, seq: log.remove([seq]),
            "event {first} is missing",
            id="a row is gone",
        ),
        pytest.param(
            lambda log, seq: log.remove(range(seq, len(log) + 1)),
            "event {first} is missing, of {end}",
            id="the end is gone",
        ),
    ],
)
def test_a_changed_log_is_broken(
    shell: Any, tamper: Callable[[SqliteLog, int], None], words: str
) -> None:
    """The execution is named, and the event, or the events that share its row."""
    execution_id = shell.run(shell.write("flow", FLOW))["execution_id"]
    log = SqliteLog(shell.home / "log.db", execution_id)
    end = len(log)
    seq = next(n for n in range(1, end + 1) if b'"result":2' in log.read(n))
    row = row_of(log.rows(), seq)
    assert row.first_seq < row.last_seq < end
    tamper(log, seq)

    done = shell.noetl("verify", "--execution", execution_id)
    as_json = shell.noetl("verify", "--execution", execution_id, "--json")
    [found] = json.loads(as_json.stdout)["executions"]

    assert (done.returncode, as_json.returncode) == (1, 1)
    said = words.format(first=row.first_seq, last=row.last_seq, end=end)
    assert f"{execution_id}: event {row.first_seq}: {said} [I-04]" in done.stdout
    assert (found["execution_id"], found["intact"]) == (execution_id, False)
    assert (found["breaches"][0]["seq"], found["breaches"][0]["message"]) == (
        row.first_seq,
        said,
    )


def edit(seq: int, body: bytes) -> bytes | None:
    return body.replace(b'"result":2', b'"result":9') if b'"result":2' in body else None


def test_it_checks_playbooks_or_executions(shell: Any) -> None:
    assert "name playbooks, or an execution" in shell.noetl("verify").stderr
    both = shell.noetl("verify", shell.write("flow", FLOW), "--execution", "all")
    assert both.returncode == 2


def test_a_finding_says_what_was_expected_and_what_to_do(shell: Any) -> None:
    execution_id = shell.run(shell.write("flow", FLOW))["execution_id"]
    with closing(sqlite3.connect(shell.home / "log.db")) as db, db:
        db.execute(
            "INSERT INTO command (command_id, execution, family, rank, pool, state, "
            "not_before, epoch, owner, expires_at) SELECT execution_id || '-9', "
            "number, number, 1, 'default', 'leased', 0, 1, 'x', 9e9 FROM execution"
        )

    done = shell.noetl("verify", "--execution", execution_id[-8:])
    as_json = shell.noetl("verify", "--execution", "all", "--json")

    found, expected, do, last = done.stdout.splitlines()
    name = f"{execution_id}-9"
    assert found.endswith(f"there is a command {name}, leased to x [I-16]")
    assert expected == "    expected: none: the log has no such open pipeline"
    assert do.startswith("    do: stop what uses the store, and delete the row")
    assert last.endswith("events: broken")
    assert (done.returncode, as_json.returncode) == (1, 1)
    document = json.loads(as_json.stdout)
    [execution] = document["executions"]
    [breach] = execution["breaches"]
    assert (document["intact"], document["rows"]) == (False, [])
    assert document["events"] == execution["events"]
    assert breach["seq"] == execution["events"]
    assert breach.keys() == {"invariant", "seq", "message", "expected", "cure"}


def test_all_executions_have_a_summary_with_the_rate(shell: Any) -> None:
    for _ in range(2):
        shell.run(shell.write("flow", "- {step: start, tool: {kind: noop}}"))

    done = shell.noetl("verify", "--execution", "all")

    *lines, last = done.stdout.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == ["intact", "intact"]
    assert last.startswith("2 executions, 0 broken; ")
    assert last.endswith(" a second)")


def test_an_unknown_execution_and_a_silent_database_differ(
    shell: Any,
) -> None:
    nothing = shell.noetl("verify", "--execution", "all", "--json")
    unknown = shell.noetl("verify", "--execution", "0198", "--json")
    shell.set(NOETL_DATABASE="postgresql://noetl@127.0.0.1:1/noetl")
    silent = shell.noetl("verify", "--execution", "0198")

    assert json.loads(nothing.stdout)["executions"] == []
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "run it where the server's database is set" in unknown.stderr
    assert silent.returncode == 3
