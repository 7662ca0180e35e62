"""Starting executions and looking at them."""

from __future__ import annotations

import json
import re
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HELLO, Api, Running, playbook

from noetl.access.rate_limit import TokenBucket
from noetl.engine.ids import span_id_of
from noetl.service.executions import queries

ADDS = playbook(
    "adds",
    """
    - step: start
      tool: {kind: noop, result: "{{ workload.a + workload.b }}"}
    """,
    root="workload: {a: 1, b: 2}\n",
)
INPUTS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: inputs
  path: tests/inputs
  inputs:
    type: object
    required: [region]
    properties: {region: {type: string}, n: {type: integer, default: 1}}
workflow:
  - {step: start, tool: {kind: noop, result: "{{ region }}"}}
"""
LIMITED = 'executor: {spec: {concurrency: {key: "{{ workload.region.x.y }}"}}}\n'


@pytest.mark.spec("SRV-01", "SRV-03", "SRV-08", "SRV-13")
def test_a_playbook_given_as_text_runs_to_its_end(api: Api) -> None:
    answer = api.post("/api/executions", {"playbook": ADDS, "workload": {"b": 40}})

    assert answer.status == 201
    assert answer.body.keys() == {"execution_id", "status"}
    document = api.finish(answer.body["execution_id"])
    assert (document["status"], document["result"]) == ("completed", 41)
    assert document["workload"] == {"a": 1, "b": 40}
    assert answer.headers["location"].endswith(document["execution_id"])


@pytest.mark.spec("SRV-08")
def test_a_waiting_request_gets_the_result(api: Api) -> None:
    answer = api.post("/api/executions?wait=30", {"playbook": ADDS})

    assert answer.status == 201
    assert {**answer.body, "execution_id": ""} == {
        "execution_id": "",
        "status": "completed",
        "result": 3,
        "error": None,
    }


@pytest.mark.spec("SRV-08")
def test_a_wait_that_times_out_gets_the_status(api: Api) -> None:
    answer = api.post("/api/executions?wait=0.05", {"playbook": ASKS})

    assert answer.status == 201
    assert answer.body.keys() == {"execution_id", "status"}
    assert answer.body["status"] in ("running", "waiting")
    api.post(f"/api/executions/{answer.body['execution_id']}/cancel")


@pytest.mark.spec("SRV-04", "WRK-02")
def test_the_request_is_on_record_before_anything_comes_of_it(api: Api) -> None:
    document = api.run(ADDS, ctx={"seen": 1}, args={"x": 2})

    events = list(api.stream(document["execution_id"]))
    assert [event["name"] for event in events[:4]] == [
        "playbook.execution.requested",
        "playbook.request.evaluated",
        "workflow.started",
        "step.scheduled",
    ]
    assert events[0]["payload"]["caller"]["principal"] == "local"
    started = events[2]["payload"]
    assert started["workload"] == {"a": 1, "b": 2}
    assert started["ctx"] == {"seen": 1}
    assert started["token"]["args"] == {"x": 2}


@pytest.mark.spec("SRV-05", "S-43")
def test_a_registered_playbook_runs_by_path_version_and_id(api: Api) -> None:
    ids = {}
    for version in ("1.9", "1.10"):
        steps = f"- {{step: start, tool: {{kind: noop, result: '{version}'}}}}"
        text = playbook("versions", steps, version=version)
        ids[version] = api.post("/api/catalog", {"playbook": text}).body["playbook_id"]

    def run(**asked: str) -> dict[str, object]:
        answer = api.post("/api/executions", asked)
        assert answer.status == 201, answer.body
        return api.finish(answer.body["execution_id"])

    latest = run(path="tests/versions")
    assert latest["result"] == "1.10", "1.10 is later than 1.9"
    assert latest["playbook"]["version"] == "1.10"
    assert len(latest["playbook"]["sha256"]) == 64
    assert run(path="tests/versions", version="1.9")["result"] == "1.9"
    assert run(playbook_id=ids["1.9"])["result"] == "1.9"


@pytest.mark.spec("SRV-06", "S-42")
def test_an_invalid_playbook_is_refused_and_on_record(api: Api) -> None:
    wrong = playbook("wrong", "- {step: start, tool: {kind: pithon}}")

    answer = api.post("/api/executions", {"playbook": wrong})

    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["kind"] == "playbook.invalid"
    [found] = [d for d in answer.body["diagnostics"] if d["severity"] == "error"]
    assert "python" in found["hint"]
    events = list(api.stream(answer.body["execution_id"]))
    assert [(event["name"], event["status"]) for event in events] == [
        ("playbook.execution.requested", "in_progress"),
        ("playbook.request.evaluated", "error"),
        ("playbook.processed", "error"),
    ]
    document = api.get(f"/api/executions/{answer.body['execution_id']}").body
    assert document["error"]["diagnostics"] == answer.body["diagnostics"]


@pytest.mark.spec("SRV-04", "SRV-05")
def test_a_playbook_that_is_not_there_is_named_and_on_record(api: Api) -> None:
    answer = api.post("/api/executions", {"path": "tests/nobody", "version": "7"})

    assert (answer.status, answer.body["kind"]) == (404, "playbook.not_found")
    assert "'tests/nobody' in version '7'" in answer.body["message"]
    document = api.get(f"/api/executions/{answer.body['execution_id']}").body
    assert (document["status"], document["steps"]) == ("failed", [])


@pytest.mark.spec("KEY-03", "S-41")
def test_a_keychain_that_cannot_be_resolved_stops_it(api: Api) -> None:
    text = playbook(
        "keys",
        "- {step: start, tool: {kind: noop}}",
        root="keychain: [{name: door, kind: secret_manager}]\n",
    )

    answer = api.post("/api/executions", {"playbook": text})

    assert (answer.status, answer.body["kind"]) == (422, "keychain.unresolved")
    assert [entry["name"] for entry in answer.body["entries"]] == ["door"]
    assert "execution_id" in answer.body


@pytest.mark.spec("S-72", "S-42")
def test_inputs_that_do_not_fit_are_refused_with_each_problem(api: Api) -> None:
    answer = api.post("/api/executions", {"playbook": INPUTS, "workload": {"n": "x"}})

    assert (answer.status, answer.body["kind"]) == (422, "inputs.invalid")
    assert answer.body["problems"] == [
        "'n' must be a whole number, found text",
        "'region' is missing",
    ]
    document = api.get(f"/api/executions/{answer.body['execution_id']}").body
    assert (document["status"], document["steps"]) == ("failed", [])
    assert document["error"]["kind"] == "inputs.invalid"


@pytest.mark.spec("S-72")
def test_inputs_are_checked_before_the_concurrency_key_is_rendered(api: Api) -> None:
    text = INPUTS.replace("workflow:", LIMITED + "workflow:")

    assert api.post("/api/executions", {"playbook": text}).body["kind"] == (
        "inputs.invalid"
    )


@pytest.mark.spec("S-72")
def test_an_unknown_input_is_a_warning_of_the_answer(api: Api) -> None:
    workload = {"region": "eu", "regoin": "us"}
    answer = api.post("/api/executions", {"playbook": INPUTS, "workload": workload})

    assert answer.status == 201
    assert answer.body["warnings"] == [
        "the playbook declares no input 'regoin'; did you mean 'region'?"
    ]
    document = api.finish(answer.body["execution_id"])
    assert document["warnings"] == answer.body["warnings"]


@pytest.mark.spec("S-72", "S-41")
def test_a_secret_input_is_in_no_answer_and_not_in_the_digest(api: Api) -> None:
    declared = INPUTS.replace("{type: integer, default: 1}", "{secret: true}")
    text = declared.replace(
        "workflow:", LIMITED.replace(".region.x.y", ".n") + "workflow:"
    )
    body = {"playbook": text, "workload": {"region": "eu", "n": "pin1"}}
    first = api.post("/api/executions", body).body["execution_id"]
    body["workload"] = {"region": "eu", "n": "pin2"}
    second = api.post("/api/executions", body).body["execution_id"]
    document = api.finish(first)
    [one, two] = [
        api.get(f"/api/executions/{each}/events").body["events"]
        for each in (first, second)
    ]

    assert document["workload"]["n"].keys() == {"secret"}
    assert document["concurrency"]["key"] == "***"
    assert "pin1" not in json.dumps([document, one])
    assert (
        one[0]["payload"]["caller"]["sha256"] == two[0]["payload"]["caller"]["sha256"]
    )


@pytest.mark.spec("S-72", "SRV-03")
def test_labels_of_a_request_are_listed_and_filtered(api: Api) -> None:
    text = HELLO.replace("metadata: {", "metadata: {labels: {team: a, env: prod}, ")
    body = {"playbook": text, "labels": {"env": "test", "note": "a=b&c"}}
    started = api.post("/api/executions", body).body["execution_id"]
    document = api.finish(started)

    def listed(query: str) -> list[Any]:
        return api.get(f"/api/executions?{query}").body["executions"]

    [line] = listed("label=env%3Dtest&label=note%3Da%3Db%26c")
    assert line["execution_id"] == started
    assert document["labels"] == line["labels"]
    assert line["labels"] == {"team": "a", "env": "test", "note": "a=b&c"}
    assert listed("label=env%3Dprod") == []


@pytest.mark.spec("S-72")
@pytest.mark.parametrize("label", ["team", "=a", "team%3D", "a%20b%3Dc"])
def test_a_label_in_a_query_is_checked(api: Api, label: str) -> None:
    answer = api.get(f"/api/executions?label={label}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == "label"


@pytest.mark.spec("S-72")
@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": 1}, {"a": ""}])
def test_labels_of_a_request_are_checked(api: Api, labels: dict[str, Any]) -> None:
    answer = api.post("/api/executions", {"playbook": HELLO, "labels": labels})

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")


# The same request once


@pytest.mark.spec("SRV-01")
@pytest.mark.parametrize("place", ["header", "body"])
def test_the_same_key_gives_the_same_execution(api: Api, place: str) -> None:
    body = {"playbook": HELLO, "workload": {"place": place}}
    headers = {"Idempotency_Key": f"once-{place}"} if place == "header" else {}
    if place == "body":
        body["idempotency_key"] = f"once-{place}"

    first = api.post("/api/executions", body, **headers)
    again = api.post("/api/executions", body, **headers)

    assert (first.status, again.status) == (201, 201)
    assert again.body["execution_id"] == first.body["execution_id"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.spec("SRV-01")
def test_a_key_is_for_one_body(api: Api) -> None:
    """Row 63."""
    first = api.post("/api/executions", {"playbook": HELLO}, Idempotency_Key="mine")
    other = {"playbook": HELLO, "workload": {"n": 1}}

    refused = api.post("/api/executions", other, Idempotency_Key="mine")

    assert (refused.status, refused.body["kind"]) == (409, "request.key_reused")
    assert refused.body["execution_id"] == first.body["execution_id"]
    twice = {"playbook": HELLO, "idempotency_key": "a"}
    assert api.post("/api/executions", twice, Idempotency_Key="b").status == 422


@pytest.mark.spec("SRV-01", "S-42")
def test_a_refused_request_is_refused_again_with_its_key(api: Api) -> None:
    body = {"playbook": "nothing", "idempotency_key": "refused"}

    answers = [api.post("/api/executions", body) for _ in range(2)]

    assert [answer.status for answer in answers] == [422, 422]
    assert answers[0].body == answers[1].body


@pytest.mark.spec("SRV-01")
def test_of_many_at_the_same_time_one_begins(api: Api) -> None:
    found: list[str] = []

    def start() -> None:
        body = {"playbook": HELLO, "idempotency_key": "race"}
        found.append(api.post("/api/executions", body).body["execution_id"])

    threads = [threading.Thread(target=start) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 12
    assert len(set(found)) == 1


FAILS = HELLO.replace("result: 1", "result: '{{ 6 // workload.n }}'")


@pytest.mark.spec("S-77")
def test_a_failed_key_runs_again_on_purpose_once(api: Api) -> None:
    body = {"playbook": FAILS, "workload": {"n": 0}, "idempotency_key": "again"}
    first = api.post("/api/executions", body).body["execution_id"]
    assert api.finish(first)["status"] == "failed"
    better = {**body, "workload": {"n": 2}, "again": first}

    found: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(
                api.post("/api/executions", better).body["execution_id"]
            )
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    [second] = set(found)
    assert api.finish(second)["result"] == 3
    plain = api.post("/api/executions", body).body
    assert plain == {
        "execution_id": first,
        "status": "failed",
        "repeated": True,
        "superseded_by": second,
    }
    [asked] = api.get(f"/api/executions/{second}/events").body["events"][:1]
    assert asked["payload"]["caller"]["again"] == first


@pytest.mark.spec("S-77")
@pytest.mark.parametrize(
    ("key", "again", "said"),
    [
        pytest.param(None, None, "with an idempotency key", id="no key"),
        pytest.param("unused-key", None, "has no execution yet", id="a new key"),
        pytest.param("again-done", "1" * 32, "is not the latest", id="another one"),
        pytest.param("again-done", None, "only what failed", id="it completed"),
    ],
)
def test_only_the_latest_failure_of_a_key_runs_again(
    api: Api, key: str | None, again: str | None, said: str
) -> None:
    body = {"playbook": HELLO, "idempotency_key": "again-done"}
    done = api.post("/api/executions", body).body["execution_id"]
    api.finish(done)
    other = done[:-4] + "0000" if again else done
    asked = {"playbook": HELLO, "idempotency_key": key, "again": other}

    refused = api.post("/api/executions", asked)

    assert (refused.status, refused.body["kind"]) == (409, "again.impossible")
    assert said in refused.body["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param({}, "found none of them", id="nothing"),
        pytest.param(
            {"path": "a", "playbook": "b"}, "found path and playbook", id="two"
        ),
        pytest.param({"playbook": "b", "version": "1"}, "requires path", id="version"),
        pytest.param({"path": ""}, "length >= 1", id="an empty path"),
        pytest.param({"path": "a\0b"}, "matching regex", id="NUL"),
        pytest.param({"path": "x" * 300}, "length <= 255", id="too long"),
        pytest.param(
            {"path": "a", "workload": []}, "Expected `object`", id="no mapping"
        ),
        pytest.param(
            {"path": "a", "idempotency_key": "has spaces"}, "regex", id="a bad key"
        ),
    ],
)
def test_a_request_that_does_not_fit_says_why(
    api: Api, body: dict[str, object], said: str
) -> None:
    answer = api.post("/api/executions", body)

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")
    assert said in answer.body["message"]


# Listings


@pytest.mark.spec("SRV-03")
def test_listings_come_in_pages_the_newest_first(fresh: Api) -> None:
    ids = [fresh.start(HELLO) for _ in range(5)]
    for execution_id in ids:
        fresh.finish(execution_id)
    seen, cursor = [], ""
    while cursor is not None:
        page = fresh.get(f"/api/executions?limit=2{cursor}").body
        seen.append([line["execution_id"] for line in page["executions"]])
        cursor = page["cursor"] and f"&cursor={page['cursor']}"

    assert seen == [ids[4:2:-1], ids[2:0:-1], ids[:1]]
    line = fresh.get("/api/executions?limit=1").body["executions"][0]
    expected = {"execution_id", "status", "playbook", "started_at", "duration_ms"}
    assert line.keys() >= expected | {"error"}


@pytest.mark.spec("SRV-03")
def test_listings_are_filtered_by_status_path_and_time(
    fresh: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = playbook("other", "- {step: start, tool: {kind: noop}}")
    waiting = fresh.start(ASKS)
    old, new = fresh.start(HELLO), fresh.start(other)
    for execution_id in (old, new):
        fresh.finish(execution_id)
    fresh.await_event(waiting, "task.suspended")

    def find(query: str) -> list[str]:
        page = fresh.get(f"/api/executions?{query}").body
        return [line["execution_id"] for line in page["executions"]]

    assert find("status=waiting") == [waiting]
    assert find("path=tests/hello") == [old]
    assert find("path=tests/*") == [new, old, waiting]
    assert find("path=test/*") == []
    started = fresh.get(f"/api/executions/{new}").body["started_at"]
    assert find(f"since={started}") == [new]
    later = datetime.fromisoformat(started) + timedelta(seconds=1)
    assert find(f"since={later.isoformat().replace('+', '%2B')}") == []
    monkeypatch.setattr(queries, "MAX_SCANNED", 1)  # a long log is looked at in parts
    page = fresh.get("/api/executions?path=tests/hello").body
    assert (page["executions"], page["cursor"]) == ([], new)


# One execution


@pytest.mark.spec("SRV-03")
def test_the_document_is_that_of_run(api: Api) -> None:
    document = api.run(ADDS)

    assert list(document) == [
        "execution_id",
        "status",
        "playbook",
        "forked_from",
        "labels",
        "concurrency",
        "error",
        "warnings",
        "workload",
        "ctx",
        "result",
        "steps",
        "ignored_errors",
        "no_arc_fired",
        "not_reached",
        "undefined_names",
        "counts",
        "waits",
        "events",
        "started_at",
        "duration_ms",
    ]
    assert [step["status"] for step in document["steps"]] == ["done"]


@pytest.mark.spec("REP-01")
def test_the_state_at_any_event(api: Api) -> None:
    document = api.run(ADDS)
    place = f"/api/executions/{document['execution_id']}/state"

    early, end = api.get(f"{place}?at=3").body, api.get(place).body

    assert (early["seq"], early["status"], len(early["tokens"])) == (3, "running", 1)
    assert (end["seq"], end["status"]) == (document["events"], "completed")
    late = api.get(f"{place}?at=999")
    assert (late.status, late.body["parameter"]) == (422, "at")
    assert late.body["message"].endswith(f"the log ends at {document['events']}")


@pytest.mark.parametrize(
    "name", ["nobody", "1%20OR%201=1", "01a1e28f-0ab3-7441-b85d-e053e8c89bfa", "..%2f"]
)
@pytest.mark.parametrize("rest", ["", "/events", "/state", "/cancel"])
def test_what_is_not_there_gets_one_answer(api: Api, name: str, rest: str) -> None:
    """Row 64."""
    method = "POST" if rest == "/cancel" else "GET"

    answer = api.call(method, f"/api/executions/{name}{rest}")

    assert answer.status == 404
    kinds = {"execution.unknown": "there is no such execution"}
    kinds["route.unknown"] = "unknown path"  # of ../
    assert kinds[answer.body["kind"]] == answer.body["message"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("limit=1000000000", "limit"),
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=many", "limit"),
        ("offset=-1", "offset"),
        ("sort=drop", "sort"),
        ("status=sleeping", "status"),
        ("since=yesterday", "since"),
        ("since=2026-11-15T00:00:00", "since"),
        ("limit=1&limit=2", "limit"),
        ("cursor=", "cursor"),
        ("cursor=nonsense", "cursor"),
        ("cursor=%27%20OR%201=1--", "cursor"),
        ("path=" + "x" * 300, "path"),
    ],
)
def test_queries_are_bounded(api: Api, query: str, parameter: str) -> None:
    """Row 65."""
    answer = api.get(f"/api/executions?{query}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == parameter
    assert "parameters of this call: status, path, since" in answer.body["hint"]


def test_a_filter_is_a_value_and_never_part_of_a_statement(api: Api) -> None:
    """Row 65."""
    api.run(HELLO)

    for text in ("%25_%27;--", "%27%20OR%201=1--", "tests%25"):
        answer = api.get(f"/api/executions?path={text}")

        assert (answer.status, answer.body["executions"]) == (200, [])


def test_a_caller_that_starts_too_many_gets_429(tmp_path: Path) -> None:
    """Row 67."""
    server = Running(tmp_path / "home", start_rate=0.5)  # that is two at once
    api = Api(server.url, server.token)
    answers = [api.post("/api/executions", {"playbook": HELLO}) for _ in range(3)]
    server.stop()

    assert [answer.status for answer in answers] == [201, 201, 429]
    assert answers[2].body["kind"] == "request.rate"
    assert 1 <= int(answers[2].headers["retry-after"]) <= 2


def test_those_who_start_few_are_not_concerned() -> None:
    pace = TokenBucket(rate=1.0)

    assert [pace.take("ann", 100.0) for _ in range(5)] == [None] * 4 + [1.0]
    assert pace.take("bob", 100.0) is None
    assert pace.take("ann", 101.0) is None


def test_answers_are_not_cached_or_framed_by_browsers(api: Api) -> None:
    for path in ("/healthz", "/api/executions", "/nowhere"):
        headers = api.get(path).headers

        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_a_secret_in_a_workload_is_not_in_the_answer_to_another_body(api: Api) -> None:
    api.post("/api/executions", {"playbook": HELLO}, Idempotency_Key="s")
    body = {"playbook": HELLO, "workload": {"password": "hunter2-hunter2"}}

    answer = api.post("/api/executions", body, Idempotency_Key="s")

    assert answer.status == 409
    assert "hunter2" not in json.dumps(answer.body)


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def first_event(api: Api, execution_id: str) -> dict[str, Any]:
    events = api.get(f"/api/executions/{execution_id}/events?limit=1").body["events"]
    payload: dict[str, Any] = events[0]["payload"]
    return payload


def test_an_execution_belongs_to_the_trace_of_its_request(api: Api) -> None:
    tool = "kind: python, code: \"import os; result = os.environ['TRACEPARENT']\""
    text = playbook("traced", f"- {{step: start, tool: {{{tool}}}}}")

    answer = api.post(
        "/api/executions", {"playbook": text}, traceparent=f"00-{TRACE}-{SPAN}-01"
    )

    assert "warnings" not in answer.body
    document = api.finish(answer.body["execution_id"])
    asked = first_event(api, document["execution_id"])
    assert (asked["trace_id"], asked["trace_parent"]) == (TRACE, SPAN)
    sent, run = document["result"], document["steps"][0]["step_run_id"]
    [task] = re.findall(
        f'{run}:[^."]+[.]1',
        str(api.get(f"/api/executions/{document['execution_id']}/events").body),
    )[:1]
    assert sent == f"00-{TRACE}-{span_id_of(task, 1)}-01"


def test_a_wrong_trace_is_ignored_with_a_warning(api: Api) -> None:
    answer = api.post("/api/executions", {"playbook": ADDS}, traceparent="00-x-y-01")

    [warning] = answer.body["warnings"]
    assert warning.startswith("header traceparent is ignored: expected 00-")
    asked = first_event(api, answer.body["execution_id"])
    assert asked["trace_id"] == answer.body["execution_id"].replace("-", "")
    assert "trace_parent" not in asked


def test_a_repeated_request_may_come_from_another_trace(api: Api) -> None:
    body = {"playbook": ADDS, "idempotency_key": "traced"}

    first = api.post("/api/executions", body, traceparent=f"00-{TRACE}-{SPAN}-01")
    again = api.post("/api/executions", body, traceparent=f"00-{'1' * 32}-{SPAN}-01")

    assert (first.status, again.status) == (201, 201)
    assert again.body["execution_id"] == first.body["execution_id"]
