"""Whatever one execution holds, the server and its workers go on with the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from latency import Latency
from servers import HELLO, Api, Running, playbook
from stored_log import Change, SqliteLog

POISONED = playbook(
    "poisoned",
    """
    - step: start
      tool: {kind: wait, signal: go}
      next: {arcs: [{step: end}]}
    - {step: end, tool: {kind: noop, result: "{{ ctx.big }}"}}
    """,
)
DECIDED = playbook(
    "decided",
    """
    - step: start
      tool: {kind: wait, signal: go}
      next: {arcs: [{step: end, when: "{{ ctx.big.x }}"}]}
    - {step: end, tool: {kind: noop}}
    """,
)
LONG = playbook(
    "long",
    """
    - step: start
      tool: {kind: shell, command: "echo begun >> {file}; sleep 3"}
    """,
)
ODD: list[Any] = [
    {},
    {"key": None, "size": 1},
    {"key": 5, "size": 1},
    {"key": {}, "size": 1},
    {"key": "log:x-1", "size": 1},
    {"key": "log:{id}-1", "size": 1},
    {"key": "log:{id}-1", "size": 1, "range": 5},
    {"key": "log:{id}-1", "size": 1, "range": "a-b"},
    {"key": "log:{id}-1/x/y", "size": 1, "range": "1-9"},
    {"key": "0" * 64, "size": "large"},
    {"key": "0" * 64, "size": None, "refs": 5},
]


def change_log(running: Running, execution_id: str, change: Change) -> None:
    """Change events in the log of a running server, in spite of its trigger."""
    SqliteLog(running.home.folder / "log-server.db", execution_id).change(change)
    assert running.server is not None
    running.do(running.server.orchestrator.cache.drop, execution_id)


def with_reference(reference: dict[str, Any]) -> Change:
    def change(_: int, body: bytes) -> bytes | None:
        event = msgspec.json.decode(body)
        if event["name"] != "workflow.started":
            return None
        event["payload"]["ctx"] = {"big": {"store": "noetl", **reference}}
        event["payload"]["spilled"] = ["ctx.big"]
        return msgspec.json.encode(event)

    return change


@pytest.mark.parametrize("text", [POISONED, DECIDED], ids=["worker", "server"])
def test_references_of_odd_shapes_end_their_own_executions_alone(
    fresh: Running, tmp_path: Path, text: str
) -> None:
    api = Api(fresh.url, fresh.token)
    file = tmp_path / "begun"
    poisoned = [api.start(text) for _ in ODD]
    for execution_id, reference in zip(poisoned, ODD, strict=True):
        api.await_event(execution_id, "task.suspended")
        if isinstance(reference.get("key"), str):
            key = reference["key"].replace("{id}", execution_id)
            reference = {**reference, "key": key}
        change_log(fresh, execution_id, with_reference(reference))
    other = api.start(LONG.replace("{file}", str(file)))
    api.await_event(other, "task.started")
    with Latency(fresh.url) as latency:
        for execution_id in poisoned:
            api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
        assert api.run(HELLO)["status"] == "completed"
        ends = [api.finish(each) for each in poisoned]
    latency.check()
    assert api.finish(other)["status"] == "completed"
    assert file.read_text() == "begun\n", "the tool of another execution began again"
    for reference, document in zip(ODD, ends, strict=True):
        # What has not the shape of a reference is a value like any other.
        over = ("completed", "failed", "quarantined")
        assert document["status"] in over, (reference, document)
