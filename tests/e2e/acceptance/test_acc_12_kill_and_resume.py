"""ACC-12: server and worker are killed in a loop; resumed, it ends with the same ctx.

``noetl run`` is both of them in one process, so one SIGKILL takes both.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ITERATIONS = 24
KILL_AT = (4, 11, 19)
"""Iterations that hang when they are first run, until they are killed."""

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sums, path: acceptance/sums}
workload: {folder: "", count: COUNT, hang_at: []}
workflow:
  - step: start
    loop: {in: "{{ range(workload.count) | list }}", iterator: i}
    tool:
      - write:
          kind: python
          args:
            i: "{{ iter.i }}"
            hangs: "{{ iter.i in workload.hang_at }}"
            folder: "{{ workload.folder }}"
          code: |
            from pathlib import Path
            from threading import Event

            def main(i, hangs, folder):
                mark = Path(folder, str(i))
                if hangs and not mark.exists():
                    mark.touch()
                    Event().wait()
                return i * i
      - add:
          kind: noop
          result: "{{ _prev }}"
          spec:
            policy:
              rules:
                - else:
                    then:
                      do: continue
                      set_ctx:
                        sum: "{{ (ctx.sum | default(0)) + _prev }}"
                        order: "{{ (ctx.order | default([])) + [iter.i] }}"
    next:
      arcs:
        - step: end
          when: "{{ event.name == 'loop.done' }}"
  - step: end
    tool:
      kind: noop
      spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {ended: true}}}}]}}
""".replace("COUNT", str(ITERATIONS))


class Cli:
    """The command as its user runs it, in a home and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        (folder / "playbook.yaml").write_text(PLAYBOOK)
        self._env = {**os.environ, "NOETL_HOME": str(folder / "home")}

    def start(self, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "noetl", *args, "--json"]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=self._env, stdout=pipe, stderr=pipe, text=True
        )

    def start_run(self, hang_at: tuple[int, ...]) -> subprocess.Popen[str]:
        sets = [f"folder={self.folder}", f"hang_at={list(hang_at)}"]
        file = str(self.folder / "playbook.yaml")
        return self.start("run", file, "--set", sets[0], "--set", sets[1])

    def ask(self, *args: str) -> Any:
        return json.loads(ended(self.start(*args)))


def ended(process: subprocess.Popen[str]) -> str:
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return stdout


def kill_in(cli: Cli, process: subprocess.Popen[str], iteration: int) -> None:
    """Once the iteration hangs: it cannot end before it is killed."""
    while not (cli.folder / str(iteration)).exists():
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.spec("ACC-12", "REP-02", "REP-03", "S-45", "WRK-05")
def test_killed_in_a_loop_and_resumed_it_ends_with_the_same_ctx(tmp_path: Path) -> None:
    undisturbed = json.loads(ended(Cli(tmp_path / "undisturbed").start_run(())))
    cli = Cli(tmp_path / "killed")
    process = cli.start_run(KILL_AT)
    left: list[dict[str, Any]] = []
    for iteration in KILL_AT:
        kill_in(cli, process, iteration)
        (listed,) = cli.ask("list")["executions"]
        execution_id = listed["execution_id"]
        left.append(cli.ask("replay", execution_id))
        process = cli.start("resume", execution_id)
    document = json.loads(ended(process))

    assert document["ctx"] == undisturbed["ctx"]
    assert document["ctx"] == {
        "sum": sum(i * i for i in range(ITERATIONS)),
        "order": list(range(ITERATIONS)),
        "ended": True,
    }
    assert document["status"] == "completed"
    assert document["steps"][0]["result"] == undisturbed["steps"][0]["result"]
    assert [len(state["ctx"]["order"]) for state in left] == list(KILL_AT)
    for state in left:  # what was left behind is still what the log says of that point
        assert cli.ask("replay", execution_id, "--at", str(state["seq"])) == state


@pytest.mark.spec("ACC-12", "S-46")
def test_what_was_recorded_before_the_kill_is_not_done_again(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "killed")
    kill_in(cli, cli.start_run(KILL_AT[:1]), KILL_AT[0])
    (listed,) = cli.ask("list")["executions"]
    ended(cli.start("resume", listed["execution_id"]))
    lines = ended(cli.start("events", listed["execution_id"])).splitlines()
    events = [json.loads(line) for line in lines]
    started = [e for e in events if e["name"] == "task.started"]
    repeated = [e["iteration_id"] for e in started if "in_doubt" in e["payload"]]

    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    assert len(started) == 2 * ITERATIONS + 2  # two tasks each, one again, and the end
    assert [name.rpartition("/")[2] for name in repeated] == [str(KILL_AT[0])]
