"""Declared inputs: checked before anything starts, by every command and call."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import asyncpg
import pytest
from servers import Api, Running, WorkerProcess
from stored_log import UNFOLDED, contents, unfold

DECLARED = """
metadata:
  name: orders
  path: tests/orders
  inputs:
    type: object
    required: [region]
    properties:
      region: {type: string, enum: [eu, us], description: The market.}
      limit: {type: integer, minimum: 1, default: 10}
"""
STEPS = """
workflow:
  - {step: start, tool: {kind: noop, result: "{{ region }} {{ limit }}"}}
"""
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook"
CALL = """
- step: start
  tool:
    - call:
        kind: playbook
        path: tests/orders
        args: {ARGS}
        spec: {policy: {rules: [{else: {then:
          {do: continue, set_ctx: {outcome: "{{ outcome }}"}}}}]}}
"""


@pytest.fixture
def orders(shell: Any) -> str:
    (shell.folder / "orders.yaml").write_text(HEAD + DECLARED + STEPS)
    return "orders.yaml"


@pytest.mark.spec("S-72", "S-42", "WRK-01")
def test_run_refuses_inputs_that_do_not_fit_and_records_it(
    shell: Any, orders: str
) -> None:
    done = shell.noetl("run", orders, "--no-progress", "--set", "region=asia")
    [refused] = shell.executions("orders")
    events = shell.events(refused["execution_id"])

    assert done.returncode == 2
    assert "inputs.invalid: the inputs do not fit the playbook" in done.stdout
    assert "'region' must be one of 'eu', 'us'" in done.stdout
    assert (refused["status"], refused["error"]["kind"]) == ("failed", "inputs.invalid")
    assert [each["name"] for each in events] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "playbook.processed",
    ]


@pytest.mark.spec("S-72", "S-40")
def test_run_applies_defaults_and_warns_of_an_unknown_input(
    shell: Any, orders: str
) -> None:
    sets = ("--set", "region=eu", "--set", "regoin=us")
    done = shell.noetl("run", orders, "--no-progress", *sets)
    document = shell.run(orders, *sets)

    assert done.returncode == 0
    assert "result: eu 10" in done.stdout
    message = "the playbook declares no input 'regoin'; did you mean 'region'?"
    assert f"warning: --set regoin: {message}" in done.stderr
    assert document["warnings"] == [message]
    assert document["workload"] == {"limit": 10, "region": "eu", "regoin": "us"}
    assert f"warning: {message}" in shell.noetl("show", "last").stdout


@pytest.mark.spec("S-72", "S-37")
def test_a_child_call_that_does_not_fit_is_an_error_outcome(
    shell: Any, orders: str
) -> None:
    parent = shell.write("parent", CALL.replace("ARGS", "region: eu, limit: 0"))
    document = shell.run(parent)
    error = document["ctx"]["outcome"]["error"]
    [child] = shell.executions("orders")

    assert document["status"] == "completed"
    assert (error["kind"], error["retryable"]) == ("inputs.invalid", False)
    assert "'limit' must be 1 or more" in error["message"]
    assert (child["status"], child["error"]["kind"]) == ("failed", "inputs.invalid")


@pytest.mark.spec("S-72", "S-37")
@pytest.mark.parametrize("declared", [True, False])
def test_an_unknown_input_of_a_child_is_warned_about_once(
    shell: Any, declared: bool
) -> None:
    head = DECLARED if declared else "\nmetadata: {name: orders, path: tests/orders}\n"
    head += "" if declared else "workload: {region: eu, limit: 1}\n"
    (shell.folder / "orders.yaml").write_text(HEAD + head + STEPS)
    parent = shell.write("parent", CALL.replace("ARGS", "region: eu, regoin: us"))
    done = shell.noetl("run", parent, "--no-progress")
    shown = shell.noetl("show", "last").stdout

    assert done.returncode == 0, done.stdout
    assert done.stderr.count("warning: playbook 'tests/orders': ") == 1
    assert shown.count("warning: playbook 'tests/orders': ") == 1
    assert "'regoin'" in done.stderr


LABELLED = "metadata: {name: a, path: tests/a, labels: {team: sales, env: prod}}\n"
LABELLED_CALL = """
workflow:
- {step: start, tool: {kind: playbook, path: tests/b, labels: {day: "{{ day }}"}},
   next: {arcs: [{step: wrong}]}}
