"""S-41, S-82: a log shows the handles of secrets, and no caller can use one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from servers import Api, Running, WorkerProcess, playbook

from noetl.engine.secrets.handles import Secrets
from noetl.engine.values.references import admit_later
from noetl.errors import ForgedHandle
from noetl.runtime.worker.result_writer import RowDraft

pytestmark = pytest.mark.spec("S-41", "S-82")

SECRET = "correct-horse-battery-staple"
HANDLE = re.compile(r"'secret': '([0-9a-f]{32})'")


class Outside:
    """A service that a playbook speaks to: ``heard`` are the bodies it was sent."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.answer = b"{}"
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                outside.heard.append(self.rfile.read(length))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(outside.answer)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def outside() -> Iterator[Outside]:
    found = Outside()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="module")
def reaching(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Running]:
    """A server whose tools may reach services on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOETL_NETWORK_PRIVATE", "127.0.0.0/8")
        server = Running(tmp_path_factory.mktemp("handles") / "home")
    admin = Api(server.url, server.token)
    stored = admin.post("/api/keychain/key", {"value": SECRET, "for": ["tests/*"]})
    assert stored.status == 201, stored.body
    yield server
    server.stop()


@pytest.fixture(scope="module")
def operator(reaching: Running) -> Api:
    return reaching.person("operator", "operator:tests/*")


def begin(reaching: Running, outside: Outside, note: str) -> str:
    """An execution that holds a secret, waits, and then sends a note."""
    post = f"kind: http, method: POST, url: '{outside.url}'"
    workflow = f"""
        - step: start
          tool:
            - key: {{kind: secrets, name: key}}
            - pause: {{kind: wait, signal: go}}
            - ask: {{{post}, json: {{note: "{note}"}}}}
            - tell: {{{post}, json: {{note: "{{{{ _prev }}}}"}}}}
    """
    text = playbook("notes", workflow, "workload: {note: hello}\n")
    execution_id = Api(reaching.url, reaching.token).start(text)
    Api(reaching.url, reaching.token).await_event(execution_id, "task.suspended")
    return execution_id


def handle_in_log(operator: Api, execution_id: str) -> dict[str, str]:
    """The handle, as everyone who may read the log sees it."""
    events = operator.get(f"/api/executions/{execution_id}/events").body
    found = HANDLE.search(str(events))
    assert found is not None
    return {"secret": found[1]}


def test_the_data_of_a_signal_open_no_secret(
    reaching: Running, operator: Api, outside: Outside
) -> None:
    execution_id = begin(reaching, outside, "{{ _prev }}")
    handle = handle_in_log(operator, execution_id)
    path = f"/api/executions/{execution_id}/signal"

    answer = operator.post(path, {"name": "go", "data": {"deep": [handle]}})

    assert (answer.status, answer.body["kind"]) == (422, "ref.not_owner"), answer.body
    assert answer.body["path"] == "data.deep[0]"
    assert operator.post(path, {"name": "go", "data": "plain"}).status == 200
    assert operator.finish(execution_id)["status"] == "completed"
    assert outside.heard[0] == b'{"note":"plain"}'


@pytest.mark.parametrize("edits", ["workload", "ctx"])
def test_the_edits_of_a_fork_open_no_secret(
    reaching: Running, operator: Api, outside: Outside, edits: str
) -> None:
    execution_id = begin(reaching, outside, "{{ workload.note }}")
    handle = handle_in_log(operator, execution_id)
    path = f"/api/executions/{execution_id}/fork"

    answer = operator.post(path, {"at": 2, edits: {"note": handle}})

    assert (answer.status, answer.body["kind"]) == (422, "ref.not_owner"), answer.body
    assert answer.body["path"] == f"{edits}.note"


def test_a_service_that_answers_with_a_handle_gets_no_secret(
    reaching: Running, operator: Api, outside: Outside
) -> None:
    execution_id = begin(reaching, outside, "hello")
    handle = handle_in_log(operator, execution_id)
    outside.answer = b'{"deep": [{"secret": "%b"}]}' % handle["secret"].encode()

    signal = {"name": "go", "data": 1}
    assert operator.post(f"/api/executions/{execution_id}/signal", signal).status == 200

    assert operator.finish(execution_id)["status"] == "completed"
    assert outside.heard[1] == b'{"note":{"deep":["***"]}}'


def test_a_worker_elsewhere_masks_the_handles_that_it_was_not_given(
    outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that asks reads no secret; the one after it reads ``ctx``."""
    monkeypatch.setenv("NOETL_NETWORK_PRIVATE", "127.0.0.0/8")
    server = Running(tmp_path / "home", slots=0)
    admin = Api(server.url, server.token)
    admin.post("/api/keychain/key", {"value": SECRET, "for": ["tests/*"]})
    worker = WorkerProcess(tmp_path / "worker", server.url, server.token)
    post = f"kind: http, method: POST, url: '{outside.url}'"
    then = "{do: continue, set_ctx: {note: '{{ outcome.result }}'}}"
    workflow = f"""
        - step: start
          tool: {{kind: secrets, name: key}}
          next: {{arcs: [{{step: pause}}]}}
        - step: pause
          tool: {{kind: wait, signal: go}}
          next: {{arcs: [{{step: ask}}]}}
        - step: ask
          tool:
            - ask:
                kind: http
                method: POST
                url: '{outside.url}'
                spec: {{policy: {{rules: [{{else: {{then: {then}}}}}]}}}}
          next: {{arcs: [{{step: tell}}]}}
        - step: tell
          tool: {{{post}, json: {{note: "{{{{ ctx.note }}}}"}}}}
    """
    try:
        execution_id = admin.start(playbook("notes", workflow))
        admin.await_event(execution_id, "task.suspended")
        handle = handle_in_log(admin, execution_id)
        outside.answer = b'{"deep": [{"secret": "%b"}]}' % handle["secret"].encode()
        signal = {"name": "go", "data": 1}
        path = f"/api/executions/{execution_id}/signal"
        assert admin.post(path, signal).status == 200
        document = admin.finish(execution_id)
    finally:
        worker.stop()
        server.stop()

    assert document["status"] == "completed", document
    assert outside.heard[1] == b'{"note":{"deep":["***"]}}'


@pytest.mark.parametrize("spelling", ['"secret"', '"\\u0073ecret"'])
def test_rows_that_are_written_to_a_file_hold_no_handle(
    spelling: str, tmp_path: Path
) -> None:
    row = f'{{"a": {{{spelling}: "{"0" * 32}"}}}}\n'.encode()
    shelf: Any = None  # only keeping a draft needs one

    async def written(secrets: Secrets) -> bytes:
        file = tmp_path / "rows"
        draft = RowDraft(str(file), shelf, secrets)
        await draft.add_lines([row])
        draft._flush()
        found = file.read_bytes()
        draft.drop()
        return found

    for secrets in (Secrets(partial=True), Secrets(sealed={"0" * 32: SECRET})):
        assert b"0000" not in asyncio.run(written(secrets))
    assert b"0000" in asyncio.run(written(Secrets()))


def test_other_data_with_a_member_secret_are_data() -> None:
    for value in (
        {"secret": "word"},
        {"secret": "0" * 32, "other": 1},
        {"secret": {"secret": 1}},
        {"secret": "0" * 33},
        ["secret", "0" * 32],
    ):
        admit_later(value)
    with pytest.raises(ForgedHandle, match=r"data\.a claims to be the handle"):
        admit_later({"a": {"secret": "0" * 32}}, "data")
