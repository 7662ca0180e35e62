"""The live stream tells what changed, once, in order, and to those who may see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from live_stream import Message, stream, until
from servers import ASKS, HELLO, Api, Running, playbook

from noetl.api import live
from noetl.service import live as feeds


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with accounts: those of other tests have none."""
    server = Running(tmp_path_factory.mktemp("live") / "home")
    yield server
    server.stop()


def test_lines_of_executions_come_as_they_change(fresh: Api) -> None:
    fresh.run(HELLO)
    with stream(fresh) as found:
        execution_id = fresh.start(ASKS)
        until(found, execution_id, "waiting")
        fresh.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
        last = until(found, execution_id, "completed")

    [line] = [
        each for each in last.data["lines"] if each["execution_id"] == execution_id
    ]
    assert line == fresh.get("/api/executions").body["executions"][0]


def test_a_question_is_announced(fresh: Api) -> None:
    with stream(fresh, "inbox") as found:
        execution_id = fresh.start(ASKS)
        message = next(found)

    assert (message.event, message.data) == ("inbox", {"changed": True})
    [asked] = fresh.get("/api/inbox").body["items"]
    assert asked["execution_id"] == execution_id


def test_a_stream_continues_where_it_ended(fresh: Api) -> None:
    with stream(fresh) as found:
        first = fresh.run(HELLO)["execution_id"]
        last = until(found, first, "completed")
    second = fresh.run(HELLO)["execution_id"]

    with stream(fresh, last=last.id) as found:
        message = next(found)

    assert message.event == "executions"
    found_ids = [each["execution_id"] for each in message.data["lines"]]
    assert found_ids[-1] == second  # the line before may come once more
    assert set(found_ids) <= {first, second}


@pytest.mark.parametrize("last", ["00000000.1", "nonsense", "1", ""])
def test_a_stream_that_cannot_continue_says_so(fresh: Api, last: str) -> None:
    with stream(fresh, "executions,inbox", last=last) as found:
        first, second = next(found), next(found)

    assert [each.event for each in (first, second)] == ["reset", "reset"]
    assert [each.data["topic"] for each in (first, second)] == ["executions", "inbox"]


def test_a_reader_that_is_too_far_behind_is_reset(
    fresh: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "MAX_CHANGED", 1)
    with stream(fresh) as found:
        last = until(found, fresh.run(HELLO)["execution_id"], "completed")
    for _ in range(3):
        fresh.run(HELLO)

    with stream(fresh, last=last.id) as found:
        assert next(found).event == "reset"


def test_a_reader_gets_lines_of_its_own_paths_only(guarded: Running) -> None:
    admin = Api(guarded.url, guarded.token)
    guest = guarded.person("live-guest", "viewer:tests/other")
    other = playbook("other", "- {step: start, tool: {kind: noop}}")
    with stream(guest) as found:
        admin.run(HELLO)
        shown = admin.run(other)["execution_id"]
        message = next(found)

    assert {each["execution_id"] for each in message.data["lines"]} == {shown}


def test_data_of_a_sensitive_execution_are_hidden(guarded: Running) -> None:
    admin = Api(guarded.url, guarded.token)
    viewer = guarded.person("live-viewer", "viewer:tests/veiled")
    veiled = playbook(
        "veiled", "- {step: start, tool: {kind: http, url: 'http://canary-77:1/'}}"
    ).replace("path: tests/veiled", "path: tests/veiled, sensitive: true")
    with stream(viewer) as found:
        execution_id = admin.run(veiled)["execution_id"]
        message = until(found, execution_id, "failed")

    assert "canary-77" in str(admin.get("/api/executions").body)
    assert "canary-77" not in str(message)


def test_a_stream_ends_with_the_right_to_it(
    guarded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "RENEW_S", 0.0)
    admin = Api(guarded.url, guarded.token)
    guest = guarded.person("live-gone", "viewer")
    with stream(guest) as found:
        assert admin.call("DELETE", "/api/users/live-gone").status == 200
        admin.run(HELLO)

        assert list(found) == []


# -- tracks -------------------------------------------------------------------------

LOOPS = playbook(
    "loops",
    """
    - step: start
      loop: {in: "{{ range(60) | list }}", iterator: n}
      tool: {kind: noop, result: "{{ n }}"}
      next: {arcs: [{step: ask}]}
    - {step: ask, tool: {kind: wait, signal: go}}
    """,
)


class Followed:
    """What a page knows of an execution: counters by step, and the last event."""

    def __init__(self, api: Api, execution_id: str) -> None:
        track = api.get(f"/api/executions/{execution_id}/track").body
        self.counters, self.ops = track["counters"], track["ops"]
        self.effects, self.seq = track["effects"], 0
        self.steps: dict[str, list[int]] = {}
        self.status = ""

    def take(self, news: dict[str, Any]) -> None:
        assert news["seq"] == sorted(news["seq"])
        assert all(self.seq < seq <= news["last_seq"] for seq in news["seq"])
        for step, op, n in zip(news["step"], news["op"], news["n"], strict=True):
            if step >= 0:
                name = news["steps"][step]
                counters = self.steps.setdefault(name, [0] * len(self.counters))
                for index, delta in enumerate(self.effects[op]):
                    counters[index] += delta * n
        self.seq = news["last_seq"]
        self.status = news.get("line", {}).get("status", self.status)

    def of(self, step: str, counter: str) -> int:
        return self.steps[step][self.counters.index(counter)]


