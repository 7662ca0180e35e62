"""A process dies at one point after the other: the end is the same.

A run takes every fifth passing of each point, from a random one on; ``make nightly``
takes all of them, and ``KILL_POINTS_SEED`` repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from campaign import FULL

HERE = Path(__file__).parent
SEED = os.environ.get("KILL_POINTS_SEED") or secrets.token_hex(4)
STRIDE = 1 if FULL else 5
POINTS = (
    "before the claim",
    "after the claim",
    "before the blob",
    "after the blob",
    "before the commit",
    "after the commit",
    "before the tool",
    "after the tool",
)
PARENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: tests/parent}
workflow:
  - step: each
    loop: {in: [1, 2], iterator: i, spec: {mode: parallel}}
    tool:
      - count:
          kind: python
          args: {i: "{{ iter.i }}", attempt: "{{ _attempt }}"}
          code: |
            def main(i, attempt):
                if attempt < 2:
                    raise ValueError("not yet")
                return "x" * (i * 40_000)
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: retry, attempts: 3}
                - else:
                    then:
                      do: continue
                      set_iter: {size: "{{ outcome.result | length }}"}
      - call: {kind: playbook, path: tests/child, args: {n: "{{ iter.size }}"}}
    next:
      arcs:
        - step: nap
          when: "{{ event.name == 'loop.done' }}"
          args: {sizes: "{{ event.payload.results }}"}
  - step: nap
    tool:
      - wait: {kind: wait, for: 10ms}
      - keep:
          kind: noop
          result: "{{ args.sizes | sum }}"
          spec:
            policy:
              rules:
                - else: {then: {do: continue, set_ctx: {sum: "{{ outcome.result }}"}}}
"""
CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: tests/child}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ workload.n + 1 }}"}
"""


def run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "NOETL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def listed(home: Path, name: str) -> list[dict[str, Any]]:
    found = json.loads(run(home, "-m", "noetl", "list", "--json").stdout)["executions"]
    return [each for each in found if each["playbook"]["name"] == name]


def check_events(home: Path, execution_id: str) -> None:
    lines = run(home, "-m", "noetl", "events", execution_id, "--json").stdout
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    done = [
        (event["task_run_id"], event["attempt"])
        for event in events
        if event["name"] == "task.done"
    ]
    assert len(done) == len(set(done)), "a task that was done ran again"


@pytest.mark.spec("ACC-12", "S-37", "S-45", "S-48", "S-68")
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_passing_of_a_point_it_ends_the_same(
    tmp_path: Path, point: str
) -> None:
    (tmp_path / "parent.yaml").write_text(PARENT)
    (tmp_path / "child.yaml").write_text(CHILD)
    print(f"KILL_POINTS_SEED={SEED}")  # noqa: T201
    first = random.Random(f"{SEED} {point}").randint(1, STRIDE)
    for number in count(first, STRIDE):
        home = tmp_path / f"home-{number}"
        playbook = str(tmp_path / "parent.yaml")
        died = run(home, str(HERE / "kill_points.py"), playbook, point, str(number))
        if died.returncode == 3:
            break
        assert died.returncode == -9, died.stderr
        parents = listed(home, "parent")
        if not parents:  # it died before the request was on record: nothing was begun
            assert number == 1 or "blob" in point or "commit" in point, number
            continue
        [parent] = parents
        end = run(home, "-m", "noetl", "resume", parent["execution_id"], "--json")
        assert end.stdout, (number, end.stderr)
        document = json.loads(end.stdout)
        assert document["status"] == "completed", (number, document["error"])
        assert document["ctx"] == {"sum": 120_002}
        assert [child["status"] for child in listed(home, "child")] == ["completed"] * 2
        check_events(home, parent["execution_id"])
    assert number > 2, "the point was hardly passed"
