"""Links that answer without a sign-in: off by default, one answer, one use, an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from servers import HELLO, Answer, Api, Running, playbook

from noetl.api import inbox

ASK = """
- step: start
  tool: {kind: noop}
  next: {arcs: [{step: ask, args: {amount: 1200}}]}
- step: ask
  tool:
    kind: wait
    signal: approval
    schema:
      title: Pay 1200?
      type: object
      required: [ok]
      properties: {ok: {type: boolean}}
    roles: [operator]
"""
PAY = playbook("pay", ASK)
SECRET = playbook("veiled", ASK.replace("1200}", "canary-91}")).replace(
    "path: tests/veiled", "path: tests/veiled, sensitive: true"
)
MANY = playbook(
    "many",
    """
    - step: start
      loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
      tool: {kind: wait, signal: approval}
    """,
)
YES = {"ok": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("links") / "home"
    server = Running(home, answer_links=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def admin(server: Running) -> Api:
    return Api(server.url, server.token)


@pytest.fixture
def stranger(server: Running) -> Api:
    return Api(server.url, None)


def asks(api: Api, text: str = PAY) -> str:
    execution_id = api.start(text)
    api.await_event(execution_id, "task.suspended")
    return execution_id


def make(api: Api, execution_id: str, data: Any = YES, **more: Any) -> Answer:
    body = {"data": data, **more}
    return api.post(f"/api/executions/{execution_id}/answer-links", body)


def link(api: Api, execution_id: str, data: Any = YES, **more: Any) -> dict[str, str]:
    made = make(api, execution_id, data, **more)
    assert made.status == 201, made.body
    assert made.body["url_path"] == f"/answer#t={made.body['token']}"
    return {"token": made.body["token"]}


def questions(api: Api, execution_id: str) -> list[str]:
    """The commands that ask in an execution, as the inbox has them."""
    items = api.get("/api/inbox").body["items"]
    found = [each for each in items if each["execution_id"] == execution_id]
    return [each["command_id"] for each in found]


def kind(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["kind"]


def test_a_link_gives_its_answer_once(admin: Api, stranger: Api) -> None:
    execution_id = asks(admin)
    yes, no = link(admin, execution_id), link(admin, execution_id, {"ok": False})

    seen = stranger.post("/api/answers/look", yes)
    still = admin.get(f"/api/executions/{execution_id}").body["status"]
    given = stranger.post("/api/answers", yes)
    document = admin.finish(execution_id)

    assert seen.status == 200
    assert (seen.body["question"], seen.body["data"]) == ("Pay 1200?", YES)
    assert (seen.body["step"], seen.body["args"]) == ("ask", {"amount": 1200})
    assert still == "waiting"
    assert given.status == 200
    assert document["result"] == YES
    for each in (yes, no):
        assert kind(stranger.post("/api/answers", each)) == (409, "answer.over")
        assert kind(stranger.post("/api/answers/look", each)) == (409, "answer.over")
    [event] = [e for e in admin.stream(execution_id) if e["name"] == "message.received"]
    assert event["payload"]["by"]["name"] == "local"
    assert event["payload"]["caller"]["means"] == "link"


def test_links_are_off_unless_a_setting_allows_them(api: Api, running: Running) -> None:
    execution_id = asks(api)

    made = make(api, execution_id)
    answers = [
        Api(running.url, None).post(path, {"token": "x"})
        for path in ("/api/answers", "/api/answers/look")
    ]

    for answer in (made, *answers):
        assert kind(answer) == (404, "answer.off")


def test_a_link_answers_its_own_question_only(admin: Api, stranger: Api) -> None:
    execution_id = asks(admin, MANY)
    while len(asked := questions(admin, execution_id)) < 3:
        pass
    several = make(admin, execution_id, 1)
    second = link(admin, execution_id, "two", command_id=asked[1])

    given = stranger.post("/api/answers", second)

    assert kind(several) == (409, "signal.unknown")
    assert given.status == 200
    assert questions(admin, execution_id) == [asked[0], asked[2]]
    assert kind(stranger.post("/api/answers", second)) == (409, "answer.over")
    admin.post(f"/api/executions/{execution_id}/cancel")


def test_a_link_expires(
    admin: Api, stranger: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = asks(admin)
    token = link(admin, execution_id, expires_in=60)
    now = inbox.time.time()
    monkeypatch.setattr(inbox.time, "time", lambda: now + 61)

    for path in ("/api/answers", "/api/answers/look"):
        answer = stranger.post(path, token)
        assert kind(answer) == (409, "answer.over")
        assert "expired" in answer.body["message"]
    assert admin.get(f"/api/executions/{execution_id}").body["status"] == "waiting"


def test_a_changed_token_is_refused(admin: Api, stranger: Api) -> None:
    execution_id = asks(admin)
    token = link(admin, execution_id)["token"]
    middle = len(token) // 2
    other = "A" if token[middle] != "A" else "B"
    changed = f"{token[:middle]}{other}{token[middle + 1 :]}"

    for text in (changed, token[:-8], f"{token}AAAA", "x", "é", "=" * 50, "\x00"):
        for path in ("/api/answers", "/api/answers/look"):
            answer = stranger.post(path, {"token": text})
            assert kind(answer) == (422, "answer.invalid"), text
    assert stranger.post("/api/answers", {"token": "A" * 4000}).status in (413, 422)
    assert admin.get(f"/api/executions/{execution_id}").body["status"] == "waiting"


def test_a_link_has_the_rights_that_its_maker_has_now(
    server: Running, admin: Api, stranger: Api
) -> None:
    operator = server.person("maker", "operator:tests/*")
    fired = server.person("fired", "operator:tests/*")
    first, second = asks(admin), asks(admin)
    lowered, gone = link(operator, first), link(fired, second)
    roles = {"roles": ["viewer"]}
    assert admin.post("/api/users/maker/roles", roles).status == 200
    assert admin.call("DELETE", "/api/users/fired").status == 200

    for token in (lowered, gone):
        for path in ("/api/answers", "/api/answers/look"):
            answer = stranger.post(path, token)
            assert kind(answer) == (409, "answer.over"), path
            assert "may not answer any more" in answer.body["message"]
    for execution_id in (first, second):
        path = f"/api/executions/{execution_id}"
        assert admin.get(path).body["status"] == "waiting"


def test_only_who_may_answer_makes_a_link(server: Running, admin: Api) -> None:
    execution_id = asks(admin)
    viewer = server.person("link-viewer", "viewer")
    secretary = server.person("link-author", "author:other/*")
    over = admin.run(HELLO)["execution_id"]

    assert kind(make(viewer, execution_id)) == (403, "auth.role")
    assert kind(make(secretary, execution_id)) == (404, "execution.unknown")
    assert kind(make(admin, execution_id, {"ok": 1})) == (422, "signal.invalid")
    assert kind(make(admin, execution_id, "x" * 2000)) == (422, "signal.invalid")
    assert kind(make(admin, over)) == (409, "signal.unknown")
    assert make(admin, execution_id, expires_in=5).status == 422


def test_a_link_shows_no_data_of_a_sensitive_playbook(
    admin: Api, stranger: Api
) -> None:
    token = link(admin, asks(admin, SECRET))

    seen = stranger.post("/api/answers/look", token)

    assert seen.status == 200
    assert "canary-91" not in str(seen.body)
    assert seen.body["question"] is None


def test_a_page_of_another_site_cannot_use_a_link(admin: Api, stranger: Api) -> None:
    token = link(admin, asks(admin))

    for said in ({"Origin": "https://evil.com"}, {"Sec_Fetch_Site": "cross-site"}):
        answer = stranger.post("/api/answers", token, **said)
        assert kind(answer) == (403, "host.not_allowed")
