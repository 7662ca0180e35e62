"""Task logs as their users see them, and what is left of them after a kill."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running, WorkerProcess, playbook

TALKS = """
- step: talk
  loop: {in: "{{ [0, 1] }}", iterator: n}
  tool:
    - say:
        kind: python
        args: {n: "{{ iter.n }}"}
        code: |
          import logging, sys
          def main(n):
              print("number", n)
              logging.warning("careful")
              print("\\x1b[31mred\\x1b[0m", file=sys.stderr)
  next: {arcs: [{step: fail}]}
- step: fail
  tool:
    kind: shell
    command: echo attempt $NOETL_ATTEMPT; exit 3
    spec:
      policy:
        rules:
          - when: "{{ outcome.status == 'error' }}"
            then: {do: retry, attempts: 2}
"""
FOLLOWED = """
- step: first
  tool:
    kind: shell
    command: echo one; cat $FIFO
    env: {FIFO: "{{ workload.fifo }}"}
"""
TICKS = playbook(
    "ticks",
    """
    - step: start
      tool:
        kind: python
        args: {file: "{{ workload.file }}"}
        spec: {timeout: 60}
        code: |
          import os, time
          def main(file):
              if os.path.exists(file):
                  print("again")
                  return
              with open(file, "w") as beside:
                  while True:
                      now = time.time()
                      print(now)
                      beside.write(f"{now}\\n")
                      beside.flush()
                      time.sleep(0.005)
    """,
    root="workload: {file: ''}\n",
)


@pytest.fixture
def talked(shell: Any) -> Any:
    done = shell.noetl("run", shell.write("talks", TALKS))
    assert done.returncode == 1
    return done


def test_run_prints_lines_under_their_steps_on_stderr(talked: Any) -> None:
    assert "talk[0].say │ number 0\ntalk[0].say │ careful\n" in talked.stderr
    assert "talk[1].say │ red\n" in talked.stderr
    assert "fail │ attempt 1\n" in talked.stderr
    assert "fail #2 │ attempt 2\n" in talked.stderr
    assert "│" not in talked.stdout


@pytest.mark.parametrize("option", ["--no-logs", "--no-progress", "--json"])
def test_run_prints_no_lines_if_asked(shell: Any, option: str) -> None:
    done = shell.noetl("run", shell.write("talks", TALKS), option)
    assert "number 0" not in done.stdout + done.stderr


@pytest.mark.usefixtures("talked")
def test_logs_prints_the_lines_again(shell: Any) -> None:
    done = shell.noetl("logs", "last")
    lines = [re.sub(r"^ *\d+\.\d{3} ", "", line) for line in done.stdout.splitlines()]
    assert lines == [
        *("talk[0].say │ number 0", "talk[0].say │ careful", "talk[0].say │ red"),
        *("talk[1].say │ number 1", "talk[1].say │ careful", "talk[1].say │ red"),
        *("fail │ attempt 1", "fail #2 │ attempt 2"),
    ]


@pytest.mark.usefixtures("talked")
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--step", "fail", "--attempt", "2"], ["attempt 2"]),
        (["--iteration", "1", "--task", "say", "--stream", "stdout"], ["number 1"]),
        (["--level", "warning"], ["careful", "careful"]),
        (["--step", "talk", "--iteration", "7"], []),
        (["--step", "talk", "--lines", "-2"], ["careful", "\x1b[31mred\x1b[0m"]),
        (["--lines", "-1", "--follow"], ["attempt 2"]),
        (["--stream", "stdout", "--lines", "1-2"], ["number 1", "attempt 1"]),
        (["--follow", "--stream", "stderr"], ["\x1b[31mred\x1b[0m"] * 2),
    ],
)
def test_logs_selects_lines(shell: Any, options: list[str], wanted: list[str]) -> None:
    done = shell.noetl("logs", "last", "--json", *options)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["text"] for line in lines] == wanted


@pytest.mark.usefixtures("talked")
def test_the_report_has_a_log_of_each_attempt(shell: Any) -> None:
    done = shell.noetl("show", "last", "--html", "-")
    assert "WARNING: careful" in done.stdout
    assert done.stdout.count('<span class="label">Log</span>') == 4


def test_the_report_has_the_command_that_prints_a_long_log_whole(shell: Any) -> None:
    many = TALKS.replace('print("number", n)', "[print(n) for _ in range(900 * n)]")
    shell.noetl("run", shell.write("many", many), "--no-logs", "--no-progress")
    page = shell.noetl("show", "last", "--html", "-").stdout
    [command] = re.findall(r"<code>(noetl logs [^<]*)</code> prints all", page)
    lines = shell.noetl(*command.split()[1:], "--json").stdout.splitlines()

    assert command.endswith("--step talk --task say --attempt 1 --iteration 1")
    assert len(lines) == 902


@pytest.mark.usefixtures("talked")
def test_clean_removes_logs_with_their_executions(shell: Any) -> None:
    assert len(list((shell.home / "task-logs").iterdir())) == 1
    done = shell.noetl("clean", "--older-than", "0s")
    assert done.returncode == 0, done.stderr
    assert list((shell.home / "task-logs").iterdir()) == []


def test_follow_prints_lines_while_the_task_runs(shell: Any) -> None:
    fifo = shell.folder / "fifo"
    os.mkfifo(fifo)
    file = shell.write("followed", FOLLOWED, "workload: {fifo: ''}\n")
    running = shell.start("run", file, "--set", f"fifo={fifo}")
    with fifo.open("w") as end:  # opens when the task reads it
        follower = shell.start("logs", "last", "--follow", "--json")
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["text"] == "one"
        end.write("two\n")
    running.communicate()
    rest, _ = follower.communicate()
    assert [json.loads(line)["text"] for line in rest.splitlines()] == ["two"]
    assert running.returncode == 0


def test_a_killed_run_keeps_all_but_the_last_second(shell: Any) -> None:
    beside = shell.folder / "beside"
    (shell.folder / "ticks.yaml").write_text(TICKS)
    running = shell.start("run", "ticks.yaml", "--set", f"file={beside}")
    first = _wait_for(running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    [log] = (shell.home / "task-logs").iterdir()
    stored = _stored(log)
    printed = float(beside.read_text().splitlines()[-1])
    assert stored[0] == first
    assert printed - stored[-1] <= 1.0
    resumed = shell.noetl("resume", "last")
    assert "start │ again" in resumed.stderr
    lines = shell.noetl("logs", "last", "--json").stdout.splitlines()
    epochs = [json.loads(line)["epoch"] for line in lines]
    assert epochs[-1] > epochs[0], "both attempts are kept, apart"
    assert epochs[:-1] == [epochs[0]] * len(stored)


def _wait_for(running: Any) -> float:
    """Wait for the first line that the run shows, and return its number."""
    for line in running.stderr:
        if "│" in line:
            return float(line.partition("│")[2])
    raise AssertionError("nothing was printed")


def _stored(log: Path) -> list[float]:
    chunks = [json.loads(line) for line in log.read_bytes().splitlines()]
    texts = [text[3] for chunk in chunks for text in chunk["texts"]]
    return [float(line) for text in texts for line in text.split("\n")]


def test_a_killed_worker_of_a_cluster_keeps_all_but_the_last_second(
    tmp_path: Path, postgres: str
) -> None:
    server = Running(tmp_path / "home", slots=0, lease_ttl=2.0, database=postgres)
    api = Api(server.url, server.token)
    worker = WorkerProcess(tmp_path / "worker", server.url, server.token or "")
    beside = tmp_path / "beside"
    try:
        execution_id = api.start(TICKS, workload={"file": str(beside)})
        place = f"/api/executions/{execution_id}/logs"
        while len(api.get(place).body["lines"]) < 200:
            pass
        worker.kill()
        lines = _all_lines(api, place)
        printed = float(beside.read_text().splitlines()[-1])
        assert printed - float(lines[-1]["text"]) <= 1.0
        second = WorkerProcess(tmp_path / "worker", server.url, server.token or "")
        api.finish(execution_id)
        second.stop()
        last = _all_lines(api, place)[-1]
        assert (last["text"], last["attempt"], last["epoch"]) == ("again", 1, 2)
    finally:
        server.stop()


def _all_lines(api: Api, place: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    page = api.get(f"{place}?limit=1000").body
    while page["lines"]:
        lines += page["lines"]
        page = api.get(f"{place}?limit=1000&after={page['cursor']}").body
    return lines
