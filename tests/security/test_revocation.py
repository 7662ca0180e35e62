"""Rights that end while an answer is still open: streams, waits and claims of work."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HUNG, Answer, Api, Running, playbook

from noetl.runtime.event_loop import SystemClock
from noetl.runtime.subscriptions import Subscriptions
from noetl.runtime.worker_protocol.messages import PROTOCOL

POOLED = playbook("pooled", "- {step: start, tool: {kind: noop, spec: {pool: far}}}")
SENSITIVE = ASKS.replace("path: tests/asks", "path: tests/asks, sensitive: true")


class Person:
    """An account with one token, and what an admin can do to both."""

    def __init__(self, running: Running, name: str, *roles: str, **token: Any) -> None:
        self.admin = Api(running.url, running.token)
        self.name = name
        self.admin.post("/api/users", {"name": name, "roles": [*roles]})
        asked = {"user": name, "label": "test", **token}
        made = self.admin.post("/api/tokens", asked).body
        self.token_id = made["token_id"]
        self.api = Api(running.url, made["token"])

    def lose_token(self) -> None:
        assert self.admin.call("DELETE", f"/api/tokens/{self.token_id}").status == 200

    def lose_account(self) -> None:
        assert self.admin.call("DELETE", f"/api/users/{self.name}").status == 200

    def lose_role(self) -> None:
        self.become("operator:elsewhere/*")

    def become(self, role: str) -> None:
        body = {"roles": [role]}
        answer = self.admin.post(f"/api/users/{self.name}/roles", body)
        assert answer.status == 200, answer.body


Loss = Callable[[Person], None]
LOSSES: list[Loss] = [Person.lose_token, Person.lose_account, Person.lose_role]
each_loss = pytest.mark.parametrize("lose", LOSSES, ids=lambda each: each.__name__)


def open_stream(api: Api, execution_id: str) -> Iterator[dict[str, Any]]:
    """A stream that has told everything there is so far."""
    stream = api.stream(execution_id)
    for event in stream:
        if event["name"] == "task.suspended":
            return stream
    raise AssertionError("the execution does not wait")


@each_loss
def test_a_stream_tells_nothing_after_the_right_to_it_has_ended(
    running: Running, admin: Api, lose: Loss
) -> None:
    watcher = Person(running, f"watches-{lose.__name__}", "viewer:tests/*")
    execution_id = admin.start(ASKS)
    stream = open_stream(watcher.api, execution_id)

    lose(watcher)
    admin.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    assert [event["name"] for event in stream] == []
    assert admin.finish(execution_id)["status"] == "completed"


def test_a_stream_of_sensitive_data_ends_with_the_right_to_these(
    running: Running, admin: Api
) -> None:
    watcher = Person(running, "watches-sensitive", "operator:tests/*")
    execution_id = admin.start(SENSITIVE)
    stream = open_stream(watcher.api, execution_id)

    watcher.become("viewer:tests/*")
    admin.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    assert [event["name"] for event in stream] == []


def test_a_silent_stream_ends_when_its_token_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock: nothing happens in the execution."""
    later = threading.Event()
    real = SystemClock.now
    monkeypatch.setattr(
        SystemClock, "now", lambda clock: real() + 7200 * later.is_set()
    )
    monkeypatch.setattr(Subscriptions.__init__, "__kwdefaults__", {"patience": 0.01})
    server = Running(tmp_path / "home")
    watcher = Person(server, "watcher", "viewer", expires_in=3600)
    stream = open_stream(watcher.api, watcher.admin.start(ASKS))

    later.set()

    assert list(stream) == []
    server.stop()


def test_a_stream_by_a_cookie_ends_with_its_session(
    running: Running, admin: Api
) -> None:
    password = "correct horse battery"
    body = {"name": "browses", "roles": ["viewer"], "password": password}
    assert admin.post("/api/users", body).status == 201
    signed_in = Api(running.url, None).post(
        "/api/sessions", {"name": "browses", "password": password}
    )
    execution_id = admin.start(ASKS)
    admin.await_event(execution_id, "task.suspended")
    connection = http.client.HTTPConnection(admin.host, admin.port, timeout=HUNG)
    headers = {
        "Cookie": signed_in.headers["set-cookie"].partition(";")[0],
        **{"Accept": "text/event-stream", "Sec-Fetch-Site": "same-origin"},
    }
    connection.request("GET", f"/api/executions/{execution_id}/events", None, headers)
    response = connection.getresponse()
    assert response.status == 200
    while b"task.suspended" not in response.readline():
        pass

    assert admin.call("DELETE", "/api/users/browses/sessions").status == 200
    admin.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    assert b"data:" not in response.read()
    connection.close()


def in_thread(call: Callable[[], Answer]) -> Callable[[], Answer]:
    """Begin a call; the function that is returned waits for its answer."""
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()

    def answer() -> Answer:
        thread.join(HUNG)
        return answers[0]

    return answer


def listed(admin: Api, path: str) -> str:
    """The newest execution of a path, as soon as it waits for its signal."""
    while True:
        found = admin.get(f"/api/executions?path={path}").body["executions"]
        if found:
            admin.await_event(found[0]["execution_id"], "task.suspended")
            return str(found[0]["execution_id"])


@each_loss
def test_a_wait_for_an_end_tells_nothing_after_the_right_to_it_has_ended(
    running: Running, admin: Api, lose: Loss
) -> None:
    name = f"waits-{lose.__name__}"
    text = playbook(name, "- {step: start, tool: {kind: wait, signal: go}}")
    caller = Person(running, name, "author:tests/*")
    answer = in_thread(
        lambda: caller.api.post("/api/executions?wait=60", {"playbook": text})
    )
    execution_id = listed(admin, f"tests/{name}")

    lose(caller)
    data = {"word": "after-the-end-of-rights"}
    admin.post(f"/api/executions/{execution_id}/signal", {"name": "go", "data": data})

    refused = answer()
    assert refused.status == (403 if lose is Person.lose_role else 401)
    assert data["word"] not in str(refused.body)


def test_a_claim_that_waits_gets_no_work_after_its_token_was_revoked(
    fresh: Running,
) -> None:
    admin = Api(fresh.url, fresh.token)
    worker, other = (Person(fresh, name, "worker:far") for name in ("worker", "other"))
    body = {"worker": "w", "pool": "far", "slots": 1, "protocol": PROTOCOL}
    waits = {**body, "wait_seconds": 30}
    answer = in_thread(lambda: worker.api.post("/api/worker/claim", waits))
    while not admin.get("/api/workers").body["workers"]:
        pass

    worker.lose_token()
    admin.start(POOLED)

    assert answer().status == 401
    given = other.api.post("/api/worker/claim", body)
    assert len(given.body["work"]) == 1, "it was given back, not lost"
