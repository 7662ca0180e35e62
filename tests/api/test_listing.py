"""Listings and counts of executions: filters, pages, and what they do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest
from servers import ASKS, HELLO, Api, Running, playbook

from noetl.service.executions import queries

CALLS = playbook("calls", "- {step: start, tool: {kind: playbook, path: tests/hello}}")
BREAKS = playbook(
    "breaks", """- {step: start, tool: {kind: http, url: "http://127.0.0.1:9/Gone"}}"""
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("listing") / "home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def admin(server: Running) -> Api:
    return Api(server.url, server.token)


@pytest.fixture(scope="module")
def ids(server: Running, admin: Api) -> dict[str, str]:
    """One execution of each kind, by the order of their starts."""
    assert admin.post("/api/catalog", {"playbook": HELLO}).status == 201
    eve = server.person("eve", "developer")
    made = {
        "hello": admin.start(HELLO, labels={"team": "Blue"}),
        "calls": admin.start(CALLS),
        "breaks": eve.start(BREAKS),
    }
    for execution_id in made.values():
        admin.finish(execution_id)
    made["asks"] = admin.start(ASKS)
    admin.await_event(made["asks"], "task.suspended")
    found = admin.get(f"/api/executions?parent={made['calls']}").body["executions"]
    [made["child"]] = [line["execution_id"] for line in found]
    return made


def find(api: Api, ids: dict[str, str], query: str) -> set[str]:
    answer = api.get(f"/api/executions?{query}")
    assert answer.status == 200, answer.body
    found = {line["execution_id"] for line in answer.body["executions"]}
    return {name for name, execution_id in ids.items() if execution_id in found}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("status=waiting,failed", {"asks", "breaks"}),
        ("text=HELLO", {"hello", "child"}),
        ("text=team%3Dblue", {"hello"}),
        ("text=127.0.0.1", {"breaks"}),
        ("caller=eve", {"breaks"}),
        ("caller=unknown", set()),
        ("roots=true", {"hello", "calls", "breaks", "asks"}),
        ("roots=true&status=completed&text=tests/", {"hello", "calls"}),
    ],
)
def test_executions_are_filtered(
    admin: Api, ids: dict[str, str], query: str, expected: set[str]
) -> None:
    assert find(admin, ids, query) == expected


def test_a_span_of_time_ends_before_until(admin: Api, ids: dict[str, str]) -> None:
    started = admin.get(f"/api/executions/{ids['asks']}").body["started_at"]
    later = datetime.fromisoformat(started) + timedelta(seconds=1)

    assert "asks" not in find(admin, ids, f"until={quote(started)}")
    assert "asks" in find(admin, ids, f"until={quote(later.isoformat())}")


@pytest.mark.parametrize("query", ["status=sleeping", "status=failed,", "order=by"])
def test_a_wrong_filter_is_named(admin: Api, query: str) -> None:
    for path in ("/api/executions", "/api/executions/counts"):
        answer = admin.get(f"{path}?{query}")
        assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
        assert answer.body["parameter"] == query.partition("=")[0]


def test_executions_are_counted_by_status_and_hour(
    admin: Api, ids: dict[str, str]
) -> None:
    counts = admin.get("/api/executions/counts").body
    some = admin.get("/api/executions/counts?path=tests/hello").body

    assert counts["by_status"] == {"completed": 3, "failed": 1, "waiting": 1}
    assert some["by_status"] == {"completed": 2}
    assert (counts["scanned"], counts["complete"]) == (5, True)
    for each in counts["hours"]:
        assert datetime.fromisoformat(each["at"]).minute == 0
    assert sum(sum(each["counts"].values()) for each in counts["hours"]) == 5


def test_a_count_says_that_it_ends_early(
    admin: Api, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_SCANNED", 2)

    counts = admin.get("/api/executions/counts").body

    assert (counts["scanned"], counts["complete"]) == (2, False)
    assert sum(counts["by_status"].values()) == 2


def test_callers_are_read_for_some_executions_at_a_time(
    admin: Api, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_CALLERS", 1)
    pages, cursor = [], ""
    while cursor is not None:
        page = admin.get(f"/api/executions?caller=eve{cursor}").body
        pages.append([line["execution_id"] for line in page["executions"]])
        cursor = page["cursor"] and f"&cursor={page['cursor']}"

    assert [name for page in pages for name in page] == [ids["breaks"]]
    assert [] in pages, "an empty page has a cursor"


def test_counts_leave_out_what_the_caller_may_not_see(
    server: Running, admin: Api, ids: dict[str, str]
) -> None:
    guest = server.person("guest", "viewer:tests/hello")

    assert guest.get("/api/executions/counts").body["by_status"] == {"completed": 2}
    assert find(guest, ids, "text=http") == set()
