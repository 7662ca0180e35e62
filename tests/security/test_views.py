"""What pages show of hostile data is bounded, whoever looks at it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Semaphore
from time import process_time

import pytest
from latency import Latency
from servers import Answer, Api, Running, playbook

from noetl.service import authoring
from noetl.service.executions.views import graphs


def stored(admin: Api, query: str, format: str) -> str:
    """Run a query and store its rows; return the path of its rows."""
    tool = f"{{kind: duckdb, command: {query}, export: {{format: {format}}}}}"
    document = admin.run(playbook("rows", f"- {{step: start, tool: {tool}}}"))
    assert document["status"] == "completed", document["error"]
    reference = document["steps"][0]["result"]["rows"]
    owner = document["execution_id"]
    return f"/api/results/{reference['key']}/rows?execution_id={owner}"


@pytest.mark.parametrize(
    ("query", "format"),
    [
        pytest.param('"SELECT repeat(chr(10), 500000) AS a"', "csv", id="line ends"),
        pytest.param(
            '"SELECT range(0, 40000) AS a FROM range(100)"', "ndjson", id="large rows"
        ),
    ],
)
def test_rows_of_a_hostile_table_are_shown_in_time(
    running: Running, admin: Api, query: str, format: str
) -> None:
    path = stored(admin, query, format)
    began = process_time()

    with Latency(running.url) as latency:
        answer = admin.get(path)

    assert answer.status == 200
    assert answer.body["rows"][0][0]["$cut"] > 100_000
    assert process_time() - began < 5
    latency.check()


TESTED = playbook("tested", "- {step: start, tool: {kind: noop}}")


def test_a_large_test_file_is_read_while_others_are_served(
    running: Running, admin: Api
) -> None:
    asked = {"playbook": TESTED, "suite": f"cases: [{'{},' * 60_000}]"}

    with Latency(running.url) as latency:
        answer = admin.post("/api/tests", asked)

    assert answer.status == 200
    assert answer.body["diagnostics"][0]["rule"] == "missing-key"
    latency.check()


def test_an_expression_that_is_too_deep_is_a_finding(admin: Api) -> None:
    pattern = "(" * 50_000 + ")" * 50_000
    suite = f"cases: [{{name: a, expect: {{result: {{$regex: '{pattern}'}}}}}}]"

    answer = admin.post("/api/tests", {"playbook": TESTED, "suite": suite})

    assert answer.status == 200
    [found] = answer.body["diagnostics"]
    assert found["message"].startswith("not a regular expression")


def test_one_caller_does_not_take_all_runs_of_tests(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager, other = (running.person(name, "author") for name in ("eager", "other"))
    asked = {"playbook": TESTED, "suite": "cases: [{name: a, expect: {status: x}}]"}
    begun, over = Semaphore(0), Event()

    def wait(*_: object) -> authoring.Tested:
        begun.release()
        over.wait(30)
        return authoring.Tested(0, 0, [], [], {})

    monkeypatch.setattr(authoring.Suites, "_run", wait)
    with ThreadPoolExecutor() as pool:
        try:
            running_now = [
                pool.submit(eager.post, "/api/tests", asked) for _ in range(2)
            ]
            assert all(begun.acquire(timeout=30) for _ in range(2))
            refused = eager.post("/api/tests", asked)
            running_now.append(pool.submit(other.post, "/api/tests", asked))
        finally:
            over.set()

    assert (refused.status, refused.body["kind"]) == (429, "request.rate")
    assert [each.result().status for each in running_now] == [200] * 3
    assert eager.post("/api/tests", asked).status == 200


@pytest.mark.parametrize("drawn", ["a text", "a version"])
def test_one_caller_does_not_keep_others_from_drawings(
    running: Running, admin: Api, monkeypatch: pytest.MonkeyPatch, drawn: str
) -> None:
    """They are made one at a time, so those of one caller that wait are few."""
    admin.post("/api/catalog", {"playbook": TESTED})
    names = [f"{name}-{drawn[2]}" for name in ("draws", "waits")]
    eager, other = (running.person(name, "viewer") for name in names)
    begun, over = Semaphore(0), Event()

    def wait(*_: object) -> object:
        begun.release()
        over.wait(30)
        return authoring.Review() if drawn == "a text" else b"{}"

    def draw(api: Api) -> Answer:
        if drawn == "a text":
            return api.post("/api/validate", {"playbook": TESTED, "graph": True})
        return api.get("/api/catalog/tests/tested/-/graph")

    monkeypatch.setattr(authoring, "_review", wait)
    monkeypatch.setattr(graphs, "_encode", wait)
    with ThreadPoolExecutor() as pool:
        try:
            asked = [pool.submit(draw, eager)]
            assert begun.acquire(timeout=30)
            asked += [pool.submit(draw, eager) for _ in range(3)]
            assert running.server is not None
            quota = running.server._site.quotas.drawings
            while quota.total < 4:
                pass
            refused = draw(eager)
            asked.append(pool.submit(draw, other))
        finally:
            over.set()

    assert (refused.status, refused.body["kind"]) == (429, "request.rate")
    assert [each.result().status for each in asked] == [200] * 5
    assert draw(eager).status == 200