- {step: wrong, tool: {kind: playbook, path: tests/b, labels: {day: 1}}}
"""


@pytest.mark.spec("S-72", "S-37", "S-76")
def test_labels_of_playbook_request_and_call_are_shown_and_filter_listings(
    shell: Any,
) -> None:
    text = f"{HEAD}\n{LABELLED}workload: {{day: mon}}{LABELLED_CALL}"
    (shell.folder / "a.yaml").write_text(text)
    shell.write("b", "- {step: start, tool: {kind: noop}}")
    document = shell.run("a.yaml", "--label", "env=test", "--label", "by=me")
    shown = shell.noetl("show", document["execution_id"]).stdout
    [first, *_] = shell.events(document["execution_id"])
    retried = shell.noetl("retry", document["execution_id"], "--json")

    def listed(*args: str) -> list[str]:
        done = shell.noetl("list", "--json", *args)
        lines = json.loads(done.stdout)["executions"]
        return [line["execution_id"] for line in lines]

    labels = {"team": "sales", "env": "test", "by": "me"}
    again = json.loads(retried.stdout)
    assert document["labels"] == first["payload"]["labels"] == labels
    assert again["labels"] == labels
    assert "labels: by=me, env=test, team=sales" in shown
    assert document["error"]["kind"] == "tool.contract"
    assert "the label 'day' must be text" in document["error"]["message"]
    [child] = shell.executions("b")
    assert child["labels"] == {"day": "mon"}
    assert listed("--label", "day=mon") == [child["execution_id"]]
    ids = [again["execution_id"], document["execution_id"]]
    assert listed("--label", "team=sales", "--label", "env=test") == ids
    assert listed("--label", "team=sales", "--status", "completed") == []
    assert listed("--label", "env=prod") == []


@pytest.mark.spec("S-72")
def test_a_label_that_is_not_one_is_refused_with_the_rule(shell: Any) -> None:
    file = shell.write("plain", "- {step: start, tool: {kind: noop}}")
    done = shell.noetl("run", file, "--label", "a b=c")

    assert done.returncode == 2
    assert "'a b' is not the name of a label: a name has at most 63" in done.stderr
    assert shell.executions("plain") == []


@pytest.mark.spec("S-72")
def test_without_a_schema_another_type_than_the_default_is_a_warning(
    shell: Any,
) -> None:
    steps = "- {step: start, tool: {kind: noop, result: '{{ workload.n }}'}}"
    file = shell.write("plain", steps, "workload: {n: 1}\n")
    done = shell.noetl("run", file, "--no-progress", "--set", "n=zero")

    message = "'n' is a whole number by default, found text"
    assert (done.returncode, "result: zero" in done.stdout) == (0, True)
    assert f"warning: --set n: {message}" in done.stderr


@pytest.mark.spec("S-72")
def test_the_help_of_run_lists_the_inputs_of_the_file(shell: Any, orders: str) -> None:
    steps = "- {step: start, tool: {kind: noop}}"
    plain = shell.write("plain", steps, "workload: {n: 1, name: ann}\n")
    invalid = shell.write("invalid", "- {step: start, tool: {kind: nop}}")
    declared = shell.noetl("run", orders, "--help")
    inferred = shell.noetl("run", "--help", plain)

    assert declared.returncode == inferred.returncode == 0
    assert "Inputs of orders.yaml:" in declared.stdout
    assert "region  The market. [one of 'eu', 'us'; required]" in declared.stdout
    assert "limit   [a whole number; default 10]" in declared.stdout
    assert 'name  [text; default "ann"]' in inferred.stdout
    assert "noetl validate invalid.yaml" in shell.noetl("run", invalid, "-h").stdout
    assert "Inputs of" not in shell.noetl("run", "--help").stdout


CANARY = "hunter2-canary-7f3a"
SECRET = """
metadata:
  name: sealed
  path: tests/sealed
  inputs:
    type: object
    required: [token]
    properties:
      token: {type: string, minLength: 8, secret: true}
      note: {type: string}
