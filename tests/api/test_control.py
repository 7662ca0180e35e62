"""Orders: cancel, pause, resume, signal; to one, to its children, to many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HELLO, Api, playbook

SLEEPS = playbook(
    "sleeps",
    """
    - step: start
      tool: {kind: shell, command: "echo up > $FILE; exec sleep 600", env: {FILE: "{{ workload.file }}"}}
    """,  # noqa: E501
)
CHILD = playbook(
    "child", "- {step: start, tool: {kind: wait, signal: go}}", version="1"
)
PARENT = playbook(
    "parent",
    "- {step: start, tool: {kind: playbook, path: tests/child}}",
)


def order(api: Api, execution_id: str, what: str, body: object = None) -> tuple:
    answer = api.post(f"/api/executions/{execution_id}/{what}", body)
    return answer.status, answer.body.get("status"), answer.body.get("state")


def start_family(api: Api) -> tuple[str, str]:
    """A parent, and the child that it waits for, which waits for a signal."""
    assert api.post("/api/catalog", {"playbook": CHILD}).status in (200, 201)
    parent = api.start(PARENT)
    suspended = api.await_event(parent, "task.suspended")
    child: str = suspended["payload"]["child"]["execution_id"]
    while api.get(f"/api/executions/{child}").status == 404:
        pass
    api.await_event(child, "task.suspended")
    return parent, child


@pytest.mark.spec("S-38")
def test_cancel_stops_the_tool_and_ends_the_execution(
    fresh: Api, tmp_path: Path
) -> None:
    file = tmp_path / "up"
    execution_id = fresh.start(SLEEPS, workload={"file": str(file)})
    while not file.exists():
        pass

    assert order(fresh, execution_id, "cancel")[0] == 200
    document = fresh.finish(execution_id)

    assert document["status"] == "cancelled"
    assert order(fresh, execution_id, "cancel") == (200, "cancelled", None), "again"


@pytest.mark.spec("S-39", "SRV-15")
def test_what_is_paused_goes_on_as_if_nothing_had_been(api: Api) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")

    assert order(api, execution_id, "pause") == (200, "paused", None)
    assert order(api, execution_id, "signal", {"name": "go"})[0] == 200
    assert api.get(f"/api/executions/{execution_id}").body["status"] == "paused"
    assert order(api, execution_id, "resume")[0] == 200

    assert api.finish(execution_id)["result"] == "over"


@pytest.mark.spec("S-54")
def test_a_signal_carries_data_to_who_waits(api: Api) -> None:
    text = playbook("told", "- {step: start, tool: {kind: wait, signal: go}}")
    execution_id = api.start(text)

    order(api, execution_id, "signal", {"name": "go", "data": {"by": "ann"}})

    assert api.finish(execution_id)["result"] == {"by": "ann"}


@pytest.mark.parametrize("what", ["cancel", "pause", "resume", "signal"])
def test_an_order_to_what_is_over_is_refused_with_its_state(
    api: Api, what: str
) -> None:
    """Row 66."""
    execution_id = api.run(HELLO)["execution_id"]
    body = {"name": "go"} if what == "signal" else None

    assert order(api, execution_id, what, body) == (409, 409, "completed")


def test_orders_that_do_not_fit_the_state(api: Api) -> None:
    """Row 66."""
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")

    assert order(api, execution_id, "resume") == (409, 409, "waiting")
    assert order(api, execution_id, "pause")[0] == 200
    assert order(api, execution_id, "pause") == (409, 409, "paused")
    assert order(api, execution_id, "cancel") == (200, "cancelled", None)


@pytest.mark.spec("S-38", "S-37")
def test_cancel_reaches_children(api: Api) -> None:
    parent, child = start_family(api)

    order(api, parent, "cancel")

    assert api.finish(parent)["status"] == "cancelled"
    assert api.finish(child)["status"] == "cancelled"


@pytest.mark.spec("S-39", "S-37")
def test_pause_and_resume_reach_children(api: Api) -> None:
    parent, child = start_family(api)

    assert order(api, parent, "pause") == (200, "paused", None)
    assert api.get(f"/api/executions/{child}").body["status"] == "paused"
    assert order(api, parent, "resume")[0] == 200
    assert api.get(f"/api/executions/{child}").body["status"] == "waiting"
    order(api, child, "signal", {"name": "go", "data": 7})

    assert api.finish(parent)["result"] == 7


def test_an_order_to_many_by_a_filter(fresh: Api) -> None:
    ids = [fresh.start(ASKS) for _ in range(3)]
    for execution_id in ids:
        fresh.await_event(execution_id, "task.suspended")
    over = fresh.run(HELLO)["execution_id"]

    paused = fresh.post(
        "/api/executions/bulk", {"action": "pause", "path": "tests/asks", "limit": 2}
    ).body
    cancelled = fresh.post(
        "/api/executions/bulk", {"action": "cancel", "path": "tests/*"}
    ).body

    assert [line["execution_id"] for line in paused["done"]] == ids[:0:-1]
    assert (paused["more"], paused["refused"]) == (True, [])
    assert {line["execution_id"] for line in cancelled["done"]} == set(ids)
    assert {fresh.finish(each)["status"] for each in ids} == {"cancelled"}
    assert fresh.finish(over)["status"] == "completed"
    refused = fresh.post(
        "/api/executions/bulk", {"action": "resume", "status": "completed"}
    ).body
    [line] = refused["refused"]
    assert (line["execution_id"], line["status"]) == (over, "completed")
    assert line["reason"] == "the execution is completed: it cannot be resumed"


def test_an_order_to_all_needs_a_filter(api: Api) -> None:
    answer = api.post("/api/executions/bulk", {"action": "cancel"})

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")
    assert "ids, status, path, text, trigger, caller" in answer.body["message"]


def test_an_order_to_chosen_executions_reaches_these_alone(fresh: Api) -> None:
    first, second, third = (fresh.start(ASKS) for _ in range(3))
    for execution_id in (first, second, third):
        fresh.await_event(execution_id, "task.suspended")
    over = fresh.run(HELLO)["execution_id"]
    asked = {"action": "cancel", "ids": [first, second, over]}

    dry = fresh.post("/api/executions/bulk", {**asked, "dry_run": True}).body
    done = fresh.post("/api/executions/bulk", asked).body
    unknown = f"{first[:-1]}{'0' if first[-1] != '0' else '1'}"
    both = {"action": "cancel", "ids": [third, unknown]}
    refused = fresh.post("/api/executions/bulk", both)

    for answer in (dry, done):
        assert [line["execution_id"] for line in answer["done"]] == [first, second]
        assert answer["count"] == 2
        [line] = answer["refused"]
        assert (line["execution_id"], line["status"]) == (over, "completed")
    assert [line["execution_id"] for line in dry["first"]] == [first, second]
    assert dry["first"][0]["playbook"]["path"] == "tests/asks"
    assert done["first"] == []
    assert (refused.status, refused.body["kind"]) == (404, "execution.unknown")
    assert fresh.get(f"/api/executions/{third}").body["status"] == "waiting"


def test_a_dry_run_describes_the_first_executions(fresh: Api) -> None:
    ids = [fresh.start(ASKS) for _ in range(21)]
    body = {"action": "cancel", "status": "waiting,running", "dry_run": True}

    dry = fresh.post("/api/executions/bulk", body).body

    assert (dry["count"], dry["more"]) == (21, False)
    assert [line["execution_id"] for line in dry["first"]] == ids[:0:-1]


DIVIDES = HELLO.replace("result: 1", "result: '{{ 6 // workload.n }}'")


@pytest.mark.spec("S-76")
def test_what_failed_is_retried_together_and_once(fresh: Api) -> None:
    def start(n: int, **more: Any) -> str:
        body = {"playbook": DIVIDES, "workload": {"n": n}, **more}
        started = fresh.post("/api/executions", body).body["execution_id"]
        fresh.finish(started)
        return str(started)

    failed = [start(0, labels={"team": team}) for team in ("a", "b")]
    start(1)
    asked = {"action": "retry", "path": "tests/hello"}

    dry = fresh.post("/api/executions/bulk", {**asked, "dry_run": True}).body
    one = {**asked, "labels": {"team": "a"}}
    first = fresh.post("/api/executions/bulk", one).body
    fresh.finish(first["done"][0]["retried_as"])
    part = fresh.post("/api/executions/bulk", {**asked, "limit": 1, "dry_run": True})
    rest = fresh.post("/api/executions/bulk", asked).body

    assert [line["execution_id"] for line in dry["done"]] == failed[::-1]
    assert [line["execution_id"] for line in first["done"]] == failed[:1]
    again = first["done"][0]["retried_as"]
    assert (
        fresh.get(f"/api/executions/{again}").body["forked_from"]["execution_id"]
        == (failed[0])
    )
    # The retry has failed as well, and what it repeats is not retried once more.
    assert [line["execution_id"] for line in rest["done"]] == [again, failed[1]]
    assert (part.body["more"], rest["more"]) == (True, False)


@pytest.mark.spec("S-76", "S-77")
def test_executions_of_a_trigger_are_steered_by_its_name(fresh: Api) -> None:
    fresh.post("/api/catalog", {"playbook": ASKS})
    schedule = {"cron": "0 2 * * *", "zone": "Europe/Berlin"}
    for name in ("one", "two"):
        trigger = {"name": name, "playbook": "tests/asks", "schedule": schedule}
        fresh.post("/api/triggers", {"trigger": trigger})
    fired = [
        fresh.post(f"/api/triggers/{name}/fire", {}).body for name in ("one", "two")
    ]

    answer = fresh.post("/api/executions/bulk", {"action": "cancel", "trigger": "one"})

    [line] = answer.body["done"]
    assert line["execution_id"] == fired[0]["execution_id"]
    assert fresh.finish(line["execution_id"])["status"] == "cancelled"
    left = fresh.get(f"/api/executions/{fired[1]['execution_id']}").body["status"]
    assert left in ("running", "waiting")
