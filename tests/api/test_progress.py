"""The head of an execution and its track, of a real server."""

from __future__ import annotations

from typing import Any

import pytest
from servers import ASKS, HELLO, Api, Running, playbook

LOOP = playbook(
    "many",
    """
    - step: start
      spec: {policy: {failure: best_effort}}
      loop: {in: "{{ range(9) }}", iterator: n}
      tool: {kind: noop, result: "{{ 1 / (iter.n - 4) }}"}
      next: {arcs: [{step: more}]}
    - {step: more, tool: {kind: noop}}
    - {step: never, tool: {kind: noop}}
    """,
)
FAILS = playbook(
    "fails",
    """
    - step: start
      tool: [{call: {kind: playbook, path: "tests/never"}}]
      next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
    - {step: end, tool: {kind: noop}}
    """,
)


def head_of(api: Api, execution_id: str) -> dict[str, Any]:
    answer = api.get(f"/api/executions/{execution_id}/head")
    assert answer.status == 200, answer.body
    head: dict[str, Any] = answer.body
    return head


def test_a_head_counts_runs_and_iterations(api: Api) -> None:
    document = api.run(LOOP)

    head = head_of(api, document["execution_id"])

    start = head["steps"]["start"]
    assert (start["status"], start["runs"], start["done"]) == ("partial", 1, 1)
    assert start["loops"] == {"total": 9, "done": 8, "failed": 1, "in_flight": 0}
    assert head["steps"]["more"]["status"] == "done"
    assert head["steps"]["more"]["loops"] is None
    assert head["steps"].keys() == {"start", "more"}, "the graph has the others"
    assert (head["last_seq"], head["ended"]) == (document["events"], True)
    assert head["line"]["status"] == "completed"
    assert head["digest"] == document["playbook"]["sha256"]
    assert head["playbook"]["path"] == "tests/many"
    assert (head["failure"], head["defect"], head["parent"]) == (None, None, None)


def test_a_head_names_the_first_failure(api: Api) -> None:
    document = api.run(FAILS)

    failure = head_of(api, document["execution_id"])["failure"]

    assert (failure["step"], failure["task"], failure["kind"]) == (
        *("start", "call", document["error"]["kind"]),
    )
    assert failure["message"] == document["error"]["message"]
    path = (
        f"/api/executions/{document['execution_id']}/events?after={failure['seq'] - 1}"
    )
    assert api.get(path).body["events"][0]["name"] == "step.failed"


def test_a_head_shows_waits_and_what_the_caller_may_do(
    running: Running, api: Api
) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    viewer = running.person("head-viewer", "viewer")

    waiting = head_of(api, execution_id)
    seen = head_of(viewer, execution_id)
    api.post(f"/api/executions/{execution_id}/pause")
    paused = head_of(api, execution_id)

    [wait] = waiting["waits"]
    assert (wait["step"], wait["kind"], wait["name"]) == ("start", "signal", "go")
    assert waiting["waits_total"] == 1
    assert waiting["steps"]["start"]["status"] == "waiting"
    assert waiting["may"] == ["cancel", "pause", "signal", "fork", "logs", "payloads"]
    assert seen["may"] == ["logs", "payloads"]
    assert [each["kind"] for each in paused["waits"]] == ["pause", "signal"]
    assert "resume" in paused["may"]
    assert "pause" not in paused["may"]


def test_a_head_leads_to_forks_and_parents(api: Api) -> None:
    failed = api.run(FAILS)["execution_id"]
    retry = api.post(f"/api/executions/{failed}/retry", {"step": "start"})
    assert retry.status == 201, retry.body
    fork = retry.body["execution_id"]
    api.finish(fork)
    assert api.post("/api/catalog", {"playbook": HELLO}).status in (200, 201)
    caller = playbook(
        "calls", "- {step: start, tool: {kind: playbook, path: tests/hello}}"
    )
    parent = api.run(caller)["execution_id"]
    events = api.get(f"/api/executions/{parent}/events").body["events"]
    [wait] = [each for each in events if each["name"] == "task.suspended"]
    child = wait["payload"]["child"]["execution_id"]

    assert head_of(api, failed)["forks"] == [fork]
    assert head_of(api, fork)["forked_from"]["execution_id"] == failed
    assert head_of(api, parent)["children_total"] == 1
    found = head_of(api, child)["parent"]
    assert found == {"execution_id": parent, "run": wait["step_run_id"]}


def test_an_unchanged_head_is_sent_once(api: Api) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    path = f"/api/executions/{execution_id}/head"
    tag = api.get(path).headers["etag"]

    assert api.get(path, If_None_Match=tag).status == 304
    api.post(f"/api/executions/{execution_id}/pause")
    assert api.get(path, If_None_Match=tag).status == 200