def follow(found: Iterator[Message], page: Followed, status: str) -> str:
    """Take messages until the execution has the status; the id of the last one."""
    for message in found:
        assert message.event == "track"
        page.take(message.data)
        if page.status == status:
            return message.id
    raise AssertionError("the stream has ended")


def test_a_track_adds_up_to_the_counters_of_the_page(fresh: Api) -> None:
    execution_id = fresh.start(LOOPS)
    page = Followed(fresh, execution_id)
    with stream(fresh, f"track:{execution_id}@0") as found:
        last = follow(found, page, "waiting")
    fresh.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    fresh.finish(execution_id)
    with stream(fresh, f"track:{execution_id}@0", last=last) as found:
        follow(found, page, "completed")

    assert page.of("start", "loop_done") == 60
    assert (page.of("ask", "done"), page.of("ask", "waiting")) == (1, 0)
    assert page.seq == fresh.get(f"/api/executions/{execution_id}").body["events"]


def test_a_track_continues_after_a_restart_of_the_server(tmp_path: Any) -> None:
    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    execution_id = api.start(LOOPS)
    page = Followed(api, execution_id)
    with stream(api, f"executions,track:{execution_id}@0") as found:
        messages = (each for each in found if each.event == "track")
        last = follow(messages, page, "waiting")
    server.stop()
    server = Running(tmp_path / "home")
    api = Api(server.url, server.token)
    try:
        with stream(api, f"executions,track:{execution_id}@0", last=last) as found:
            assert next(found).data == {"topic": "executions"}
            api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
            follow((e for e in found if e.event == "track"), page, "completed")
    finally:
        server.stop()

    assert page.of("start", "loop_done") == 60
    assert (page.of("ask", "done"), page.of("ask", "waiting")) == (1, 0)


def test_a_track_that_is_too_far_behind_is_reset(
    fresh: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_BEHIND", 3)
    name = fresh.run(HELLO)["execution_id"]

    with stream(fresh, f"track:{name}@2") as found:
        message = next(found)

    assert (message.event, message.data) == ("reset", {"topic": f"track:{name}"})


def test_a_track_is_that_of_an_execution_that_the_reader_sees(
    guarded: Running,
) -> None:
    admin = Api(guarded.url, guarded.token)
    guest = guarded.person("track-guest", "viewer:tests/other")
    hidden = admin.run(HELLO)["execution_id"]

    answer = guest.get(f"/api/live?topics=track:{hidden}@0", Accept="text/event-stream")

    assert (answer.status, answer.body["kind"]) == (404, "execution.unknown")


def test_commits_of_another_server_are_streamed(postgres: str, tmp_path: Any) -> None:
    one, other = (
        Running(tmp_path / name, database=postgres, slots=slots)
        for name, slots in (("one", 8), ("other", 0))
    )
    there, here = (Api(each.url, each.token) for each in (one, other))
    listed: set[str] = set()
    try:
        execution_id = there.start(LOOPS)
        page = Followed(here, execution_id)
        with stream(here, f"executions,track:{execution_id}@0") as found:
            for message in found:
                for line in message.data.get("lines", ()):
                    listed.add(line["status"])
                if message.event == "track":
                    page.take(message.data)
                if page.status == "waiting" and "waiting" in listed:
                    body = {"name": "go"}
                    there.post(f"/api/executions/{execution_id}/signal", body)
                if page.status == "completed" and "completed" in listed:
                    break
    finally:
        one.stop()
        other.stop()

    assert page.of("start", "loop_done") == 60
    assert (page.of("ask", "done"), page.of("ask", "waiting")) == (1, 0)


@pytest.mark.parametrize(
    "query", ["", "?topics=", "?topics=all", "?topics=inbox,x", "?topics=track:1@2"]
)
def test_topics_are_known_names(api: Api, query: str) -> None:
    answer = api.get(f"/api/live{query}", Accept="text/event-stream")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert answer.body["parameter"] == "topics"


def test_it_is_read_as_a_stream_only(api: Api) -> None:
    assert api.get("/api/live?topics=inbox").status == 422
    head = api.call("HEAD", "/api/live?topics=inbox", Accept="text/event-stream")
    assert head.status == 422


def test_it_ends_when_the_server_stops(tmp_path: Any) -> None:
    server = Running(tmp_path / "home")
    with stream(Api(server.url, server.token)) as found:
        server.stop()

        assert list(found) == []
