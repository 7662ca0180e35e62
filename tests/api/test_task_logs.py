"""Task logs over HTTP: pages, filters, streams that continue, and who may read them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from servers import Api, Running, playbook

TALKS = playbook(
    "talks",
    """
- step: talk
  loop: {in: "{{ [0, 1, 2] }}", iterator: n}
  tool:
    - say:
        kind: python
        args: {n: "{{ iter.n }}"}
        code: |
          import logging
          def main(n):
              print("number", n)
              logging.warning("warned %d", n)
    - write: {kind: shell, command: "echo out {{ iter.n }}; echo err >&2"}
""",
)
SENSITIVE = playbook(
    "hush", "- {step: start, tool: {kind: shell, command: echo hidden}}"
).replace("path: tests/hush", "path: tests/hush, sensitive: true")
WAITS = playbook(
    "waits",
    """
- step: start
  tool: {kind: shell, command: echo before}
  next: {arcs: [{step: ask}]}
- step: ask
  tool: {kind: wait, signal: go}
  next: {arcs: [{step: end}]}
- step: end
  tool: {kind: shell, command: echo after}
""",
)


def texts(lines: list[dict[str, Any]]) -> list[str]:
    return [line["text"] for line in lines]


def stream(api: Api, path: str, after: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the ids and documents of a stream."""
    parts = urlsplit(api.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {api.token}"}
    if after is not None:
        headers["Last-Event-ID"] = after
    connection.request("GET", path, headers=headers)
    with closing(connection), connection.getresponse() as answer:
        if answer.status == 204:
            return
        assert answer.status == 200, answer.read()
        name = ""
        for line in answer:
            if line.startswith(b"id: "):
                name = line[4:].decode().strip()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])


@pytest.fixture(scope="module")
def talked(running: Running) -> str:
    """An execution whose tasks printed 12 lines."""
    document = Api(running.url, running.token).run(TALKS)
    assert document["status"] == "completed"
    return f"/api/executions/{document['execution_id']}/logs"


def test_pages_have_all_lines_once_and_in_order(api: Api, talked: str) -> None:
    whole = api.get(talked).body["lines"]
    found: list[dict[str, Any]] = []
    page = api.get(f"{talked}?limit=5").body
    while page["cursor"] is not None:
        assert len(page["lines"]) <= 5
        found += page["lines"]
        page = api.get(f"{talked}?limit=5&after={page['cursor']}").body
    assert found == whole
    assert len(whole) == 12
    assert texts(whole)[:2] == ["number 0", "warned 0"]
    assert whole[1].items() >= {
        "step": "talk", "task": "say", "iteration": "0", "attempt": 1, "epoch": 1,
        "stream": "log", "level": "warning",
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("iteration=1&task=say", ["number 1", "warned 1"]),
        ("stream=stderr", ["err", "err", "err"]),
        ("level=warning&iteration=2", ["warned 2"]),
        ("level=error", []),
        ("step=other", []),
        ("attempt=2", []),
        ("until=2020-01-01T00:00:00Z", []),
        ("since=2020-01-01T00:00:00Z&task=say&stream=stdout&iteration=0", ["number 0"]),
    ],
)
def test_filters_select_lines(
    api: Api, talked: str, query: str, wanted: list[str]
) -> None:
    assert texts(api.get(f"{talked}?{query}").body["lines"]) == wanted


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("lines=0-0", slice(1)),
        ("lines=3-6", slice(3, 7)),
        ("lines=10-99", slice(10, None)),
        ("lines=99-99", slice(0)),
        ("lines=-5", slice(-5, None)),
        ("lines=-99", slice(None)),
    ],
)
def test_a_range_of_the_selected_lines(
    api: Api, talked: str, query: str, part: slice
) -> None:
    for selected in ("", "&stream=stdout", "&task=say"):
        whole = api.get(f"{talked}?{selected}").body["lines"]
        page = api.get(f"{talked}?{query}{selected}").body
        assert page["lines"] == whole[part]
        if page["lines"]:  # the cursor continues after the range
            rest = api.get(f"{talked}?after={page['cursor']}{selected}").body["lines"]
            assert rest == whole[whole.index(page["lines"][-1]) + 1 :]


@pytest.mark.parametrize(
    "query",
    ["lines=5", "lines=7-6", "lines=-0", "lines=-1001", "lines=0-1000", "after=x",
     "after=../1", "limit=0", "limit=1001", "iteration=a", "stream=x", "level=loud",
     "since=yesterday", "other=1"],
)  # fmt: skip
def test_a_wrong_query_is_a_problem(api: Api, talked: str, query: str) -> None:
    answer = api.get(f"{talked}?{query}")
    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")


def test_a_stream_has_the_lines_of_the_pages_and_continues(
    api: Api, talked: str
) -> None:
    whole = api.get(talked).body["lines"]
    found = list(stream(api, talked))
    assert [line for _, line in found] == whole
    for place, (name, _) in enumerate(found, 1):
        rest = [line for _, line in stream(api, talked, name)]
        assert rest == whole[place:]


def test_a_stream_has_lines_as_they_are_stored_until_the_end(api: Api) -> None:
    execution_id = api.start(WAITS)
    lines = stream(api, f"/api/executions/{execution_id}/logs")
    assert next(lines)[1]["text"] == "before"
    api.await_event(execution_id, "task.suspended")
    api.post(f"/api/executions/{execution_id}/signal", {"name": "go"})
    assert [line["text"] for _, line in lines] == ["after"]


def test_an_unknown_execution_and_a_wrong_event_id_are_problems(
    api: Api, talked: str
) -> None:
    unknown = api.get("/api/executions/01a1ef3c-ca80-7121-86ec-0626cb5ec0df/logs")
    assert (unknown.status, unknown.body["kind"]) == (404, "execution.unknown")
    wrong = api.get(talked, Accept="text/event-stream", **{"Last-Event-ID": "x"})
    assert (wrong.status, wrong.body["kind"]) == (422, "query.invalid")


def test_the_size_of_a_log_is_in_the_event_of_its_task(api: Api) -> None:
    silent = playbook("silent", "- {step: start, tool: {kind: shell, command: 'true'}}")
    sizes = []
    for text in (silent, TALKS):
        execution_id = api.run(text)["execution_id"]
        events = api.get(f"/api/executions/{execution_id}/events").body["events"]
        done = [e for e in events if e["name"] == "task.done"]
        sizes.append([e["payload"]["outcome"]["meta"].get("logs") for e in done])
    assert sizes[0] == [None]
    assert sizes[1][1] == {"lines": 2, "bytes": 10}


def test_logs_of_sensitive_executions_need_the_right_to_payloads(
    running: Running, api: Api
) -> None:
    place = f"/api/executions/{api.run(SENSITIVE)['execution_id']}/logs"
    viewer = running.person("logs-viewer", "viewer")
    assert texts(api.get(place).body["lines"]) == ["hidden"]
    answer = viewer.get(place)
    assert (answer.status, answer.body["kind"]) == (403, "auth.role")
    nobody = Api(running.url, None).get(place)
    assert nobody.status == 401
