"""The log over HTTP: pages, and streams that go on where they broke off."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from servers import ASKS, HELLO, Api, Running

from noetl.runtime.subscriptions import Subscriptions


@pytest.mark.spec("EVT-02", "S-44")
def test_events_come_in_pages(api: Api) -> None:
    document = api.run(HELLO)
    place = f"/api/executions/{document['execution_id']}/events"

    whole = api.get(place).body
    first = api.get(f"{place}?limit=4").body
    rest = api.get(f"{place}?after={first['cursor']}").body

    assert [event["seq"] for event in whole["events"]] == list(
        range(1, document["events"] + 1)
    )
    assert whole["cursor"] is None
    assert first["events"] + rest["events"] == whole["events"]
    assert whole["events"][0].keys() >= {
        "event_id", "execution_id", "seq", "timestamp", "source", "name", "payload",
        "entity_type", "entity_id", "parent_id", "status", "trace_id", "span_id",
    }  # fmt: skip


def test_a_stream_has_the_same_events_as_the_pages(api: Api) -> None:
    document = api.run(HELLO)
    place = f"/api/executions/{document['execution_id']}/events"

    assert list(api.stream(document["execution_id"])) == api.get(place).body["events"]


def test_a_stream_tells_what_is_committed_as_it_is(api: Api) -> None:
    execution_id = api.start(ASKS)
    stream = api.stream(execution_id)
    for event in stream:
        if event["name"] == "task.suspended":
            break

    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})

    names = [event["name"] for event in stream]
    assert names[0] == "message.received"
    assert names[-1] == "playbook.processed"


def test_a_stream_goes_on_after_the_event_that_was_seen_last(api: Api) -> None:
    execution_id = api.run(HELLO)["execution_id"]
    every = [event["seq"] for event in api.stream(execution_id)]

    for seen in every:
        rest = [event["seq"] for event in api.stream(execution_id, after=seen)]

        assert rest == every[seen:]
    answer = api.get(
        f"/api/executions/{execution_id}/events",
        Accept="text/event-stream",
        Last_Event_ID=str(every[-1]),
    )
    assert answer.status == 204, "a browser does not come back"


@pytest.mark.parametrize("seen", ["-1", "abc", "1e3", "9" * 30, "²"])
def test_a_position_that_is_none_is_refused(api: Api, seen: str) -> None:
    execution_id = api.run(HELLO)["execution_id"]

    answer = api.get(
        f"/api/executions/{execution_id}/events",
        Accept="text/event-stream",
        Last_Event_ID=seen.encode().decode("latin-1"),
    )

    assert (answer.status, answer.body["parameter"]) == (422, "Last-Event-ID")


def test_many_watch_one_execution(api: Api) -> None:
    execution_id = api.start(ASKS)
    seen: list[list[int]] = []
    watching = threading.Barrier(21)

    def watch() -> None:
        found = []
        for event in api.stream(execution_id):
            found.append(event["seq"])
            if event["name"] == "task.suspended":
                watching.wait()
        seen.append(found)

    threads = [threading.Thread(target=watch) for _ in range(20)]
    for thread in threads:
        thread.start()
    watching.wait()
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    for thread in threads:
        thread.join()

    events = api.get(f"/api/executions/{execution_id}").body["events"]
    assert seen == [list(range(1, events + 1))] * 20


def test_a_silent_stream_says_that_it_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subscriptions.__init__, "__kwdefaults__", {"patience": 0.01})
    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    execution_id = api.start(ASKS)
    lines = api.lines(execution_id)

    assert next(line for line in lines if line.startswith(b":")) == b": still here\n"
    lines.close()
    server.stop()


def test_the_end_of_the_server_is_the_end_of_its_streams(tmp_path: Path) -> None:
    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    execution_id = api.start(ASKS)
    stream = api.stream(execution_id)
    assert next(stream)["seq"] == 1

    server.stop()

    assert [event["name"] for event in stream][-1] != "playbook.processed"
    again = Running(tmp_path / "home")
    api = Api(again.url, again.token)
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    assert api.finish(execution_id)["status"] == "completed", "and it goes on"
    again.stop()


def test_a_head_request_for_a_stream_ends_at_once(api: Api) -> None:
    execution_id = api.start(ASKS)
    path = f"/api/executions/{execution_id}/events"

    answer = api.call("HEAD", path, Accept="text/event-stream")

    assert (answer.status, answer.body) == (200, b"")


LEGACY = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: views, path: tests/views}
executor: {spec: {extensions: [legacy]}}
vars: {first: 1}
workflow:
  - step: work
    tool: {kind: noop, result: {id: 3}}
    vars: {id: "{{ result.id }}"}
    case:
      - when: "{{ event.name == 'call.done' }}"
        then: [{tell: {tool: {kind: noop}}}, {next: {to: [{step: end}]}}]
  - step: end
    tool: {kind: noop, result: "{{ vars.id }}"}
"""


