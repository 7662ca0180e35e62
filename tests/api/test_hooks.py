"""Webhooks over real HTTP: one execution for a key, and nothing for strangers."""

from __future__ import annotations

import hmac
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HELLO, Answer, Api, Running

SECRET = "a secret that both sides know"


def make(api: Api, name: str, secret: str | None = None, **members: Any) -> Api:
    """A webhook, and a sender that has its token."""
    assert api.post("/api/catalog", {"playbook": HELLO}).status in (200, 201)
    trigger = {"name": name, "playbook": "tests/hello", "webhook": {}, **members}
    made = api.post("/api/triggers", {"trigger": trigger, "secret": secret})
    assert made.status == 201, made.body
    return Api(api.url, made.body["token"])


def test_a_delivery_becomes_an_execution(api: Api) -> None:
    workload = {"ref": "{{ payload.ref }}", "event": "{{ headers['x-event'] }}"}
    sender = make(api, "push", workload=workload)

    answer = sender.post("/hooks/push", {"ref": "main"}, X_Event="push")

    assert answer.status == 201, answer.body
    document = api.finish(answer.body["execution_id"])
    assert document["workload"] == {"ref": "main", "event": "push"}
    first = api.get(f"/api/executions/{answer.body['execution_id']}/events?limit=1")
    caller = first.body["events"][0]["payload"]["caller"]
    assert caller["principal"] == "trigger:push"
    assert caller["trigger"]["name"] == "push"
    assert caller["idempotency_key"] == f"trigger:push:{caller['trigger']['slot']}"


def test_a_delivery_belongs_to_the_trace_of_its_sender(api: Api) -> None:
    sender = make(api, "traced")
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

    good = sender.post("/hooks/traced", traceparent=f"00-{trace}-{span}-01").body
    wrong = sender.post("/hooks/traced", traceparent="x" * 600).body

    first = api.get(f"/api/executions/{good['execution_id']}/events?limit=1")
    asked = first.body["events"][0]["payload"]
    assert (asked["trace_id"], asked["trace_parent"]) == (trace, span)
    assert "warnings" not in good
    assert "header traceparent is ignored" in wrong["warnings"][0]


@pytest.mark.parametrize(
    ("webhook", "headers"),
    [
        ({"key": "{{ payload.id }}"}, {}),
        ({"key": "{{ headers['x-delivery'] }}"}, {"X_Delivery": "d-7"}),
        ({}, {"Idempotency_Key": "d-7"}),
    ],
    ids=["payload", "header", "Idempotency-Key"],
)
def test_one_key_is_one_execution(
    api: Api, webhook: dict[str, Any], headers: dict[str, str], request: Any
) -> None:
    name = f"keyed-{request.node.callspec.id.lower()}"
    sender = make(api, name, webhook=webhook, workload={"x": "{{ payload.x }}"})

    def send(_: int) -> Answer:
        return sender.post(f"/hooks/{name}", {"id": 7, "x": 1}, **headers)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(16)))
    other = sender.post(f"/hooks/{name}", {"id": 7, "x": 2}, **headers)

    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["execution_id"] for answer in answers}) == 1
    assert sum("idempotent-replayed" in each.headers for each in answers) >= 1
    assert (other.status, other.body["kind"]) == (409, "request.key_reused")


def test_without_a_key_each_delivery_is_its_own(api: Api) -> None:
    sender = make(api, "each")

    ids = {sender.post("/hooks/each").body["execution_id"] for _ in range(3)}

    assert len(ids) == 3


def test_two_servers_on_one_database_start_one(tmp_path: Path, postgres: str) -> None:
    one = Running(tmp_path / "one", database=postgres, slots=0)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "results").symlink_to(tmp_path / "one" / "results")
    two = Running(tmp_path / "two", database=postgres, slots=0)
    try:
        admin = Api(one.url, one.token)
        sender = make(admin, "both", webhook={"key": "{{ payload.id }}"})
        senders = [sender, Api(two.url, sender.token)]

        def send(number: int) -> Answer:
            return senders[number % 2].post("/hooks/both", {"id": number // 8})

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, range(40)))

        assert {answer.status for answer in answers} == {201}, answers
        assert len({answer.body["execution_id"] for answer in answers}) == 5
        lines = admin.get("/api/executions").body["executions"]
        assert len(lines) == 5
    finally:
        one.stop()
        two.stop()


