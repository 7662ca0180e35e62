"""Iterations of a loop in pages, with their elements and errors."""

from __future__ import annotations

from typing import Any

import pytest
from servers import Api, Running, playbook

MANY = playbook(
    "iterations",
    """
    - step: start
      spec: {policy: {failure: best_effort}}
      loop: {in: "{{ ['a', 'b', 'c', 'd', 'e'] + ['x' * 2000] }}", iterator: x}
      tool:
        kind: noop
        result: "{{ 1 / (iter.index - 2) }}"
    - {step: other, tool: {kind: noop}}
    """,
)
WAITS = playbook(
    "loop-waits",
    """
    - step: start
      loop:
        in: "{{ range(10, 40) }}"
        iterator: n
        spec: {mode: parallel, max_in_flight: 3}
      tool: {kind: wait, signal: go}
    """,
)


@pytest.fixture(scope="module")
def many(running: Running) -> str:
    execution_id: str = Api(running.url, running.token).run(MANY)["execution_id"]
    return execution_id


def loop_of(api: Api, execution_id: str, query: str = "") -> dict[str, Any]:
    answer = api.get(f"/api/executions/{execution_id}/runs/1/iterations{query}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


def test_a_loop_shows_its_iterations_with_elements_and_errors(
    api: Api, many: str
) -> None:
    loop = loop_of(api, many)

    assert (loop["total"], loop["done"], loop["failed"]) == (6, 5, 1)
    assert (loop["in_flight"], loop["ended"], loop["complete"]) == (0, True, True)
    assert [each["status"] for each in loop["items"]] == [
        *("done", "done", "failed", "done", "done", "done"),
    ]
    assert [each["value"] for each in loop["items"][:5]] == ["a", "b", "c", "d", "e"]
    assert loop["items"][5]["value"]["$cut"] == 2_002
    [group] = loop["errors"]
    assert (group["count"], group["first"]) == (1, 2)
    assert loop["items"][2]["error"]["message"] == group["message"]
    assert loop["items"][0]["error"] is None
    assert all(each["ms"] >= 0 for each in loop["items"])


def test_pages_and_filters_of_iterations(api: Api, many: str) -> None:
    first = loop_of(api, many, "?limit=4")
    second = loop_of(api, many, f"?limit=4&cursor={first['cursor']}")
    failed = loop_of(api, many, "?status=failed")

    assert [e["index"] for e in first["items"] + second["items"]] == list(range(6))
    assert second["cursor"] is None
    assert [each["index"] for each in failed["items"]] == [2]


@pytest.mark.parametrize("order", ["time", "duration"])
def test_other_orders_of_iterations(api: Api, many: str, order: str) -> None:
    whole = loop_of(api, many, f"?order={order}")["items"]
    key = {"time": "seq", "duration": "ms"}[order]
    pages, cursor = [], 0
    while cursor is not None:
        page = loop_of(api, many, f"?order={order}&limit=4&cursor={cursor}")
        pages += page["items"]
        cursor = page["cursor"]

    assert [e[key] for e in whole] == sorted((e[key] for e in whole), reverse=True)
    assert pages == whole


def test_a_loop_in_flight_goes_on_from_where_it_was_read(api: Api) -> None:
    execution_id = api.start(WAITS)
    for _ in range(3):
        api.await_event(execution_id, "task.suspended")

    before = loop_of(api, execution_id)
    while before["in_flight"] < 3 or before["items"][2]["status"] != "waiting":
        before = loop_of(api, execution_id)
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    after = loop_of(api, execution_id)
    while after["done"] < 1:
        after = loop_of(api, execution_id)

    assert [each["status"] for each in before["items"]] == ["waiting"] * 3
    assert [each["value"] for each in before["items"]] == [10, 11, 12]
    assert (before["rate"], before["eta_ms"]) == (None, None)
    assert after["items"][0]["status"] == "done"
    assert after["rate"] > 0
    assert after["eta_ms"] > 0


def test_a_run_without_a_loop_has_no_iterations(api: Api) -> None:
    text = playbook("no-loop", "- {step: start, tool: {kind: noop}}")
    execution_id = api.run(text)["execution_id"]

    answer = api.get(f"/api/executions/{execution_id}/runs/1/iterations")

    assert (answer.status, answer.body["kind"]) == (404, "run.unknown")
    assert "has no loop" in answer.body["message"]


def test_sensitive_iterations_have_no_elements(running: Running, api: Api) -> None:
    text = MANY.replace("path: tests/iterations", "path: tests/it, sensitive: true")
    execution_id = api.run(text)["execution_id"]
    viewer = running.person("loop-viewer", "viewer")

    loop, whole = loop_of(viewer, execution_id), loop_of(api, execution_id)

    assert [each["value"] for each in loop["items"]] == [None] * 6
    assert loop["errors"][0]["kind"] == whole["errors"][0]["kind"]
    assert whole["errors"][0]["message"] not in str(loop)
    assert [e["ms"] for e in loop["items"]] == [e["ms"] for e in whole["items"]]
