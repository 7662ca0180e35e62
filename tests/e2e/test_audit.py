"""``noetl verify --execution``: a log that somebody changed is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
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