@pytest.fixture(scope="module")
def strangers(running: Running) -> list[tuple[str, Api, dict[str, str]]]:
    api = Api(running.url, running.token)
    sender = make(api, "mine")
    other = make(api, "other")
    schedule = {"name": "no-hook", "playbook": "tests/hello"}
    api.post(
        "/api/triggers", {"trigger": {**schedule, "schedule": {"cron": "0 2 * * *"}}}
    )
    assert sender.token is not None
    return [
        ("none", Api(api.url, None), {}),
        ("another webhook's", other, {}),
        ("an account's", api, {}),
        ("cut off", Api(api.url, sender.token[:-1]), {}),
        ("empty", Api(api.url, None), {"Authorization": "Bearer "}),
        (
            "another scheme",
            Api(api.url, None),
            {"Authorization": f"Basic {sender.token}"},
        ),
        ("a cookie", Api(api.url, None), {"Cookie": f"noetl_session={sender.token}"}),
    ]


def test_an_unauthenticated_sender_learns_nothing(strangers, api: Api) -> None:
    before = len(api.get("/api/executions?limit=1000").body["executions"])
    bodies = set()
    for _, stranger, headers in strangers:
        for name in ("mine", "no-such-hook", "no-hook", "MINE", "x" * 300):
            answer = stranger.post(f"/hooks/{name}", {"a": 1}, **headers)
            assert (answer.status, answer.body["kind"]) == (401, "auth.required")
            bodies.add(json.dumps(answer.body))

    assert len(bodies) == 1
    assert len(api.get("/api/executions?limit=1000").body["executions"]) == before


def test_a_token_is_shown_once_and_stored_nowhere(running: Running, api: Api) -> None:
    sender = make(api, "secretive")
    make(api, "signed-too", secret=SECRET, webhook={"verify": "signature"})

    shown = [api.get("/api/triggers").body, api.get("/api/triggers/secretive").body]

    assert sender.token not in json.dumps(shown)
    kept = (running.home.folder / "triggers.db").read_bytes()
    assert sender.token.encode() not in kept
    assert SECRET.encode() not in kept


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, sha256).hexdigest()
    return {"X_Hub_Signature_256": f"sha256={digest}"}


def test_a_signature_of_the_body_opens_it(api: Api) -> None:
    webhook = {"verify": "signature", "header": "X-Hub-Signature-256"}
    make(api, "signed", SECRET, webhook=webhook, workload={"a": "{{ payload.a }}"})
    sender, body = Api(api.url, None), b'{"a": 1}'

    fine = sender.post("/hooks/signed", body, **signed(body))
    changed = sender.post("/hooks/signed", b'{"a": 2}', **signed(body))
    other = sender.post("/hooks/signed", body, **signed(body, "another secret of it"))
    none = sender.post("/hooks/signed", body)
    broken = sender.post("/hooks/signed", b"{", **signed(b"{"))

    assert fine.status == 201
    assert api.finish(fine.body["execution_id"])["workload"] == {"a": 1}
    assert [each.status for each in (changed, other, none)] == [401, 401, 401]
    assert (broken.status, broken.body["kind"]) == (400, "json.invalid")


def test_a_short_secret_is_refused(api: Api) -> None:
    trigger = {"name": "short", "playbook": "tests/hello", "webhook": {}}
    signs = {**trigger, "webhook": {"verify": "signature"}}

    short = api.post("/api/triggers", {"trigger": signs, "secret": "hunter2"})
    vain = api.post("/api/triggers", {"trigger": trigger, "secret": SECRET})

    assert "at least 16 characters" in short.body["message"]
    assert "webhook.verify: signature" in vain.body["message"]
    assert "hunter2" not in json.dumps(short.body)


def test_a_paused_one_takes_nothing(api: Api) -> None:
    sender = make(api, "paused")
    api.post("/api/triggers/paused/pause")
    refused = sender.post("/hooks/paused", {})
    api.post("/api/triggers/paused/resume")

    assert (refused.status, refused.body["kind"]) == (409, "trigger.paused")
    assert sender.post("/hooks/paused", {}).status == 201


@pytest.mark.parametrize(
    ("body", "headers", "status", "kind"),
    [
        (b"x" * (1024 * 1024 + 1), {}, 413, "request.too_large"),
        (b'"' + b"x" * (1024 * 1024) + b'"', {}, 413, "request.too_large"),
        (b"{", {}, 400, "json.invalid"),
        (b"[" * 5_000 + b"]" * 5_000, {}, 400, "json.invalid"),
        (b'{"a": 1, "a": 2}', {}, 400, "json.invalid"),
        (b"a=b", {"Content_Type": "text/plain"}, 415, "request.content_type"),
        (b"{}", {"Content_Encoding": "gzip"}, 415, "request.content_type"),
        (b"{}", {}, 422, "trigger.inputs"),
        (b'{"id": "a b"}', {}, 422, "trigger.inputs"),
        (b'{"id": {"x": 1}}', {}, 422, "trigger.inputs"),
        (b"{}", {"Origin": "https://evil.example"}, 403, "host.not_allowed"),
        (b"{}", {"Host": "evil.example"}, 421, "host.not_allowed"),
    ],
)
def test_hostile_deliveries(
    running: Running,
    api: Api,
    body: bytes,
    headers: dict[str, str],
    status: int,
    kind: str,
) -> None:
    if not hasattr(running, "hostile"):
        running.hostile = make(api, "hostile", webhook={"key": "{{ payload.id }}"})

    answer = running.hostile.post("/hooks/hostile", body, **headers)

    assert (answer.status, answer.body["kind"]) == (status, kind)


