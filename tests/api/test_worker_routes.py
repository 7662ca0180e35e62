"""What a worker may ask under its lease: values, logs, permits; and its rights."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from servers import HELLO, Answer, Api, Running

from noetl.runtime.worker_protocol.messages import PROTOCOL


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(
        tmp_path_factory.mktemp("routes") / "home", slots=0, claim_rate=5.0
    )
    yield server
    server.stop()


def claim(api: Api, pool: str = "default", wait: float = 0.0) -> Answer:
    body = {"worker": "w", "pool": pool, "slots": 1, "wait_seconds": wait}
    return api.post("/api/worker/claim", {**body, "protocol": PROTOCOL})


@pytest.mark.spec("S-48")
def test_a_lease_opens_the_values_of_its_execution(server: Running) -> None:
    api = Api(server.url, server.token)
    api.start(HELLO, workload={"big": "x" * 70_000})
    [work] = claim(api).body["work"]
    mine: dict[str, Any] = {"worker": "w", "lease": work["lease"]}
    reference = work["frame"]["workload"]["big"]
    key = {"key": reference["key"]}

    value = api.post("/api/worker/value", {**mine, "reference": reference})
    file = api.post("/api/worker/result", {**mine, **key})
    asked = api.post("/api/worker/result", {**mine, **key, "only_check": True})
    limit = {"key": "k", "limit": 1, "interval": 10.0, "burst": 1}
    permits = [
        api.post("/api/worker/permit", {**mine, "limits": [limit]}).body["seconds"]
        for _ in range(2)
    ]

    assert value.body == "x" * 70_000
    assert hashlib.sha256(file.body).hexdigest() == reference["key"]
    assert (asked.status, asked.body) == (200, b"")
    assert [seconds > 0 for seconds in permits] == [False, True]


def test_what_a_task_prints_is_appended_under_its_lease(server: Running) -> None:
    api = Api(server.url, server.token)
    execution_id = api.start(HELLO)
    [work] = claim(api).body["work"]
    text = [1.0, "stdout", None, "hello"]
    entry = {"task": "task_1", "visit": 1, "attempt": 1, "part": 1, "texts": [text]}
    entries = [{**entry, "lease": work["lease"]}]
    entries.append({**entry, "lease": {"command_id": "none-1", "epoch": 1}})

    body = {"worker": "w", "pool": "default", "entries": entries}
    answer = api.post("/api/worker/logs", body)

    assert answer.status == 200, answer.body
    assert (answer.status, answer.body["refused"]) == (200, ["none-1"])
    logs = api.get(f"/api/executions/{execution_id}/logs")
    assert b"hello" in str(logs.body).encode()


def test_a_worker_that_loses_its_rights_while_it_waits_gets_no_work(
    server: Running,
) -> None:
    admin, worker = Api(server.url, server.token), server.person("gpu", "worker:*")
    answers: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: answers.append(claim(worker, "gpu", 30.0))
    )
    waiting.start()
    while not admin.get("/api/workers?pool=gpu").body["workers"]:
        pass
    assert admin.post("/api/users/gpu/roles", {"roles": ["viewer"]}).status == 200
    text = HELLO.replace("step: start,", "step: start, spec: {pool: gpu},")

    admin.start(text)
    waiting.join()

    assert answers[0].status in (401, 403)
    assert len(claim(admin, "gpu", 30.0).body["work"]) == 1


def started(api: Api, text: str = HELLO) -> dict[str, Any]:
    """Worker and lease of a claim for a new execution."""
    api.start(text)
    while not (work := claim(api, wait=5.0).body["work"]):
        pass
    return {"worker": "w", "lease": work[0]["lease"]}


BEGUN = {"name": "step.started"}
STARTED = {"name": "task.started", "label": "task_1", "attempt": 1}


@pytest.mark.parametrize(
    ("facts", "status", "kind"),
    [
        ([BEGUN, STARTED], 200, None),
        ([{**BEGUN, "name": "workflow.finished"}], 403, "event.not_allowed"),
        ([{**STARTED, "name": "task.done", "payload": {}}], 422, "outcome.shape"),
    ],
)
def test_a_report_is_recorded_or_refused(
    server: Running, facts: list[Any], status: int, kind: str | None
) -> None:
    api = Api(server.url, server.token)
    mine = started(api)
    report = {"lease": mine["lease"], "number": 1, "facts": facts}

    body = {"worker": "w", "pool": "default", "reports": [report]}
    answer = api.post("/api/events", body)

    assert (answer.status, answer.body.get("kind")) == (status, kind)
    many = api.post("/api/events", {**body, "reports": [report] * 501})
    assert (many.status, many.body["kind"]) == (413, "event.too_large")


def test_a_value_is_uploaded_under_a_lease(server: Running) -> None:
    api = Api(server.url, server.token)
    lease = started(api)["lease"]
    data = b'["x"]'
    query = {**lease, "worker": "w", "key": hashlib.sha256(data).hexdigest()}
    text = urlencode({**query, "size": len(data)})

    kept = api.call("PUT", f"/api/worker/results?{text}", data)

    assert (kept.status, kept.body["key"]) == (200, query["key"])


def test_a_lease_opens_the_source_and_no_secret_that_is_not_named(
    server: Running,
) -> None:
    api = Api(server.url, server.token)
    mine = started(api)

    source = api.post("/api/worker/source", mine)
    secret = api.post("/api/worker/secret", {**mine, "task": "task_1", "name": "x"})
    token = api.post("/api/worker/token", {**mine, "task": "task_1", "auth": "%"})
    other = {**mine, "lease": {**mine["lease"], "epoch": 9}}
    stranger = api.post("/api/worker/source", other)

    assert HELLO.encode() in source.body
    assert (secret.status, secret.body["kind"]) == (422, "secret.denied")
    assert (token.status, token.body["kind"]) == (422, "secret.sealed")
    assert stranger.body["kind"] == "lease.not_owner"


def test_a_claim_of_another_version_and_one_too_many_are_refused(
    server: Running,
) -> None:
    api = Api(server.url, server.token)
    body = {"worker": "old", "pool": "default", "slots": 1, "protocol": PROTOCOL + 1}

    wrong = api.post("/api/worker/claim", body)
    eager = {**body, "worker": "eager", "protocol": PROTOCOL}
    answers = (api.post("/api/worker/claim", eager) for _ in range(1000))
    refused = next(each for each in answers if each.status == 429)

    assert (wrong.status, wrong.body["kind"]) == (409, "worker.version")
    assert refused.body["kind"] == "request.rate"
    assert int(refused.headers["retry-after"]) >= 1


def test_a_heartbeat_renews_a_lease(server: Running) -> None:
    api = Api(server.url, server.token)
    lease = started(api)["lease"]
    beat = {"worker": "w", "pool": "default", "slots": 1, "leases": [lease]}

    assert api.post("/api/worker/heartbeat", beat).body["lost"] == []