@pytest.mark.spec("LEG-EVT-09", "C-05", "C-16")
def test_the_log_in_other_dialects_and_by_ids(api: Api) -> None:
    document = api.run(LEGACY)
    place = f"/api/executions/{document['execution_id']}/events"
    assert document["result"] == 3

    technical = api.get(f"{place}?dialect=003").body["events"]
    formal = api.get(f"{place}?dialect=000").body["events"]
    [tool] = [
        each
        for each in technical
        if each["event_type"] == "tool.processed" and each["payload"]["task"] == "tell"
    ]
    assert formal[0]["name"] == "PlaybookExecutionRequested"
    for name in ("step_run_id", "tool_run_id", "action_id", "entity_id"):
        found = api.get(f"{place}?dialect=003&{name}={tool[name]}").body["events"]
        assert tool in found
        assert len(found) < len(technical)
        assert {each[name] for each in found} == {tool[name]}
    plain = api.get(f"{place}?tool_run_id={tool['tool_run_id']}").body["events"]
    assert [each["name"] for each in plain] == ["task.started", "task.done"]


@pytest.mark.spec("LEG-EVT-09")
def test_a_view_comes_in_pages(api: Api) -> None:
    place = f"/api/executions/{api.run(LEGACY)['execution_id']}/events?dialect=003"
    whole = api.get(place).body["events"]
    found, cursor = [], 0
    while cursor is not None:
        page = api.get(f"{place}&limit=3&after={cursor}").body
        found += page["events"]
        cursor = page["cursor"]
    assert found == whole


@pytest.mark.spec("LEG-STEP-10")
def test_the_transient_variables(api: Api) -> None:
    execution_id = api.run(LEGACY)["execution_id"]

    answer = api.get(f"/api/executions/{execution_id}/vars").body

    assert answer == {"execution_id": execution_id, "vars": {"first": 1, "id": 3}}
    assert api.get("/api/executions/none/vars").status == 404


@pytest.mark.parametrize("query", ["dialect=002", "attempt=x", "colour=red"])
def test_a_question_that_is_none(api: Api, query: str) -> None:
    place = f"/api/executions/{api.run(HELLO)['execution_id']}/events"

    answer = api.get(f"{place}?{query}")

    assert answer.status in (400, 422)
    assert query.partition("=")[0] in str(answer.body)


def test_a_stream_is_the_log_itself(api: Api) -> None:
    place = f"/api/executions/{api.run(HELLO)['execution_id']}/events?dialect=003"

    answer = api.get(place, Accept="text/event-stream")

    assert answer.status in (400, 422)
    assert "request pages" in answer.body["detail"]


def test_events_are_searched_and_read_backwards(api: Api) -> None:
    document = api.run(HELLO)
    place = f"/api/executions/{document['execution_id']}/events"
    every = api.get(place).body["events"]

    last = api.get(f"{place}?before=999&limit=3").body
    more = api.get(f"{place}?before={last['cursor']}").body
    found = api.get(f"{place}?find=STEP.done").body
    failed = api.get(f"{place}?status=error").body

    assert [*last["events"], *more["events"]] == every[::-1]
    assert more["cursor"] is None
    assert {"step.done"} <= {each["name"] for each in found["events"]}
    assert all("step.done" in str(each) for each in found["events"])
    assert failed["events"] == []


@pytest.mark.parametrize("query", ["before=0", "find=", f"find={'x' * 201}"])
def test_a_search_is_checked(api: Api, query: str) -> None:
    execution_id = api.run(HELLO)["execution_id"]

    answer = api.get(f"/api/executions/{execution_id}/events?{query}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize("query", ["before=5", "find=x"])
def test_views_and_streams_have_no_search(api: Api, query: str) -> None:
    execution_id = api.run(HELLO)["execution_id"]
    place = f"/api/executions/{execution_id}/events?{query}"

    view = api.get(f"{place}&dialect=003")
    stream = api.get(place, Accept="text/event-stream")

    assert (view.status, view.body["parameter"]) == (422, query.partition("=")[0])
    assert (stream.status, stream.body["kind"]) == (422, "query.invalid")