def test_a_flood_is_slowed_down(fresh: Api) -> None:
    sender, calm = make(fresh, "flood"), make(fresh, "calm")

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: sender.post("/hooks/flood"), range(600)))

    slowed = [answer for answer in answers if answer.status == 429]
    assert slowed
    assert slowed[0].body["kind"] == "request.rate"
    assert int(slowed[0].headers["retry-after"]) >= 1
    assert calm.post("/hooks/calm").status == 201, "the others are not concerned"


@pytest.mark.spec("S-42")
def test_an_unknown_playbook_is_on_record(fresh: Api, tmp_path: Path) -> None:
    """Its catalog was put back by hand: what a trigger asks for is not there."""
    sender = make(fresh, "lost", webhook={"key": "{{ payload.id }}"})
    with sqlite3.connect(tmp_path / "home" / "catalog.db") as db:
        db.execute("DELETE FROM playbook")
    db.close()

    first = sender.post("/hooks/lost", {"id": 1})
    again = sender.post("/hooks/lost", {"id": 1})

    assert (first.status, first.body["kind"]) == (404, "playbook.not_found")
    assert again.body["execution_id"] == first.body["execution_id"]
    shown = fresh.get(f"/api/executions/{first.body['execution_id']}").body
    assert shown["status"] == "failed"


@pytest.mark.spec("S-36")
def test_a_trigger_says_how_many_may_be_under_way(api: Api) -> None:
    assert api.post("/api/catalog", {"playbook": ASKS}).status in (200, 201)
    places = {
        "key": "{{ payload.region }}-{{ workload.table }}",
        "on_limit": "reject",
    }
    workload = {"table": "orders"}
    sender = make(
        api, "one", playbook="tests/asks", concurrency=places, workload=workload
    )

    first = sender.post("/hooks/one", {"region": "eu"})
    second = sender.post("/hooks/one", {"region": "eu"})
    third = sender.post("/hooks/one", {"region": "us"})

    assert (first.status, second.status, third.status) == (201, 409, 201)
    assert second.body["holders"] == [first.body["execution_id"]]
    document = api.get(f"/api/executions/{first.body['execution_id']}").body
    assert document["concurrency"]["key"] == "eu-orders"
    for answer in (first, third):
        api.post(f"/api/executions/{answer.body['execution_id']}/cancel")


@pytest.mark.spec("S-36")
def test_a_key_that_a_delivery_does_not_make_is_on_record(api: Api) -> None:
    sender = make(api, "keyless", concurrency={"key": "{{ payload.region }}"})

    answer = sender.post("/hooks/keyless", {"region": None})

    assert (answer.status, answer.body["kind"]) == (422, "trigger.inputs")
    assert "concurrency.key" in answer.body["message"]
    assert "execution_id" in answer.body


def test_deliveries_beyond_the_rate_come_again_later(api: Api) -> None:
    sender = make(api, "rated", webhook={"rate": "3/h"})

    answers = [sender.post("/hooks/rated", {}) for _ in range(4)]

    assert [answer.status for answer in answers] == [201, 201, 201, 429]
    assert answers[-1].body["kind"] == "request.rate"
    assert "3/h" in answers[-1].body["message"]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 1200


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"webhook": {"rate": "ten"}}, "webhook.rate"),
        ({"webhook": {"rate": "0/s"}}, "webhook.rate"),
        ({"webhook": {"rate": "5/d"}}, "webhook.rate"),
        ({"concurrency": {"key": "{{ slot }}"}}, "concurrency.key"),
        ({"concurrency": {"key": "{{ payload."}}, "concurrency.key"),
    ],
)
def test_a_limit_that_is_none_is_refused(api: Api, members: Any, path: str) -> None:
    trigger = {"name": "wrong", "playbook": "tests/hello", "webhook": {}, **members}

    answer = api.post("/api/triggers", {"trigger": trigger})

    assert (answer.status, answer.body["kind"]) == (422, "trigger.invalid")
    assert path in str(answer.body)
