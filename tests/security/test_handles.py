"""S-41, S-82: a log shows the handles of secrets, and no caller can use one."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from servers import Api, Running, playbook

from noetl.engine.references import admit_later
from noetl.errors import ForgedHandle

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
