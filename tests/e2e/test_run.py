"""``noetl run`` and its neighbours as their user sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HELLO = HEAD + (
    "workload: {n: 3}\n"
    "workflow:\n"
    "  - step: start\n"
    '    tool: {kind: python, args: {n: "{{ workload.n }}"}, code: result = n + 1}\n'
    "    next:\n"
    "      arcs:\n"
    "        - step: end\n"
    "          when: \"{{ event.name == 'step.done' }}\"\n"
    '          args: {got: "{{ event.payload.result }}"}\n'
    "  - step: end\n"
    '    tool: {kind: noop, result: "{{ args.got }}"}\n'
)
FAILING = HEAD + (
    "workflow:\n  - step: start\n    tool: {kind: python, code: result = 1 / 0}\n"
)
DOCUMENT_KEYS = {
    "waits",
    *("execution_id", "status", "playbook", "error", "workload", "ctx", "result"),
    *("no_arc_fired", "not_reached"),
    *("ignored_errors", "counts", "warnings", "undefined_names", "labels"),
    *("steps", "events", "started_at", "duration_ms", "forked_from", "concurrency"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def noetl(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "noetl", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write(folder: Path, text: str) -> str:
    (folder / "playbook.yaml").write_text(text)
    return "playbook.yaml"


@pytest.mark.spec("WRK-01", "NEXT-11", "S-11", "S-40")
def test_a_run_prints_its_document(folder: Path) -> None:
    done = noetl("run", write(folder, HELLO), "--set", "n=41", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert document.keys() == DOCUMENT_KEYS
    assert (document["status"], document["result"]) == ("completed", 42)
    assert [step["step"] for step in document["steps"]] == ["start", "end"]
    assert document["workload"] == {"n": 41}


def test_a_misspelled_input_gets_a_suggestion(folder: Path) -> None:
    steps = "workflow:\n  - step: start\n    tool: {kind: noop}\n"
    text = HEAD + "workload: {region: eu}\n" + steps

    done = noetl("run", write(folder, text), "--set", "regoin=us", "--set", "new=1")

    assert "--set regoin: workload has no 'regoin', but it has 'region'" in done.stderr
    assert "new" not in done.stderr


@pytest.mark.spec("S-09", "OUT-04", "OUT-12")
def test_an_unhandled_failure_is_exit_code_1_and_names_the_step(folder: Path) -> None:
    done = noetl("run", write(folder, FAILING), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["status"] == "failed"
    assert document["error"]["kind"] == "tool.exception"
    assert document["error"]["step"] == "start"


@pytest.mark.spec("OUT-04", "OUT-12", "S-09")
def test_an_error_of_python_code_is_shown_in_its_line_of_the_file(folder: Path) -> None:
    text = HEAD + (
        "workflow:\n"
        "  - step: start\n"
        "    loop: {in: [2, 0], iterator: n}\n"
        "    tool:\n"
        "      kind: python\n"
        '      args: {n: "{{ iter.n }}"}\n'
        "      code: |\n"
        "        def main(n):\n"
        "            return 1 / n\n"
    )
    lines = [
        "  tool.exception in step 'start', iteration 1: "
        "ZeroDivisionError: division by zero",
        "    playbook.yaml:12 in main",
        "       12 |             return 1 / n",
        "          |             ^^^^^^^^^^^^",
    ]

    done = noetl("run", write(folder, text))
    shown = noetl("show", "last")
    document = json.loads(noetl("show", "last", "--json").stdout)

    assert "\n".join(lines) in done.stdout
    assert "\n".join(lines).replace("playbook.yaml", "tests/t") in shown.stdout
    for printed in (done.stdout, shown.stdout):
        assert printed.count("ZeroDivisionError") == 1
        assert printed.endswith(
            f"  look: noetl show {document['execution_id']} --html\n"
            f"  again: noetl retry {document['execution_id']}\n"
        )
    assert document["error"]["place"]["line"] == 12
    assert document["steps"][0]["error"]["place"] == document["error"]["place"]


@pytest.mark.spec("SRV-06", "S-42")
def test_an_invalid_playbook_does_not_run(folder: Path) -> None:
    done = noetl("run", write(folder, HELLO.replace("kind: noop", "kind: nop")))
    assert done.returncode == 2
    assert "did you mean 'noop'?" in done.stderr
    assert "noetl test" not in done.stderr
    [line] = json.loads(noetl("list", "--json").stdout)["executions"]
    assert (line["status"], line["error"]["kind"]) == ("failed", "playbook.invalid")


def test_running_a_test_file_gives_the_right_command(folder: Path) -> None:
    (folder / "playbook.test.yaml").write_text("cases: []\n")

    done = noetl("run", "playbook.test.yaml")

    assert done.returncode == 2
    assert "it looks like a test: noetl test playbook.test.yaml" in done.stderr


@pytest.mark.spec("S-42", "SRV-06")
def test_an_invalid_request_is_on_record_with_its_diagnostics(folder: Path) -> None:
    file = write(folder, HELLO.replace("kind: noop", "kind: nop"))
    done = noetl("run", file, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"], document["steps"]) == (2, "failed", [])
    assert document["error"]["diagnostics"][0]["hint"] == "did you mean 'noop'?"
    lines = noetl("events", document["execution_id"], "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [(event["name"], event["status"]) for event in events] == [
        ("playbook.execution.requested", "in_progress"),
        ("playbook.request.evaluated", "error"),
        ("playbook.processed", "error"),
    ]
    again = noetl("resume", document["execution_id"], "--json")
    assert json.loads(again.stdout)["error"] == document["error"]


@pytest.mark.spec("EVT-01", "EVT-02", "EVT-08", "S-44")
def test_the_log_is_gapless_and_replays_to_the_same_end(folder: Path) -> None:
    document = json.loads(noetl("run", write(folder, HELLO), "--json").stdout)
    execution = document["execution_id"]
    lines = noetl("events", execution, "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len(events) == document["events"]
    state = json.loads(noetl("replay", execution, "--json").stdout)
    assert (state["status"], state["seq"]) == ("completed", len(events))
    shown = json.loads(noetl("show", execution, "--json").stdout)
    assert shown == document


@pytest.mark.spec("S-39")
def test_interrupted_once_it_pauses_and_resume_ends_it(folder: Path) -> None:
    started = folder / "started"
    shell = f"touch {started}; sleep 1; echo -n a"
    text = HEAD + (
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        f"      - wait: {{kind: shell, command: '{shell}'}}\n"
        '      - then: {kind: noop, result: "{{ _prev.stdout }}b"}\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl", "run", write(folder, text), "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    while not started.exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    document = json.loads(process.communicate()[0])
    assert (process.returncode, document["status"]) == (130, "paused")
    done = noetl("resume", document["execution_id"], "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"] == "ab"


@pytest.mark.spec("S-36")
def test_a_timeout_cancels_it(folder: Path) -> None:
    text = HEAD + (
        "workflow:\n  - step: start\n    tool: {kind: shell, command: sleep 60}\n"
    )
    done = noetl("run", write(folder, text), "--timeout", "500ms", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (1, "cancelled")
    assert document["error"]["kind"] == "timeout"


@pytest.mark.spec("PIPE-10", "S-35")
def test_a_knob_may_be_a_template(folder: Path) -> None:
    text = HEAD + (
        "workload: {patience: 100ms}\n"
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      kind: shell\n"
        "      command: sleep 60\n"
        '      spec: {timeout: "{{ workload.patience }}"}\n'
    )
    done = noetl("run", write(folder, text), "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"]) == (1, "timeout")


@pytest.mark.spec("S-62")
def test_two_runs_at_once_share_a_home(folder: Path) -> None:
    name = write(folder, HELLO)
    command = [sys.executable, "-m", "noetl", "run", name, "--no-progress"]
    pair = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ))
        for _ in range(2)
    ]
    assert [process.wait() for process in pair] == [0, 0]
    assert len(json.loads(noetl("list", "--json").stdout)["executions"]) == 2


@pytest.mark.spec("OUT-08", "C-44")
def test_every_outcome_and_every_event_belongs_to_a_trace(folder: Path) -> None:
    document = json.loads(noetl("run", write(folder, HELLO), "--json").stdout)
    lines = noetl("events", "last", "--json").stdout.splitlines()
    events = [json.loads(line) for line in lines]
    trace = document["execution_id"].replace("-", "")

    assert {event["trace_id"] for event in events} == {trace}
    for event in events:
        assert len(event["span_id"]) == 16
        if event["name"] == "task.done":
            meta = event["payload"]["outcome"]["meta"]
            assert (meta["trace_id"], meta["span_id"]) == (trace, event["span_id"])


def test_the_last_execution_need_not_be_spelled(folder: Path) -> None:
    assert "no execution" in noetl("show", "last").stderr
    noetl("run", write(folder, HELLO))
    document = json.loads(noetl("run", write(folder, HELLO), "--json").stdout)

    shown = json.loads(noetl("show", "last", "--json").stdout)
    assert shown["execution_id"] == document["execution_id"]
