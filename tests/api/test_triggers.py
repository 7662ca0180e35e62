"""Triggers over HTTP: made, listed, paused, deleted, fired; by those who may."""

from __future__ import annotations

from typing import Any

import pytest
from servers import HELLO, Answer, Api, Running, playbook

SCHEDULE = {"cron": "0 2 * * *", "zone": "Europe/Berlin"}
OTHER = playbook("other", "- {step: start, tool: {kind: noop, result: 2}}")


INPUTS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: inputs
  path: tests/inputs
  inputs:
    type: object
    required: [day]
    properties: {day: {type: string, format: date}, n: {type: integer, minimum: 1}}
workflow:
  - {step: start, tool: {kind: noop, result: "{{ day }}"}}
"""


def make(api: Api, name: str, **members: Any) -> Answer:
    trigger = {"name": name, "playbook": "tests/hello", **members}
    return api.post("/api/triggers", {"trigger": trigger})


@pytest.fixture(autouse=True)
def registered(api: Api) -> None:
    for text in (HELLO, OTHER, INPUTS):
        assert api.post("/api/catalog", {"playbook": text}).status in (200, 201)


def test_a_trigger_is_made_and_shown_and_deleted(api: Api) -> None:
    made = make(api, "nightly", schedule=SCHEDULE, workload={"a": "{{ slot.date }}"})
    shown = api.get("/api/triggers/nightly").body

    assert (made.status, made.body["created"], made.body["token"]) == (201, True, None)
    assert (shown["kind"], shown["playbook"]) == ("schedule", "tests/hello")
    assert shown["next_at"] > shown["created_at"]
    assert shown["definition"]["workload"] == {"a": "{{ slot.date }}"}
    listed = api.get("/api/triggers").body["triggers"]
    assert shown in listed
    assert api.call("DELETE", "/api/triggers/nightly").status == 200
    gone = api.get("/api/triggers/nightly")
    assert (gone.status, gone.body["kind"]) == (404, "trigger.unknown")


def test_the_same_again_changes_nothing_and_another_is_refused(api: Api) -> None:
    first = make(api, "twice", schedule=SCHEDULE)
    again = make(api, "twice", schedule=SCHEDULE)
    other = make(api, "twice", schedule={"cron": "0 3 * * *"})
    kind = {"name": "twice", "playbook": "tests/hello", "webhook": {}}
    changed = {**kind, "webhook": None, "schedule": {"cron": "0 3 * * *"}}
    replaced = api.post("/api/triggers", {"trigger": changed, "replace": True})
    never = api.post("/api/triggers", {"trigger": kind, "replace": True})

    assert (first.status, again.status) == (201, 200)
    assert (other.status, other.body["kind"]) == (409, "trigger.exists")
    assert (replaced.status, replaced.body["created"]) == (200, False)
    assert replaced.body["definition"]["schedule"]["cron"] == "0 3 * * *"
    assert never.status == 409


@pytest.mark.parametrize(
    ("members", "kind", "message"),
    [
        ({"schedule": {"cron": "bad"}}, "trigger.invalid", "schedule.cron: a cron"),
        ({"schedule": {"cron": "0 2 * * *", "zone": "X"}}, "trigger.invalid", "zone"),
        ({"schedule": {"zone": "UTC"}}, "request.invalid", "cron"),
        ({"schedule": {**SCHEDULE, "crn": 1}}, "request.unknown_field", "crn"),
        ({"webhook": {}, "playbook": "a/b"}, "playbook.not_found", "'a/b'"),
        ({"webhook": {}, "playbook": "tests/hello@9"}, "playbook.not_found", "'9'"),
        ({"webhook": {}, "name": "Big Name"}, "request.invalid", "name"),
        ({"finished": {"path": "tests/*"}}, "trigger.loop", "tests/hello →"),
        ({}, "trigger.invalid", "one of webhook, schedule, finished"),
    ],
)
def test_an_invalid_trigger_is_refused(
    api: Api, members: dict[str, Any], kind: str, message: str
) -> None:
    answer = make(api, members.pop("name", "wrong"), **members)

    assert answer.body["kind"] == kind
    assert message in answer.body["message"]
    assert api.get("/api/triggers/wrong").status == 404


@pytest.mark.spec("S-72")
@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        ({}, "'day' is missing"),
        ({"day": "{{ slot.date }}", "n": 0}, "'n' must be 1 or more"),
        ({"day": "May"}, "'day' must have the format 'date'"),
    ],
)
def test_a_trigger_whose_inputs_can_never_fit_is_refused(
    api: Api, workload: dict[str, Any], problem: str
) -> None:
    inputs = {"playbook": "tests/inputs", "workload": workload}
    answer = make(api, "wrong", schedule=SCHEDULE, **inputs)

    assert (answer.status, answer.body["kind"]) == (422, "trigger.invalid")
    assert answer.body["message"].startswith("workload: ")
    assert problem in answer.body["message"]


@pytest.mark.spec("S-72", "S-41")
def test_a_trigger_must_not_contain_a_secret_input(api: Api) -> None:
    secret = INPUTS.replace("{type: integer, minimum: 1}", "{secret: true}")
    secret = secret.replace("inputs\n", "sealed\n")
    api.post("/api/catalog", {"playbook": secret})
    inputs = {"playbook": "tests/sealed", "schedule": SCHEDULE}
    workload = {"day": "{{ slot.date }}", "n": "hunter2"}
    answer = make(api, "leaky", **inputs, workload=workload)

    assert (answer.status, answer.body["kind"]) == (422, "trigger.invalid")
    assert answer.body["message"].startswith("workload.n: ")
    assert "hunter2" not in answer.body["message"]


@pytest.mark.spec("S-72")
def test_a_trigger_labels_what_it_starts(api: Api) -> None:
    inputs = {"playbook": "tests/inputs", "workload": {"day": "{{ slot.date }}"}}
    labels = {"by": "nightly", "day": "{{ slot.date }}"}
    made = make(api, "labelled", **inputs, schedule=SCHEDULE, labels=labels)
    wrong = make(api, "odd", **inputs, schedule=SCHEDULE, labels={"a b": "c"})
    never = make(api, "odd", **inputs, schedule=SCHEDULE, labels={"a": "{{ payload }}"})
    slot = {"slot": "2026-01-31T02:00"}
    started = api.post("/api/triggers/labelled/fire", slot).body["execution_id"]
    empty = {"by": "x", "day": "{{ trigger.slot[:0] }}"}
    make(api, "blank", **inputs, schedule=SCHEDULE, labels=empty)
    refused = api.post("/api/triggers/blank/fire", {})

    assert made.body["definition"]["labels"] == labels
    assert (wrong.status, wrong.body["kind"]) == (422, "request.invalid")
    assert (never.body["kind"], never.body["path"]) == ("trigger.invalid", "labels.a")
    rendered = {"by": "nightly", "day": "2026-01-31"}
    assert api.get(f"/api/executions/{started}").body["labels"] == rendered
    assert (refused.status, refused.body["kind"]) == (422, "trigger.inputs")
    record = api.get(f"/api/executions/{refused.body['execution_id']}").body
    assert record["labels"] == {"by": "x"}
    assert "labels.day: the label 'day' is not valid" in record["error"]["message"]


@pytest.mark.spec("S-72")
def test_inputs_of_a_slot_are_checked_and_unknown_ones_are_warnings(api: Api) -> None:
    inputs = {"playbook": "tests/inputs", "schedule": SCHEDULE}
    unknown = {"day": "{{ slot.date }}", "dya": 1}
    made = make(api, "warned", **inputs, workload=unknown)
    started = api.post("/api/triggers/warned/fire", {})
    make(api, "wrong", **inputs, workload={"day": "{{ trigger.name }}"})
    refused = api.post("/api/triggers/wrong/fire", {})

    assert (made.status, started.status) == (201, 201)
    message = "the playbook declares no input 'dya'; did you mean 'day'?"
    assert made.body["warnings"] == started.body["warnings"] == [message]
    assert (refused.status, refused.body["kind"]) == (422, "inputs.invalid")
    execution = api.get(f"/api/executions/{refused.body['execution_id']}").body
    assert execution["error"]["problems"] == ["'day' must have the format 'date'"]


@pytest.mark.spec("S-72")
@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("{{ slot.dat }}", "did you mean 'date'?"),
        ("{{ trigger.slto }}", "did you mean 'slot'?"),
    ],
)
def test_names_that_no_slot_has_are_refused(api: Api, value: str, hint: str) -> None:
    refused = make(api, "typo", schedule=SCHEDULE, workload={"day": value})
    guarded = value.replace(" }}", " | default('none') }}")
    asks = make(api, f"asks{len(value)}", schedule=SCHEDULE, workload={"day": guarded})

    assert (refused.status, refused.body["kind"]) == (422, "trigger.invalid")
    assert refused.body["message"].startswith("workload.day: ")
    assert refused.body["hint"] == hint
    assert asks.status == 201


def test_who_may_and_who_may_not(running: Running, api: Api) -> None:
    make(api, "theirs", schedule=SCHEDULE)
    viewer = running.person("trigger-viewer", "viewer")
    operator = running.person("trigger-operator", "operator")
    elsewhere = running.person("trigger-else", "operator:sales/*")
    some = running.person("trigger-some", "operator:tests/other")

    assert viewer.get("/api/triggers/theirs").status == 200
    assert viewer.post("/api/triggers/theirs/pause").status == 403
    assert operator.post("/api/triggers/theirs/pause").body["paused"] is True
    assert operator.post("/api/triggers/theirs/resume").body["paused"] is False
    assert elsewhere.get("/api/triggers/theirs").status == 404
    assert elsewhere.get("/api/triggers").body["triggers"] == []
    assert elsewhere.call("DELETE", "/api/triggers/theirs").status == 404
    assert make(elsewhere, "mine", schedule=SCHEDULE).status == 403
    heard = {"playbook": "tests/other", "finished": {"path": "tests/hello"}}
    assert make(some, "mine", **heard).status == 403, "they may not see its executions"
    taken = {"name": "theirs", "playbook": "tests/other", "schedule": SCHEDULE}
    answer = some.post("/api/triggers", {"trigger": taken, "replace": True})
    assert answer.status == 409, "the name does not pass to another account"
    assert "theirs" in answer.body["message"]


def test_a_listing_names_the_trigger_and_the_slot_but_no_key(api: Api) -> None:
    make(api, "listed", schedule=SCHEDULE)
    slot = {"slot": "2026-01-05T02:00"}
    of_slot = api.post("/api/triggers/listed/fire", slot).body["execution_id"]
    of_key = api.post("/api/triggers/listed/fire", {"key": "a@b.example"}).body
    by_hand = api.start(HELLO)
    for name in (of_slot, of_key["execution_id"], by_hand):
        api.finish(name)

    found = api.get("/api/executions").body["executions"]
    started = {each["execution_id"]: each["trigger"] for each in found}

    assert (
        started[of_slot]["name"] == started[of_key["execution_id"]]["name"] == "listed"
    )
    assert started[of_slot]["slot"].startswith("2026-01-05T0")
    assert started[of_key["execution_id"]]["slot"] is None
    assert started[by_hand] is None


def test_it_is_fired_by_hand(api: Api) -> None:
    make(api, "by-hand", schedule=SCHEDULE, workload={"day": "{{ slot.date }}"})

    slot = {"slot": "2026-01-05T02:00"}
    first = api.post("/api/triggers/by-hand/fire", slot)
    again = api.post("/api/triggers/by-hand/fire", slot)
    now = api.post("/api/triggers/by-hand/fire", {"key": "k1"})
    wrong = api.post("/api/triggers/by-hand/fire", {"slot": "2026-01-05T02:01"})
    other = api.post("/api/triggers/by-hand/fire", {"payload": {"a": 1}})

    document = api.finish(first.body["execution_id"])
    assert document["workload"] == {"day": "2026-01-05"}
    assert again.body["execution_id"] == first.body["execution_id"]
    assert again.headers["idempotent-replayed"] == "true"
    assert now.body["execution_id"] != first.body["execution_id"]
    assert (wrong.status, wrong.body["kind"]) == (422, "trigger.invalid")
    assert (other.status, other.body["hint"]) == (
        422,
        "inputs that it takes: slot, key, again",
    )
    assert "the next slot is 2026-01-06T01:00:00Z" in wrong.body["hint"]


@pytest.mark.spec("S-77")
def test_a_slot_that_failed_is_fired_again_on_purpose(api: Api) -> None:
    inputs = {"playbook": "tests/inputs", "schedule": SCHEDULE}
    make(api, "mended", **inputs, workload={"day": "{{ trigger.name }}"})
    slot = {"slot": "2026-01-05T02:00"}
    refused = api.post("/api/triggers/mended/fire", slot).body["execution_id"]
    made = {"name": "mended", **inputs, "workload": {"day": "{{ slot.date }}"}}
    api.post("/api/triggers", {"trigger": made, "replace": True})

    plain = api.post("/api/triggers/mended/fire", slot)
    again = api.post("/api/triggers/mended/fire", {**slot, "again": refused})
    repeated = api.post("/api/triggers/mended/fire", {**slot, "again": refused})

    assert plain.status == 201
    assert plain.body == {"execution_id": refused, "status": "failed", "repeated": True}
    second = again.body["execution_id"]
    assert api.finish(second)["status"] == "completed"
    assert repeated.body["execution_id"] == second
    after = api.post("/api/triggers/mended/fire", slot).body
    assert (after["execution_id"], after["superseded_by"]) == (refused, second)
    over = api.post("/api/triggers/mended/fire", {**slot, "again": second})
    assert (over.status, over.body["kind"]) == (409, "again.impossible")


def test_an_ending_fires_the_trigger(fresh: Api) -> None:
    for text in (HELLO, OTHER):
        fresh.post("/api/catalog", {"playbook": text})
    finished = {"path": "tests/hello"}
    made = make(fresh, "after", playbook="tests/other", finished=finished)
    assert made.status == 201, made.body
    first = fresh.start(HELLO)
    fresh.finish(first)

    by_hand = fresh.post("/api/triggers/after/fire", {"execution_id": first})

    fresh.finish(by_hand.body["execution_id"])
    lines = fresh.get("/api/executions").body["executions"]
    assert [line["playbook"]["path"] for line in lines] == [
        "tests/other",
        "tests/hello",
    ]


def test_a_backfill_over_http(api: Api) -> None:
    make(api, "filled", schedule=SCHEDULE)
    body = {"trigger": "filled", "since": "2026-01-01", "until": "2026-01-31"}

    begun = api.post("/api/backfills", body)
    path = f"/api/backfills/{begun.body['backfill_id']}"
    stopped = api.post(f"{path}/stop")
    resumed = api.post(f"{path}/resume")
    listed = api.get("/api/backfills?trigger=filled").body["backfills"]

    assert (begun.status, begun.body["total"], begun.body["left"]) == (201, 30, 30)
    assert (stopped.body["state"], resumed.body["state"]) == ("stopped", "running")
    assert [each["backfill_id"] for each in listed] == [begun.body["backfill_id"]]
    while (now := api.get(path).body)["state"] == "running":
        pass
    assert (now["state"], now["completed"], now["left"]) == ("finished", 30, 0)
    over = api.post(f"{path}/stop")
    assert (over.status, over.body["kind"]) == (409, "backfill.state")
    assert api.get("/api/backfills/x").body["kind"] == "backfill.unknown"


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"trigger": "nobody"}, 404, "trigger.unknown"),
        ({"since": "soon"}, 422, "backfill.range"),
        ({"at_once": 0}, 422, "request.invalid"),
        ({"at_once": 51}, 422, "request.invalid"),
    ],
)
def test_a_backfill_that_is_none(
    api: Api, change: dict[str, Any], status: int, kind: str
) -> None:
    make(api, "filled2", schedule=SCHEDULE)

    answer = api.post(
        "/api/backfills", {"trigger": "filled2", "since": "2026-01-01", **change}
    )

    assert (answer.status, answer.body["kind"]) == (status, kind)
