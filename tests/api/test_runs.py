"""Step runs of an execution, and one of them with its calls and reasons."""

from __future__ import annotations

from typing import Any

import pytest
from servers import ASKS, HELLO, Api, Running, playbook

SEVERAL = playbook(
    "several",
    """
    - step: start
      tool:
        - first: {kind: noop, result: {big: "{{ 'x' * 5000 }}", n: 7}}
        - call:
            kind: playbook
            path: tests/never
            spec:
              policy:
                rules:
                  - when: "{{ outcome.status == 'error' and _attempt < 2 }}"
                    then: {do: retry, attempts: 3, delay: 0}
                  - else: {then: {do: continue, set_ctx: {seen: true}}}
      next:
        spec: {mode: inclusive}
        arcs:
          - {step: each, when: "{{ ctx.seen }}", args: {n: 3}}
          - {step: never, when: "{{ ctx.seen == false }}"}
    - step: each
      spec: {policy: {failure: best_effort}}
      loop: {in: "{{ range(args.n) }}", iterator: i}
      tool: {kind: noop, result: "{{ 1 / iter.i }}"}
      next: {arcs: [{step: gated}]}
    - step: gated
      spec:
        policy:
          admit: {rules: [{when: "{{ ctx.seen }}", then: {allow: false}}]}
      tool: {kind: noop}
    - {step: never, tool: {kind: noop}}
    """,
)


@pytest.fixture(scope="module")
def several(running: Running) -> str:
    execution_id: str = Api(running.url, running.token).run(SEVERAL)["execution_id"]
    return execution_id


def runs_of(api: Api, execution_id: str, query: str = "") -> list[dict[str, Any]]:
    answer = api.get(f"/api/executions/{execution_id}/runs{query}")
    assert answer.status == 200, answer.body
    runs: list[dict[str, Any]] = answer.body["runs"]
    return runs


def test_runs_are_listed_in_the_order_of_their_begin(api: Api, several: str) -> None:
    runs = runs_of(api, several)

    assert [(each["step"], each["status"], each["number"]) for each in runs] == [
        *(("start", "done", 1), ("each", "partial", 2), ("gated", "skipped", -1)),
    ]
    start, each, _ = runs
    assert start["run"] == f"{several}-1"
    assert (start["attempts"], start["ignored"], start["loop"]) == (2, 0, None)
    assert each["loop"] == {"total": 3, "done": 2, "failed": 1}
    assert 0 <= start["queue_ms"] <= start["ms"]
    assert start["from_seq"] < start["to_seq"] < each["from_seq"]
    assert "x" * 600 not in str(runs), "no values"


def test_runs_are_filtered_by_step_and_status(api: Api, several: str) -> None:
    assert [e["step"] for e in runs_of(api, several, "?step=each")] == ["each"]
    assert [e["step"] for e in runs_of(api, several, "?status=skipped,failed")] == [
        "gated"
    ]
    assert runs_of(api, several, "?status=running") == []


def test_pages_of_runs_add_up(api: Api, several: str) -> None:
    found, cursor = [], ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        page = api.get(f"/api/executions/{several}/runs?limit=1{more}").body
        found += page["runs"]
        cursor = page["cursor"]

    assert found == runs_of(api, several)


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("status=never", "status"),
        ("cursor=1", "cursor"),
        ("cursor=-1-0", "cursor"),
        ("limit=201", "limit"),
    ],
)
def test_a_query_of_runs_is_checked(
    api: Api, several: str, query: str, parameter: str
) -> None:
    answer = api.get(f"/api/executions/{several}/runs?{query}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == parameter


def test_a_cursor_after_the_end_gives_nothing(api: Api, several: str) -> None:
    for cursor in ("0-99", "7-0", "999999999-999999999"):
        page = api.get(f"/api/executions/{several}/runs?cursor={cursor}").body
        assert page == {"runs": [], "cursor": None}


def test_a_run_shows_its_calls_with_their_rules(api: Api, several: str) -> None:
    lines = SEVERAL.splitlines()

    run = api.get(f"/api/executions/{several}/runs/1").body

    first, tried, gone_on = run["calls"]
    assert [call["task"] for call in run["calls"]] == ["first", "call", "call"]
    assert first["result"]["$cut"] > 5_000
    assert len(first["result"]["head"]) == 512
    assert (tried["attempt"], tried["status"]) == (1, "error")
    assert tried["directive"].startswith("retry in")
    assert "_attempt < 2" in tried["guard"]
    assert "outcome.status" in lines[tried["line"] - 1]
    assert (gone_on["attempt"], gone_on["directive"]) == (2, "continue")
    assert gone_on["set_ctx"] == {"seen": True}
    assert gone_on["error"]["kind"] == "playbook.not_found"
    assert run["calls_total"] == 3
    assert [each["task"] for each in run["tasks"]] == ["first", "call"]
    assert run["args"] == {}


def test_a_run_shows_why_its_arcs_fired(api: Api, several: str) -> None:
    routing = api.get(f"/api/executions/{several}/runs/{several}-1").body["routing"]

    assert [(each["what"], each["good"]) for each in routing] == [
        *(("each", True), ("never", False)),
    ]
    assert routing[1]["note"] == "its guard is false"
    assert "never" in SEVERAL.splitlines()[routing[1]["line"] - 1]


def test_a_run_of_a_loop_has_no_calls_of_iterations(api: Api, several: str) -> None:
    run = api.get(f"/api/executions/{several}/runs/2").body

    assert run["calls"] == []
    assert run["args"] == {"n": 3}
    assert sum(run["loop_errors"].values()) == 1


def test_a_run_that_waits_is_shown_as_it_is_now(api: Api) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")

    [line] = runs_of(api, execution_id)
    run = api.get(f"/api/executions/{execution_id}/runs/1").body

    assert (line["status"], line["to_seq"], line["ms"]) == ("waiting", None, None)
    [call] = run["calls"]
    assert (call["status"], call["waits"]["signal"]) == ("waiting", "go")


@pytest.mark.parametrize("run", ["0", "9", "x", "-1", "1x", "99999999999", "%2e%2e"])
def test_an_unknown_run_is_named(api: Api, several: str, run: str) -> None:
    answer = api.get(f"/api/executions/{several}/runs/{run}")

    assert (answer.status, answer.body["kind"]) == (404, "run.unknown")


def test_a_refused_request_has_no_runs(api: Api) -> None:
    refused = api.post("/api/executions", {"path": "tests/never"}).body["execution_id"]

    assert runs_of(api, refused) == []
    assert api.get(f"/api/executions/{refused}/runs/1").status == 404


def test_sensitive_runs_have_no_messages(running: Running, api: Api) -> None:
    text = playbook("secret-runs", "- {step: start, tool: {kind: playbook, path: x/y}}")
    marked = text.replace("path: tests/secret-runs", "path: tests/sr, sensitive: true")
    execution_id = api.run(marked)["execution_id"]
    viewer = running.person("runs-viewer", "viewer")

    [line] = runs_of(viewer, execution_id)
    whole = runs_of(api, execution_id)[0]["error"]

    assert line["error"]["kind"] == whole["kind"]
    assert whole["message"] not in str(line)
    assert viewer.get(f"/api/executions/{execution_id}/runs/1").status == 403


def test_runs_of_other_paths_are_not_shown(running: Running, api: Api) -> None:
    guest = running.person("runs-guest", "viewer:tests/other")
    execution_id = api.run(HELLO)["execution_id"]

    for rest in ("runs", "runs/1"):
        answer = guest.get(f"/api/executions/{execution_id}/{rest}")
        assert (answer.status, answer.body["kind"]) == (404, "execution.unknown")
