"""Who gets in: hosts, origins, tokens, sessions, sign-in, and workers' own pools."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import pytest
from servers import ASKS, HELLO, Answer, Api, Running

from noetl.errors import ConfigError
from noetl.runtime.worker_protocol.messages import PROTOCOL

PASSWORD = "correct horse battery"
BAD = "wrong horse battery"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("access") / "home", slots=0)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def admin(server: Running) -> Api:
    return Api(server.url, server.token)


@pytest.fixture(scope="module")
def ann(admin: Api) -> str:
    body = {"name": "ann", "roles": ["operator"], "password": PASSWORD}
    made = admin.post("/api/users", body)
    assert made.status == 201
    assert PASSWORD not in str(made.body)
    assert "argon2" not in str(made.body)
    return "ann"


def sign_in(server: Running, name: str, password: str = PASSWORD) -> Answer:
    body = {"name": name, "password": password}
    return Api(server.url, None).post("/api/sessions", body)


def cookie_of(answer: Answer) -> str:
    assert answer.status == 201, answer.body
    return answer.headers["set-cookie"].split(";")[0]


class Browser(Api):
    """Sends a cookie, and says that its page is ours."""

    def __init__(self, url: str, cookie: str) -> None:
        super().__init__(url, None)
        self._said = {"Cookie": cookie, "Sec_Fetch_Site": "same-origin"}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return super().call(method, path, body, **{**self._said, **headers})


# -- whose request it is ------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.com", "0.0.0.0:8082", "localhost.evil.com", ""])
def test_a_name_that_is_not_ours_is_refused(admin: Api, host: str) -> None:
    """Row 56: somebody made it resolve to this machine."""
    for answer in (
        admin.get("/api/executions", Host=host),
        admin.post("/api/sessions", {"name": "a", "password": "b"}, Host=host),
    ):
        assert (answer.status, answer.body["kind"]) == (421, "host.not_allowed")


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "null"},
        {"Origin": "https://evil.com"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_the_page_of_another_site_is_refused(admin: Api, said: dict[str, str]) -> None:
    """Row 56, and row 57 for a stream."""
    execution_id = admin.start(ASKS)
    stream = f"/api/executions/{execution_id}/events"
    for answer in (
        admin.get("/api/executions", **said),
        admin.post(f"/api/executions/{execution_id}/cancel", **said),
        admin.post("/api/sessions", {"name": "a", "password": "b"}, **said),
        admin.get(stream, Accept="text/event-stream", **said),
    ):
        assert (answer.status, answer.body["kind"]) == (403, "host.not_allowed")
    assert admin.get(f"/api/executions/{execution_id}").body["status"] != "cancelled"


def test_a_stream_needs_a_credential(server: Running, admin: Api) -> None:
    """Row 57."""
    path = f"/api/executions/{admin.start(ASKS)}/events"

    answer = Api(server.url, None).get(path, Accept="text/event-stream")

    assert (answer.status, answer.body["kind"]) == (401, "auth.required")


def test_two_credentials_are_none(server: Running) -> None:
    connection = http.client.HTTPConnection(
        *server.url.removeprefix("http://").split(":")
    )
    connection.putrequest("GET", "/api/executions")
    for _ in range(2):
        connection.putheader("Authorization", f"Bearer {server.token}")
    connection.endheaders()

    assert connection.getresponse().status == 401
    connection.close()


# -- tokens -------------------------------------------------------------------------


def test_a_token_ends_when_it_is_revoked_or_its_account_is_gone(
    server: Running, admin: Api
) -> None:
    """Row 53."""
    admin.post("/api/users", {"name": "robot", "roles": ["viewer"]})
    made = [
        admin.post("/api/tokens", {"user": "robot", "label": label}).body
        for label in ("one", "two")
    ]
    first, second = (Api(server.url, each["token"]) for each in made)
    assert first.get("/api/executions").status == 200
    listed = admin.get("/api/tokens?user=robot").body["tokens"]
    assert [each["label"] for each in listed] == ["one", "two"]
    assert listed[0]["last_used_at"] is not None
    assert not any(each["token"] in str(listed) for each in made)

    assert admin.call("DELETE", f"/api/tokens/{made[0]['token_id']}").status == 200
    assert first.get("/api/executions").status == 401
    assert second.get("/api/executions").status == 200
    assert admin.call("DELETE", "/api/users/robot").status == 200
    assert second.get("/api/executions").status == 401
    again = admin.call("DELETE", f"/api/tokens/{made[0]['token_id']}")
    assert (again.status, again.body["kind"]) == (404, "account.unknown")


def test_a_token_can_no_more_than_its_scopes(server: Running, admin: Api) -> None:
    admin.post("/api/users", {"name": "narrow", "roles": ["admin"]})
    body = {"user": "narrow", "label": "reads", "scopes": ["viewer:tests/hello"]}
    narrow = Api(server.url, admin.post("/api/tokens", body).body["token"])

    assert narrow.get("/api/executions").status == 200
    assert narrow.post("/api/executions", {"path": "tests/hello"}).status == 403
    assert narrow.get("/api/users").status == 403
    who = narrow.get("/api/sessions/current").body
    assert (who["name"], who["roles"], who["scopes"], who["means"]) == (
        *("narrow", ["admin"], ["viewer:tests/hello"], "token"),
    )


def test_the_token_of_the_home_stays_over_a_restart(server: Running) -> None:
    home = server.home.folder.with_name("other")
    first = Running(home)
    first.stop()
    second = Running(home)
    try:
        assert second.token == first.token
        assert Api(second.url, first.token).get("/api/users").status == 200
        assert Api(second.url, server.token).get("/api/users").status == 401
    finally:
        second.stop()
    second.home.token.unlink()
    third = Running(home)
    try:
        assert Api(third.url, third.token).get("/api/users").status == 200
        assert Api(third.url, first.token).get("/api/users").status == 401
    finally:
        third.stop()


# -- one-time codes -----------------------------------------------------------------


def invited(api: Api) -> str:
    made = api.post("/api/sessions/invitations")
    assert made.status == 201, made.body
    code: str = made.body["code"]
    assert made.body["url_path"] == f"/sign-in#code={code}"
    return code


def test_a_code_signs_in_once(server: Running, admin: Api) -> None:
    code, stranger = invited(admin), Api(server.url, None)

    first = stranger.post("/api/sessions", {"code": code})
    second = stranger.post("/api/sessions", {"code": code})

    who = Browser(server.url, cookie_of(first)).get("/api/sessions/current").body
    assert (who["name"], who["means"]) == ("local", "session")
    assert "SameSite=Strict" in first.headers["set-cookie"]
    assert (second.status, second.body["kind"]) == (401, "auth.failed")
    assert "request a new one" in second.body["message"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "ann"},
        {"code": "00", "name": "ann"},
        {"code": "00", "name": "ann", "password": "x"},
    ],
)
def test_a_sign_in_has_one_proof(server: Running, body: dict[str, str]) -> None:
    answer = Api(server.url, None).post("/api/sessions", body)

    assert (answer.status, answer.body["kind"]) == (422, "request.invalid")


def test_only_a_token_without_scopes_invites(
    server: Running, admin: Api, ann: str
) -> None:
    """A session would have more rights than the token, or last longer than the one
    before."""
    body = {"user": ann, "label": "few", "scopes": ["viewer"]}
    scoped = Api(server.url, admin.post("/api/tokens", body).body["token"])
    browser = Browser(server.url, cookie_of(sign_in(server, ann)))

    for each in (scoped, browser):
        answer = each.post("/api/sessions/invitations")
        assert (answer.status, answer.body["kind"]) == (403, "auth.role")


def test_a_caller_sees_the_own_permissions_with_their_places(
    server: Running, admin: Api
) -> None:
    roles = ["viewer:sales/*", "operator:sales/eu", "viewer:hr/pay"]
    admin.post("/api/users", {"name": "places", "roles": roles})
    scopes = ["operator:sales/*"]
    body = {"user": "places", "label": "x", "scopes": scopes}
    token = admin.post("/api/tokens", body).body["token"]

    who = Api(server.url, token).get("/api/sessions/current").body

    places = {each["permission"]: each["places"] for each in who["permissions"]}
    assert places["executions:read"] == ["sales/*", "sales/eu"]
    assert places["executions:run"] == ["sales/eu"]
    assert places["workers:read"] == ["*"]
    assert "playbooks:write" not in places
    assert who["version"]
    assert who["server_time"].endswith("Z")


# -- accounts -----------------------------------------------------------------------


def test_what_is_wrong_with_an_account_is_said(admin: Api, ann: str) -> None:
    def refused(body: dict[str, Any]) -> tuple[int, str]:
        answer = admin.post("/api/users", body)
        assert PASSWORD not in str(answer.body)
        return answer.status, answer.body["kind"]

    assert refused({"name": ann, "roles": []}) == (409, "account.exists")
    assert refused({"name": "a b", "roles": []}) == (422, "account.name")
    assert refused({"name": "x", "roles": ["king"]}) == (422, "account.role")
    short = {"name": "x", "roles": [], "password": "short"}
    assert refused(short) == (422, "account.password")
    assert refused({"name": "x", "roles": [], "pass": PASSWORD}) == (
        *(422, "request.unknown_field"),
    )
    assert admin.get("/api/users/x").status == 404


# -- sessions -----------------------------------------------------------------------


def test_a_session_is_a_cookie_that_pages_cannot_read(
    server: Running, ann: str
) -> None:
    answer = sign_in(server, ann)

    assert answer.status == 201
    assert answer.body["user"] == ann
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[0].startswith("noetl_session=nts_")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(parts)
    assert parts[0].split("=")[1] not in str(answer.body)

    browser = Browser(server.url, parts[0])
    assert browser.get("/api/executions").status == 200
    assert browser.get("/api/sessions/current").body["means"] == "session"
    out = browser.call("DELETE", "/api/sessions/current")
    assert out.status == 200
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert browser.get("/api/executions").status == 401


def test_a_change_by_cookie_says_where_it_comes_from(
    server: Running, admin: Api, ann: str
) -> None:
    """Row 56; and row 57, for a stream."""
    cookie = cookie_of(sign_in(server, ann))
    browser, plain = Browser(server.url, cookie), Api(server.url, None)
    execution_id = admin.start(ASKS)
    path = f"/api/executions/{execution_id}"

    for answer in (
        plain.post(f"{path}/cancel", Cookie=cookie),
        plain.call("DELETE", "/api/sessions/current", Cookie=cookie),
        plain.get(f"{path}/events", Cookie=cookie, Accept="text/event-stream"),
    ):
        assert (answer.status, answer.body["kind"]) == (403, "host.not_allowed")
    assert plain.get(path, Cookie=cookie).status == 200
    assert browser.post(f"{path}/cancel").status == 200


def test_a_cookie_is_not_enough_for_work_and_tokens(
    server: Running, admin: Api
) -> None:
    roles = ["admin", "worker:default"]
    admin.post("/api/users", {"name": "root", "roles": roles, "password": PASSWORD})
    browser = Browser(server.url, cookie_of(sign_in(server, "root")))

    claim = {"worker": "w", "pool": "default", "slots": 1}
    assert browser.get("/api/users").status == 200
    assert browser.post("/api/worker/claim", claim).status == 403
    assert browser.post("/api/tokens", {"user": "root", "label": "x"}).status == 403


def test_sessions_end_with_the_rights_they_had(
    server: Running, admin: Api, ann: str
) -> None:
    admin.post("/api/users", {"name": "bob", "roles": ["viewer"], "password": PASSWORD})
    other = Browser(server.url, cookie_of(sign_in(server, ann)))

    def signed_in() -> Browser:
        browser = Browser(server.url, cookie_of(sign_in(server, "bob")))
        assert browser.get("/api/executions").status == 200
        return browser

    browser = signed_in()
    line = browser.get("/api/sessions").body["sessions"]
    assert [each["user"] for each in line] == ["bob"]
    path = f"/api/sessions/{line[0]['session_id']}"
    assert other.call("DELETE", path).status == 404
    assert other.get("/api/sessions?user=bob").status == 403
    assert admin.call("DELETE", path).status == 200
    assert browser.get("/api/executions").status == 401

    for change in (
        lambda: admin.post("/api/users/bob/roles", {"roles": ["operator"]}),
        lambda: admin.post("/api/users/bob/password", {"password": PASSWORD + "!"}),
        lambda: admin.post("/api/users/bob/password", {"password": PASSWORD}),
        lambda: admin.call("DELETE", "/api/users/bob/sessions"),
        lambda: admin.call("DELETE", "/api/users/bob"),
    ):
        password = PASSWORD
        if sign_in(server, "bob").status == 401:
            password += "!"
        browser = Browser(server.url, cookie_of(sign_in(server, "bob", password)))
        assert change().status == 200
        assert browser.get("/api/executions").status == 401
    assert other.get("/api/executions").status == 200


def test_guessing_is_slow_and_says_nothing(server: Running, admin: Api) -> None:
    """Row 68."""
    admin.post("/api/users", {"name": "eve", "roles": [], "password": PASSWORD})

    known = [sign_in(server, "eve", BAD) for _ in range(10)]
    unknown = [sign_in(server, "nobody-at-all", BAD) for _ in range(10)]

    assert {answer.status for answer in known + unknown} == {401}
    assert known[0].body == unknown[0].body
    assert known[0].body["kind"] == "auth.failed"
    assert "set-cookie" not in known[0].headers
    for name in ("eve", "nobody-at-all"):
        answer = sign_in(server, name)
        assert (answer.status, answer.body["kind"]) == (429, "auth.too_many")
        assert int(answer.headers["retry-after"]) > 0


# -- workers ------------------------------------------------------------------------


def claim(api: Api, pool: str = "default", worker: str = "w-1") -> Answer:
    body = {"worker": worker, "pool": pool, "slots": 1, "protocol": PROTOCOL}
    return api.post("/api/worker/claim", body)


def report(api: Api, lease: dict[str, Any], name: str, worker: str = "w-1") -> Answer:
    facts = [{"name": name}]
    reports = [{"lease": lease, "number": 1, "facts": facts}]
    body = {"worker": worker, "pool": "default", "reports": reports}
    return api.post("/api/events", body)


def refusal(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return str(answer.body["replies"][0]["error"][0])


def test_a_worker_has_its_own_pool_and_leases_alone(
    server: Running, admin: Api
) -> None:
    """Rows 70 and 71."""
    mine = server.person("default-worker", "worker:default")
    same = server.person("default-worker-2", "worker:default")
    gpu = server.person("gpu-worker", "worker:gpu")
    execution_id = admin.start(HELLO)
    assert claim(gpu).body["kind"] == "auth.role"
    lease = claim(mine).body["work"][0]["lease"]
    assert claim(admin, "gpu").status == 200, "the home's token is for all pools"
    beat = {"worker": "w-1", "pool": "default", "slots": 1, "leases": [lease]}

    said = {"worker": "w-1", "lease": lease}
    for thief in (same, gpu, admin):
        for path, body in (
            ("/api/worker/source", said),
            ("/api/worker/value", {**said, "reference": {}}),
            ("/api/worker/secret", {**said, "task": "x"}),
            ("/api/worker/token", {**said, "task": "x", "auth": ""}),
        ):
            answer = thief.post(path, body)
            assert (answer.status, answer.body["kind"]) == (403, "lease.not_owner")
        lines = {"lease": lease, "task": "task_1", "visit": 1, "attempt": 1, "part": 1}
        said_by_thief = {**lines, "texts": [[0, "stdout", None, "forged"]]}
        entries = {"worker": "w-1", "pool": "default", "entries": [said_by_thief]}
        answer = thief.post("/api/worker/logs", entries)
        if thief is gpu:
            assert (answer.status, answer.body["kind"]) == (403, "auth.role")
        else:
            assert answer.body["refused"] == [lease["command_id"]]
    for thief in (same, admin):
        assert thief.post("/api/worker/heartbeat", beat).body["lost"] == [
            lease["command_id"]
        ]
        assert refusal(report(thief, lease, "step.started")) == "lease.not_owner"
    assert report(gpu, lease, "step.started").body["kind"] == "auth.role"
    assert refusal(report(mine, lease, "step.started", "w-2")) == "lease.not_owner"
    for name in ("workflow.finished", "token.enqueued", "next.evaluated"):
        answer = report(mine, lease, name)
        assert (answer.status, answer.body["kind"]) == (403, "event.not_allowed")
    assert mine.post("/api/worker/source", said).status == 200
    assert report(mine, lease, "step.started").body["replies"][0]["error"] is None
    assert mine.get(f"/api/executions/{execution_id}").status == 403


# -- where it listens ---------------------------------------------------------------


def test_beyond_this_machine_only_with_accounts_and_a_proxy(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Row 100."""
    home = tmp_path_factory.mktemp("open") / "home"
    for options in ({}, {"behind_proxy": True}):
        with pytest.raises(ConfigError, match=r"auth.required_for_bind: .*noetl user"):
            Running(home, host="0.0.0.0", **options)
    first = Running(home)
    made = {"name": "ann", "roles": ["viewer"], "password": PASSWORD}
    assert Api(first.url, first.token).post("/api/users", made).status == 201
    first.stop()
    with pytest.raises(ConfigError, match=r"auth.required_for_bind: .*--behind-proxy"):
        Running(home, host="0.0.0.0")

    names = frozenset({"noetl.example.com"})
    server = Running(home, host="0.0.0.0", behind_proxy=True, hosts=names)
    try:
        assert server.url.startswith("http://127.0.0.1:")
        api = Api(server.url, server.token)
        assert api.get("/api/executions").status == 200
        said = {"Host": "noetl.example.com", "Origin": "https://noetl.example.com"}
        body = {"name": "ann", "password": PASSWORD}
        answer = api.post("/api/sessions", body, **said, X_Forwarded_For="6, 10.0.0.9")
        assert answer.status == 201
        assert answer.body["client_ip"] == "10.0.0.9"
        assert answer.headers["set-cookie"].startswith("__Host-noetl_session=")
        assert answer.headers["set-cookie"].endswith("; Secure")
        assert api.get("/api/executions", Host="0.0.0.0").status == 421
    finally:
        server.stop()
