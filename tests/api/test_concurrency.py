"""How many executions with one key are under way, over HTTP."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HELLO, Answer, Api, Running, playbook

pytestmark = pytest.mark.spec("S-36")


def ask(api: Api, key: str, on_limit: str = "queue", limit: int = 1) -> Answer:
    """One that goes on when it is told to."""
    places = {"key": key, "limit": limit, "on_limit": on_limit}
    body = {"playbook": ASKS, "concurrency": places}
    return api.post("/api/executions", body)


def started(answer: Answer) -> str:
    assert answer.status == 201, answer.body
    name: str = answer.body["execution_id"]
    return name


def tell(api: Api, execution_id: str) -> None:
    path = f"/api/executions/{execution_id}/signal"
    assert api.post(path, {"name": "go"}).status in (200, 202)


def stop(api: Api, *names: str) -> None:
    for name in names:
        api.post(f"/api/executions/{name}/cancel")


def names(api: Api, execution_id: str) -> list[str]:
    page = api.get(f"/api/executions/{execution_id}/events").body
    return [event["name"] for event in page["events"]]


def test_one_more_waits_and_says_for_what(api: Api) -> None:
    first = started(ask(api, "says"))

    answer = ask(api, "says")

    second = started(answer)
    assert answer.body["status"] == "waiting"
    standing = {"key": "says", "limit": 1, "queued": True}
    document = api.get(f"/api/executions/{second}").body
    assert (document["status"], document["steps"]) == ("waiting", [])
    assert document["concurrency"] == standing
    lines = api.get("/api/executions?status=waiting&limit=500").body["executions"]
    by_id = {line["execution_id"]: line for line in lines}
    assert by_id[second]["concurrency"] == standing
    assert names(api, second)[-1] == "workflow.queued"
    stop(api, first, second)


def test_a_place_that_is_free_goes_to_the_next_in_order(api: Api) -> None:
    queue = [started(ask(api, "order")) for _ in range(4)]

    for name, following in pairwise(queue):
        api.await_event(name, "task.suspended")
        assert names(api, following)[-1] == "workflow.queued"
        tell(api, name)
        assert api.finish(name)["status"] == "completed"

    tell(api, queue[-1])
    document = api.finish(queue[-1])
    assert document["concurrency"] == {"key": "order", "limit": 1, "queued": False}


@pytest.mark.parametrize("how", ["completed", "cancelled", "failed"])
def test_every_end_gives_its_place_back(api: Api, how: str) -> None:
    key = f"end-{how}"
    places = {"key": key}
    fails = playbook(
        "asks", "- {step: start, tool: {kind: wait, signal: go, timeout: 50ms}}"
    )
    text = fails if how == "failed" else ASKS
    first = started(
        api.post("/api/executions", {"playbook": text, "concurrency": places})
    )
    second = started(ask(api, key))
    if how == "completed":
        tell(api, first)
    elif how == "cancelled":
        stop(api, first)

    api.await_event(second, "workflow.admitted")

    assert api.get(f"/api/executions/{first}").body["status"] == how
    stop(api, second)


def test_one_that_is_cancelled_while_it_waits_leaves_the_queue(api: Api) -> None:
    first, second, third = (started(ask(api, "leave")) for _ in range(3))
    stop(api, second)
    assert api.finish(second)["status"] == "cancelled"
    tell(api, first)

    api.await_event(third, "workflow.admitted")

    stop(api, third)


def test_a_paused_one_keeps_its_place(api: Api) -> None:
    first = started(ask(api, "paused"))
    api.post(f"/api/executions/{first}/pause")
    second = started(ask(api, "paused"))

    assert api.get(f"/api/executions/{second}").body["status"] == "waiting"
    assert names(api, second)[-1] == "workflow.queued"
    stop(api, first, second)


def test_one_that_was_paused_while_it_waited_goes_on_when_resumed(api: Api) -> None:
    first, second = started(ask(api, "both")), started(ask(api, "both"))
    api.post(f"/api/executions/{second}/pause")
    tell(api, first)
    api.await_event(second, "workflow.admitted")
    assert names(api, second)[-1] == "workflow.admitted"

    api.post(f"/api/executions/{second}/resume")

    api.await_event(second, "task.suspended")
    stop(api, second)


def test_a_limit_may_be_larger(api: Api) -> None:
    inside = [started(ask(api, "three", limit=3)) for _ in range(3)]
    outside = started(ask(api, "three", limit=3))

    for name in inside:
        api.await_event(name, "task.suspended")
    assert names(api, outside)[-1] == "workflow.queued"
    stop(api, *inside, outside)


def test_a_key_is_of_one_playbook(api: Api) -> None:
    first = started(ask(api, "shared"))

    body = {"playbook": HELLO, "concurrency": {"key": "shared"}}
    other = started(api.post("/api/executions?wait=30", body))

    assert api.get(f"/api/executions/{other}").body["status"] == "completed"
    stop(api, first)


def test_the_time_in_the_queue_does_not_count(fresh: Api) -> None:
    root = "executor: {spec: {deadline: 1h}}\n"
    text = playbook("asks", "- {step: start, tool: {kind: wait, signal: go}}", root)
    body = {"playbook": text, "concurrency": {"key": "k"}}
    first, second = (started(fresh.post("/api/executions", body)) for _ in range(2))
    tell(fresh, first)

    admitted = fresh.await_event(second, "workflow.admitted")

    [event] = [e for e in fresh.stream(first) if e["name"] == "workflow.started"]
    assert event["payload"]["deadline"] < admitted["payload"]["deadline"]
    stop(fresh, second)


def test_a_refusal_names_the_holder_and_is_on_record(api: Api) -> None:
    first = started(ask(api, "rejects"))

    refused = ask(api, "rejects", "reject")

    assert refused.status == 409
    assert refused.body["kind"] == "concurrency.taken"
    assert refused.body["holders"] == [first]
    assert "'rejects'" in refused.body["message"]
    assert first in refused.body["message"]
    record = api.get(f"/api/executions/{refused.body['execution_id']}").body
    assert record["status"] == "failed"
    assert record["error"]["kind"] == "concurrency.taken"
    stop(api, first)
    api.finish(first)
    stop(api, started(ask(api, "rejects", "reject")))


def test_a_refusal_is_repeated_for_its_idempotency_key(api: Api) -> None:
    first = started(ask(api, "again"))
    places = {"key": "again", "on_limit": "reject"}
    body = {"playbook": ASKS, "concurrency": places, "idempotency_key": "again-1"}

    answers = [api.post("/api/executions", body) for _ in range(2)]

    assert [answer.status for answer in answers] == [409, 409]
    assert answers[0].body["execution_id"] == answers[1].body["execution_id"]
    assert answers[1].body["holders"] == [first]
    stop(api, first)


def test_the_newest_takes_the_place_of_those_before(api: Api) -> None:
    first = started(ask(api, "newest"))
    second = started(ask(api, "newest"))

    third = started(ask(api, "newest", "cancel_previous"))

    api.await_event(third, "workflow.admitted")
    for name in (first, second):
        document = api.get(f"/api/executions/{name}").body
        assert document["status"] == "cancelled"
        assert f"execution {third} replaces it" in document["error"]["message"]
        assert document["error"]["superseded_by"] == third
    stop(api, third)


def test_only_as_many_are_cancelled_as_must_be(api: Api) -> None:
    first, second = (started(ask(api, "some", limit=2)) for _ in range(2))

    third = started(ask(api, "some", "cancel_previous", 2))

    api.await_event(third, "workflow.admitted")
    assert api.get(f"/api/executions/{first}").body["status"] == "cancelled"
    assert api.get(f"/api/executions/{second}").body["status"] == "waiting"
    stop(api, second, third)


def test_who_may_not_cancel_may_not_take_a_place(fresh_server: Running) -> None:
    admin = Api(fresh_server.url, fresh_server.token)
    assert admin.post("/api/catalog", {"playbook": ASKS}).status == 201
    body = {"path": "tests/asks", "concurrency": {"key": "k"}}
    first = started(admin.post("/api/executions", body))
    viewer = fresh_server.person("vera", "viewer")

    body["concurrency"] |= {"on_limit": "cancel_previous"}  # type: ignore[operator]
    assert viewer.post("/api/executions", body).status == 403

    assert names(admin, first)[-1] != "workflow.cancelled"


@pytest.fixture
def fresh_server(tmp_path: Path) -> Any:
    server = Running(tmp_path / "home")
    yield server
    server.stop()


def test_the_queue_is_there_after_a_restart(tmp_path: Path) -> None:
    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    first, second, third = (started(ask(api, "kept")) for _ in range(3))
    server.stop()

    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    assert names(api, second)[-1] == "workflow.queued"
    tell(api, first)
    api.await_event(second, "workflow.admitted")
    assert names(api, third)[-1] == "workflow.queued"
    stop(api, second, third)
    server.stop()


KEYED = playbook(
    "keyed",
    "- {step: start, tool: {kind: wait, signal: go}}",
    """
    workload: {region: eu}
    executor: {spec: {concurrency: {key: "{{ workload.region }}", on_limit: reject}}}
    """,
)


def test_a_playbook_may_say_it_itself(api: Api) -> None:
    first = api.start(KEYED)
    other = api.start(KEYED, workload={"region": "us"})

    refused = api.post("/api/executions", {"playbook": KEYED})

    assert (refused.status, refused.body["holders"]) == (409, [first])
    stop(api, first, other)


def test_a_caller_cannot_replace_the_concurrency_key_of_a_playbook(api: Api) -> None:
    body = {"playbook": KEYED, "concurrency": {"key": "mine"}}

    refused = api.post("/api/executions", body)

    assert (refused.status, refused.body["kind"]) == (422, "concurrency.key")
    assert "remove concurrency" in refused.body["hint"]


def test_a_key_that_cannot_be_made_is_on_record(api: Api) -> None:
    refused = api.post(
        "/api/executions", {"playbook": KEYED, "workload": {"region": None}}
    )

    assert (refused.status, refused.body["kind"]) == (422, "concurrency.key")
    assert (
        "the key must be a text or a number, found nothing" in refused.body["message"]
    )
    record = api.get(f"/api/executions/{refused.body['execution_id']}").body
    assert record["error"]["kind"] == "concurrency.key"


@pytest.mark.parametrize(
    "places",
    [
        {},
        {"key": ""},
        {"key": "a\nb"},
        {"key": "k" * 201},
        {"key": "k", "limit": 0},
        {"key": "k", "limit": 10_001},
        {"key": "k", "on_limit": "wait"},
        {"key": "k", "most": 2},
        "k",
    ],
)
def test_an_invalid_limit_is_refused(api: Api, places: Any) -> None:
    answer = api.post("/api/executions", {"playbook": HELLO, "concurrency": places})

    assert answer.status == 422, answer.body
    assert answer.body["kind"].startswith("request.")
