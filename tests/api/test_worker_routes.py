"""What a worker may ask under its lease: values, logs, permits; and its rights."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from servers import HELLO, Answer, Api, Running

from noetl.runtime.worker_protocol.messages import PROTOCOL


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("routes") / "home", slots=0)
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