workflow:
  - step: start
    tool:
      - length:
          kind: python
          args: {token: "{{ workload.token }}"}
          code: |
            from pathlib import Path
            from threading import Event
            if Path("hang").exists():
                Path("hang").rename("hung")
                Event().wait()
            result = {"length": len(token), "token": token}
"""
HANDLE = re.compile(r"[0-9a-f]{32}")


@pytest.fixture
def sealed(shell: Any) -> str:
    (shell.folder / "sealed.yaml").write_text(HEAD + SECRET)
    return "sealed.yaml"


def check_sealed(home: Path, document: dict[str, Any]) -> None:
    """Check that log and document hold a handle, and no file holds the secret, which
    is gone at the end."""
    assert b"workflow.started" in check_files(home, document)


def check_files(home: Path, document: dict[str, Any]) -> bytes:
    """Check document and files; return the events of the logs among them."""
    assert not [each for each in (home / "sealed").rglob("*") if each.is_file()]
    assert document["status"] == "completed", document["error"]
    assert document["workload"]["token"].keys() == {"secret"}
    assert HANDLE.fullmatch(document["workload"]["token"]["secret"])
    assert document["result"] == {"length": len(CANARY), "token": "***"}
    found = dict(contents(home))
    assert [name for name, text in found.items() if CANARY.encode() in text] == []
    logs = [text for name, text in found.items() if name.startswith("events of ")]
    return b"\n".join(logs)


@pytest.mark.spec("S-72", "S-41")
def test_a_secret_input_is_sealed_and_masked_elsewhere(shell: Any, sealed: str) -> None:
    document = shell.run(
        sealed,
        *("--set", f"token={CANARY}"),
        *("--set", f"note=a {CANARY}"),
        *("--label", f"note=b {CANARY}"),
    )
    shown = shell.noetl("show", "last", "--json").stdout

    check_sealed(shell.home, document)
    assert document["workload"]["note"] == "a ***"
    assert document["labels"] == {"note": "b ***"}
    assert CANARY not in shown
    listed = shell.noetl("run", sealed, "--help").stdout
    assert "token  [text; secret; required]" in listed


@pytest.mark.spec("S-72", "S-41")
def test_a_secret_input_that_does_not_fit_is_refused_without_its_value(
    shell: Any, sealed: str
) -> None:
    token = ("--set", "token=hunter2", "--label", "note=hunter2")
    done = shell.noetl("run", sealed, *token, "--json")

    assert done.returncode == 2
    assert "hunter2" not in done.stdout + done.stderr
    assert "'token' must have 8 characters or more" in done.stdout


@pytest.mark.spec("S-72", "S-41")
def test_a_secret_input_survives_a_kill(shell: Any, sealed: str) -> None:
    (shell.folder / "hang").touch()
    process = shell.start("run", sealed, "--set", f"token={CANARY}", "--json")
    while not (shell.folder / "hung").exists():
        assert process.poll() is None
    process.kill()
    process.communicate()

    document = json.loads(shell.noetl("resume", "last", "--json").stdout)

    check_sealed(shell.home, document)


@pytest.mark.spec("S-72", "S-41", "S-37")
def test_a_secret_input_goes_to_a_child_as_a_handle(shell: Any, sealed: str) -> None:
    text = (HEAD + SECRET).replace("sealed", "outer")
    call = CALL.replace("ARGS", 'token: "{{ workload.token }}"')
    call = call.replace("tests/orders", "tests/sealed")
    steps = text[: text.index("workflow:")] + "workflow:\n" + indent(call, "  ")
    (shell.folder / "outer.yaml").write_text(steps)
    document = shell.run("outer.yaml", "--set", f"token={CANARY}")
    [child] = shell.executions("sealed")

    outcome = document["ctx"]["outcome"]
    assert outcome["result"] == {"length": len(CANARY), "token": "***"}
    shown = shell.noetl("show", child["execution_id"], "--json").stdout
    check_sealed(shell.home, json.loads(shown))


@pytest.mark.spec("S-72", "S-41", "S-42")
def test_a_fork_needs_the_secret_inputs_of_a_finished_origin_again(
    shell: Any, sealed: str
) -> None:
    origin = shell.run(sealed, "--set", "token=another-secret")
    again = ("fork", origin["execution_id"], "--at", "3", "--json")
    without = shell.noetl(*again)
    wrong = shell.noetl(*again, "--set", "token=short")
    document = json.loads(shell.noetl(*again, "--set", f"token={CANARY}").stdout)

    assert "workload.token is a secret input" in without.stderr
    assert "Set the input again" in without.stderr
    assert json.loads(wrong.stdout)["error"]["kind"] == "inputs.invalid"
    check_sealed(shell.home, document)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    server = Running(tmp_path / "server")
    yield server
    server.stop()


@pytest.mark.spec("S-72", "S-42", "S-41")
def test_exec_refuses_warns_and_seals_like_run(
    shell: Any, running: Running, orders: str, sealed: str
) -> None:
    shell.set(NOETL_SERVER=running.url, NOETL_TOKEN=running.token)
    assert shell.noetl("catalog", "register", orders, sealed).returncode == 0
    refused = shell.noetl("exec", "tests/orders", "--set", "region=asia")
    sets = ("--set", "region=eu", "--set", "regoin=us")
    warned = shell.noetl("exec", "tests/orders", *sets, "--wait", "--no-progress")
    token = ("--set", f"token={CANARY}")
    done = shell.noetl("exec", "tests/sealed", *token, "--wait", "--json")

    assert refused.returncode == 2
    assert "'region' must be one of 'eu', 'us'" in refused.stderr
    assert (warned.returncode, "result: eu 10" in warned.stdout) == (0, True)
    assert "warning: the playbook declares no input 'regoin'" in warned.stderr
    check_sealed(running.home.folder, json.loads(done.stdout))


@pytest.mark.spec("S-72", "S-41", "WKR-03")
def test_a_secret_input_reaches_a_remote_worker_and_no_table(
    tmp_path: Path, postgres: str
) -> None:
    server = Running(tmp_path / "home", slots=0, database=postgres)
    worker = WorkerProcess(tmp_path / "worker", server.url, server.token or "")
    text = (HEAD + SECRET).replace("result =", "print('got', token); result =")
    try:
        api = Api(server.url, server.token)
        body = {"note": f"a {CANARY}", "token": CANARY}
        labels = {"note": f"b {CANARY}"}
        execution_id = api.start(text, workload=body, labels=labels)
        document = api.finish(execution_id)
        [line] = api.get(f"/api/executions/{execution_id}/logs").body["lines"]
    finally:
        worker.stop()
        server.stop()

    assert check_files(tmp_path, document) == b"", "the log is in the database"
    assert document["labels"] == {"note": "b ***"}
    assert line["text"] == "got ***"
    rows, events = asyncio.run(read_tables(postgres))
    assert "got ***" in rows
    assert CANARY not in rows
    assert b"workflow.started" in events
    assert CANARY.encode() not in events


async def read_tables(address: str) -> tuple[str, bytes]:
    """Return all rows of all tables as text, and the events of the log."""
    connection = await asyncpg.connect(address)
    try:
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'"
        )
        rows = [
            str([*row.values()])
            for (table,) in tables
            for row in await connection.fetch(f'SELECT * FROM noetl."{table}"')
        ]
        batches = await connection.fetch(UNFOLDED.format("noetl."))
        return "\n".join(rows), unfold(batches)
    finally:
        await connection.close()