def sums_of(track: dict[str, Any], until: int) -> dict[str, dict[str, int]]:
    """Counters of each step after an event, as a page adds them."""
    sums = {step: dict.fromkeys(track["counters"], 0) for step in track["steps"]}
    for step, row in zip(track["steps"], track["opening"]["steps"], strict=False):
        sums[step] = dict(zip(track["counters"], row, strict=True))
    columns = zip(*(track[name] for name in ("seq", "step", "op", "n")), strict=True)
    for seq, step, op, n in columns:
        if seq <= until and step >= 0:
            for name, delta in zip(
                track["counters"], track["effects"][op], strict=True
            ):
                sums[track["steps"][step]][name] += delta * n
    return sums


def test_the_track_adds_up_to_the_head(api: Api) -> None:
    document = api.run(LOOP)
    path = f"/api/executions/{document['execution_id']}/track"

    answer = api.get(path)

    track, head = answer.body, head_of(api, document["execution_id"])
    sums = sums_of(track, track["to"])
    for step, counts in head["steps"].items():
        for name in ("done", "failed", "tokens", "retries", "ignored"):
            assert sums[step][name] == counts[name]
    assert sums["start"]["loop_done"] == 8
    assert (track["page"], track["from"], track["complete"]) == (0, 1, True)
    assert track["to"] == track["last_seq"] == document["events"]
    assert track["seq"] == sorted(track["seq"])
    assert all(0 <= each <= document["duration_ms"] + 1 for each in track["ms"])
    assert "immutable" in answer.headers["cache-control"]
    assert api.get(path, If_None_Match=answer.headers["etag"]).status == 304


def test_the_page_of_a_running_execution_is_asked_for_again(api: Api) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    path = f"/api/executions/{execution_id}/track"

    before = api.get(path)
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    api.finish(execution_id)
    after = api.get(path, If_None_Match=before.headers["etag"])

    assert not before.body["complete"]
    assert before.headers["cache-control"] == "private, no-cache"
    assert after.status == 200
    assert after.body["complete"]
    rows = len(before.body["seq"])
    assert after.body["seq"][:rows] == before.body["seq"]
    assert "go" in after.body["names"]


@pytest.mark.parametrize("page", ["1", "-1", "x", "200001"])
def test_a_page_that_does_not_exist_is_refused(api: Api, page: str) -> None:
    execution_id = api.run(HELLO)["execution_id"]

    answer = api.get(f"/api/executions/{execution_id}/track?page={page}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == "page"


def test_a_refused_request_has_a_head(api: Api) -> None:
    refused = api.post("/api/executions", {"path": "tests/never"}).body["execution_id"]

    head = head_of(api, refused)

    assert head["failure"]["kind"] == "playbook.not_found"
    assert head["steps"] == {}


def test_a_sensitive_head_has_no_messages(running: Running, api: Api) -> None:
    text = FAILS.replace("path: tests/fails", "path: tests/marked, sensitive: true")
    document = api.run(text)
    viewer = running.person("marked-viewer", "viewer")

    head = head_of(viewer, document["execution_id"])

    assert document["error"]["message"] not in str(head)
    assert head["failure"]["kind"] == document["error"]["kind"]
    assert head["may"] == []


def test_a_sensitive_track_names_no_signals(running: Running, api: Api) -> None:
    text = ASKS.replace("path: tests/asks", "path: tests/quiet, sensitive: true")
    execution_id = api.start(text)
    api.await_event(execution_id, "task.suspended")
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    api.finish(execution_id)
    viewer = running.person("quiet-viewer", "viewer")
    path = f"/api/executions/{execution_id}/track"

    hidden, whole = viewer.get(path), api.get(path)

    assert "go" in whole.body["names"]
    assert "go" not in hidden.body["names"]
    assert hidden.body["op"] == whole.body["op"]
    assert hidden.headers["etag"] != whole.headers["etag"]


def test_parts_of_a_state_are_cut(api: Api) -> None:
    execution_id = api.start(ASKS)
    api.await_event(execution_id, "task.suspended")
    path = f"/api/executions/{execution_id}/state"

    parts = api.get(f"{path}?parts=runs,ctx").body
    whole = api.get(path).body
    wrong = api.get(f"{path}?parts=runs,never")

    assert parts.keys() == {"execution_id", "status", "seq", "ctx", "runs", "totals"}
    assert parts["totals"] == {"runs": 1}
    assert parts["runs"].keys() == whole["runs"].keys()
    assert "totals" not in whole
    assert (wrong.status, wrong.body["parameter"]) == (422, "parts")
