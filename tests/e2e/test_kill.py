"""``kill -9`` of ``noetl run`` loses nothing: ``resume`` ends as if undisturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from campaign import FULL
from seeds import seed_of

ITERATIONS = 1_000 if FULL else 600
KILLS = 60 if FULL else 15
ENOUGH = KILLS // 3
"""Kills without which a run proves nothing; a fast machine ends before the last."""
PLAYBOOK = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: ledger, path: tests/ledger}}
workload: {{ledger: ""}}
workflow:
  - step: each
    loop:
      in: "{{{{ range({ITERATIONS}) }}}}"
      iterator: i
      spec: {{mode: parallel, max_in_flight: 8}}
    tool:
      - write:
          kind: python
          args: {{i: "{{{{ iter.i }}}}", ledger: "{{{{ workload.ledger }}}}"}}
          code: |
            import os
            def main(i, ledger):
                line = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                os.write(line, f"{{i}}\\n".encode())
                os.close(line)
                return i + 1
      - double:
          kind: noop
          result: "{{{{ _prev * 2 }}}}"
          spec:
            policy:
              rules:
                - when: "{{{{ iter.i % 100 == 7 }}}}"
                  then: {{do: continue, set_ctx: {{seen: true}}}}
                - else: {{then: {{do: continue, set_iter: {{seen: true}}}}}}
      - last: {{kind: noop, result: "{{{{ [_prev, iter.seen | default(false)] }}}}"}}
    next:
      arcs:
        - step: sum
          when: "{{{{ event.name == 'loop.done' }}}}"
          args:
            total: "{{{{ event.payload.results | map('first') | sum }}}}"
            seen: "{{{{ event.payload.results | map('last') | select | length }}}}"
  - step: sum
    tool:
      kind: noop
      result: "{{{{ args }}}}"
      spec:
        policy: {{rules: [{{else: {{then: {{do: continue, set_ctx: {{sum: 1}}}}}}}}]}}
"""


class Cli:
    """The command as its user runs it, with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._env = {**os.environ, "NOETL_HOME": str(home)}

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "noetl", *args],
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str) -> str:
        process = self.start(*args)
        stdout, stderr = process.communicate()
        assert process.returncode == 0, stderr
        return stdout

    def events(self, execution_id: str) -> list[dict[str, Any]]:
        lines = self.run("events", execution_id, "--json").splitlines()
        return [json.loads(line) for line in lines]


def wait_for_lines(ledger: Path, count: int, process: subprocess.Popen[str]) -> int:
    """Until the ledger has so many lines, or the process has ended; how many it has."""
    found = 0
    while process.poll() is None and found < count:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.002)
        found = ledger.read_text().count("\n") if ledger.exists() else 0
    return found


def stored_rows(home: Path) -> dict[int, tuple[bytes, bytes]]:
    """Hash and body of every row of the log, by its key."""
    with closing(sqlite3.connect(home / "log.db")) as db:
        rows = db.execute("SELECT key, hash, body FROM batch").fetchall()
        return {key: (hash_, body) for key, hash_, body in rows}


def outcomes(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What each iteration ended with."""
    return {
        event["iteration_id"].partition("/")[2]: event["payload"]["result"]
        for event in events
        if event["name"] == "loop.iteration.done"
    }


@pytest.mark.spec("ACC-12", "S-45", "S-46", "REP-03", "WRK-05")
def test_killed_at_random_and_resumed_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    seed = int(seed_of("KILL_SEED"))
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    playbook, ledger = tmp_path / "ledger.yaml", tmp_path / "ledger.txt"
    playbook.write_text(PLAYBOOK)
    calm = Cli(tmp_path / "calm")
    quiet = f"ledger={tmp_path / 'calm.txt'}"
    undisturbed = json.loads(calm.run("run", str(playbook), "--set", quiet, "--json"))

    cli = Cli(tmp_path / "home")
    process = cli.start("run", str(playbook), "--set", f"ledger={ledger}", "--json")
    kills, lines, execution_id = 0, 0, ""
    stored: dict[int, tuple[bytes, bytes]] = {}
    while kills < KILLS:
        lines += chance.randrange(1, 12)
        lines = wait_for_lines(ledger, lines, process)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        found = stored_rows(cli.home)
        assert stored.items() <= found.items()
        stored = found
        if not execution_id:
            (listed,) = json.loads(cli.run("list", "--json"))["executions"]
            execution_id = listed["execution_id"]
        process = cli.start("resume", execution_id, "--json")
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    document = json.loads(stdout)
    assert kills >= ENOUGH, f"it was killed {kills} times only"
    for member in ("status", "ctx", "result"):
        assert document[member] == undisturbed[member], member
    assert document["steps"][0]["iterations"] == undisturbed["steps"][0]["iterations"]
    assert stored.items() <= stored_rows(cli.home).items()
    events = cli.events(execution_id)
    assert outcomes(events) == outcomes(calm.events(undisturbed["execution_id"]))
    check_log(events, ledger)


def check_log(events: list[dict[str, Any]], ledger: Path) -> None:
    """No gap, no task done twice, and every repeated effect accounted for."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    done = Counter(
        (event["iteration_id"], event["task_label"])
        for event in events
        if event["name"] == "task.done"
    )
    assert set(done.values()) == {1}
    in_doubt = [
        event
        for event in events
        if event["name"] == "task.started" and "in_doubt" in event["payload"]
    ]
    written = Counter(ledger.read_text().split())
    assert set(written) == {str(i) for i in range(ITERATIONS)}
    assert sum(written.values()) - ITERATIONS <= len(in_doubt)
