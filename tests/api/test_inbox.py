"""The inbox shows what executions ask, to those who may see it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from servers import Api, Running, playbook

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.service.executions import inbox

ASK = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: ask, args: {amount: 1200, note: "%s"}}]}
- step: ask
  tool:
    kind: wait
    signal: approval
    timeout: 1h
    schema: {type: object, title: "Pay 1200?", properties: {ok: {type: boolean}}}
    roles: [%s]
"""
PAY = playbook("pay", ASK % ("short", "operator"))
AUDIT = playbook("audit", ASK % ("short", "auditor"))
LONG = playbook("long", ASK % ("x" * 5000, "operator"))
SECRET = playbook("secret", ASK % ("canary-55", "operator")).replace(
    "path: tests/secret", "path: tests/secret, sensitive: true"
)
TIMER = playbook("timer", "- {step: start, tool: {kind: wait, for: 1h}}")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("inbox") / "home")
    yield server
    server.stop()


@pytest.fixture
def admin(server: Running) -> Api:
    return Api(server.url, server.token)


def asks(api: Api, text: str) -> str:
    execution_id = api.start(text)
    api.await_event(execution_id, "task.suspended")
    return execution_id


def test_a_question_is_there_until_it_is_answered(admin: Api) -> None:
    first, second = asks(admin, PAY), asks(admin, AUDIT)
    asks(admin, TIMER)

    before = admin.get("/api/inbox").body
    body = {"name": "approval", "data": {"ok": True}}
    admin.post(f"/api/executions/{first}/signal", body)
    admin.finish(first)
    after = admin.get("/api/inbox").body

    assert [each["execution_id"] for each in before["items"]] == [first, second]
    assert (before["total_mine"], before["total_others"]) == (2, 0)
    assert (before["cursor"], before["complete"]) == (None, True)
    asked = before["items"][0]
    assert (asked["step"], asked["signal"], asked["path"]) == (
        *("ask", "approval", "tests/pay"),
    )
    assert (asked["question"], asked["roles"]) == ("Pay 1200?", ["operator"])
    assert asked["args"] == {"amount": 1200, "note": "short"}
    assert asked["schema"]["properties"] == {"ok": {"type": "boolean"}}
    assert asked["asked_at"] < asked["until"]
    assert [each["execution_id"] for each in after["items"]] == [second]


def test_it_says_who_may_answer(server: Running, admin: Api) -> None:
    pay, audit = asks(admin, PAY), asks(admin, AUDIT)
    operator, viewer = server.person("op", "operator"), server.person("vi", "viewer")
    guest = server.person("guest", "operator:other/*")

    def seen(api: Api, query: str = "") -> dict[str, bool]:
        items = api.get(f"/api/inbox{query}").body["items"]
        return {each["execution_id"]: each["may"] for each in items}

    assert seen(operator) == {pay: True, audit: False}
    assert seen(operator, "?mine=true") == {pay: True}
    assert seen(operator, "?mine=false") == {audit: False}
    assert seen(viewer) == {pay: False, audit: False}
    assert seen(guest) == {}
    page = viewer.get("/api/inbox").body
    assert (page["total_mine"], page["total_others"]) == (0, 2)


def test_questions_come_in_pages(admin: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "PAGE", 2)
    ids = [asks(admin, PAY) for _ in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        page = admin.get(f"/api/inbox{cursor}").body
        seen.append([each["execution_id"] for each in page["items"]])
        cursor = page["cursor"] and f"?cursor={page['cursor']}"

    assert seen == [ids[:2], ids[2:4], ids[4:]]


def test_a_call_reads_some_executions_and_the_next_one_continues(
    admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MAX_FOLDED", 2)
    ids = [asks(admin, PAY) for _ in range(3)]

    first, second = (admin.get("/api/inbox").body for _ in range(2))

    assert (len(first["items"]), first["complete"]) == (2, False)
    assert [each["execution_id"] for each in second["items"]] == ids
    assert second["complete"] is True


def test_questions_of_others_delay_none_of_mine(
    server: Running, admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a caller does not see is not read, and is no reason to call again."""
    monkeypatch.setattr(inbox, "MAX_FOLDED", 1)
    mine = asks(admin, PAY)
    for _ in range(3):
        asks(admin, PAY.replace("path: tests/pay", "path: others/pay"))
    guest = server.person("guest", "operator:tests/*")

    page = guest.get("/api/inbox").body

    assert [each["execution_id"] for each in page["items"]] == [mine]
    assert (page["total_mine"], page["complete"]) == (1, True)


def test_one_call_looks_at_questions_of_a_bounded_size(
    admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        asks(admin, PAY)
    one = len(json.dumps(admin.get("/api/inbox").body["items"][0]))
    monkeypatch.setattr(inbox, "MAX_BYTES", 3 * (one + inbox.PER_EXECUTION))

    page = admin.get("/api/inbox").body

    assert page["complete"] is False
    assert 1 <= len(page["items"]) <= 3


async def test_remembered_questions_have_a_bounded_size(
    server: Running, admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [asks(admin, PAY) for _ in range(3)]
    monkeypatch.setattr(inbox, "MAX_KNOWN_BYTES", 1)
    store = SqliteStore.open(server.home.server_log, readonly=True)
    known = inbox.Questions(store)

    found = [await known.of(each) for each in ids]

    assert all(len(each) == 1 for each in found)
    assert len(known._known) == 1
    await store.close()


def test_long_args_are_cut(admin: Api) -> None:
    asks(admin, LONG)

    [asked] = admin.get("/api/inbox").body["items"]

    assert asked["args"]["$cut"] > 5000
    assert len(asked["args"]["head"]) == 512


def test_data_of_a_sensitive_playbook_are_hidden(server: Running, admin: Api) -> None:
    asks(admin, SECRET)
    viewer = server.person("vi", "viewer")

    whole, hidden = (api.get("/api/inbox").body for api in (admin, viewer))

    assert "canary-55" in str(whole)
    assert "canary-55" not in str(hidden)
    [asked] = hidden["items"]
    assert (asked["step"], asked["signal"], asked["schema"]) == ("ask", None, None)


@pytest.mark.parametrize("query", ["mine=perhaps", "cursor=", "cursor=%00", "x=1"])
def test_a_wrong_query_is_refused(admin: Api, query: str) -> None:
    answer = admin.get(f"/api/inbox?{query}")

    assert (answer.status, answer.body["kind"]) == (422, "query.invalid")
    assert admin.get("/api/inbox?cursor=what~ever").body["items"] == []


def test_pools_are_listed_with_what_waits_in_them(admin: Api) -> None:
    asks(admin, PAY)

    pools = {each["pool"]: each for each in admin.get("/api/pools").body["pools"]}

    assert pools["default"]["delayed"] == 1
    assert set(pools["default"]) == {
        *("pool", "ready", "delayed", "leased", "workers", "slots"),
    }
