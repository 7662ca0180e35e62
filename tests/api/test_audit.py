"""Who changed what: every change is put down, and nothing secret with it (I-44)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import ASKS, HELLO, Api, Running

from noetl.api.app import endpoints

PASSWORD = "correct horse battery"
WORKERS_AND_JUDGES = {
    *("claim_work", "heartbeat", "report_events", "show_source", "show_value"),
    *("append_logs", "fetch_secret", "fetch_token", "permit_call"),
    *("validate_playbook", "run_tests", "show_linked_question"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("audit") / "home")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def admin(server: Running) -> Api:
    return Api(server.url, server.token)


def entries(admin: Api, query: str = "") -> list[dict[str, Any]]:
    answer = admin.get(f"/api/audit{query}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.body["entries"]
    return found


def last(admin: Api, action: str) -> dict[str, Any]:
    return entries(admin, f"?action={action}&limit=1")[0]


def test_every_change_says_where_it_is_put_down() -> None:
    recorded = {each.name: each.recorded for each in endpoints()}

    for each in endpoints():
        if each.method == "GET" and each.name != "finish_sign_in":
            assert each.recorded == "never"
    never = {e.name for e in endpoints() if e.method != "GET" and e.recorded == "never"}
    assert never == WORKERS_AND_JUDGES
    in_logs = {name for name, where in recorded.items() if where == "log"}
    assert in_logs == {"start_execution", "signal_execution", "receive_delivery"}


def test_changes_of_accounts_and_tokens_are_put_down(admin: Api) -> None:
    body = {"name": "ann", "roles": ["operator"], "password": PASSWORD}
    admin.post("/api/users", body)
    admin.post("/api/users/ann/roles", {"roles": ["viewer"]})
    token = admin.post("/api/tokens", {"user": "ann", "label": "ci"}).body
    admin.call("DELETE", f"/api/tokens/{token['token_id']}")

    made = last(admin, "add_user")
    assert (made["principal"], made["means"], made["status"]) == ("local", "token", 201)
    assert made["address"] == "127.0.0.1"
    assert made["target"] == {"name": "ann", "roles": ["operator"]}
    assert made["credential"]
    assert last(admin, "set_roles")["target"] == {"name": "ann", "roles": ["viewer"]}
    given = last(admin, "add_token")["target"]
    assert given == {
        **{"user": "ann", "label": "ci", "scopes": None},
        "token_id": token["token_id"],
    }
    assert last(admin, "revoke_token")["target"] == {"token_id": token["token_id"]}
    everything = str(entries(admin))
    for secret in (PASSWORD, token["token"], admin.token or ""):
        assert secret not in everything


def test_what_was_refused_is_there_with_the_reason(server: Running, admin: Api) -> None:
    viewer = server.person("eve", "viewer")
    execution_id = admin.start(ASKS)

    viewer.post("/api/users", {"name": "x", "roles": ["admin"]})
    viewer.post(f"/api/executions/{execution_id}/cancel")
    viewer.post("/api/executions", {"path": "tests/asks"})
    admin.post("/api/users", {"name": "eve", "roles": ["king"]})

    found = [
        (each["action"], each["status"], each["problem"])
        for each in entries(admin, "?user=eve")
    ]
    assert found == [
        ("start_execution", 403, "auth.role"),
        ("cancel_execution", 403, "auth.role"),
        ("add_user", 403, "auth.role"),
    ]
    wrong = last(admin, "add_user")
    assert (wrong["principal"], wrong["problem"]) == ("local", "account.role")


def test_sign_in_and_out_are_put_down_and_no_password_in_the_wrong_place(
    server: Running, admin: Api
) -> None:
    body = {"name": "bob", "roles": ["viewer"], "password": PASSWORD}
    admin.post("/api/users", {**body, "display_name": "local"})
    anybody = Api(server.url, None)

    anybody.post("/api/sessions", {"name": "bob", "password": "wrong horse battery"})
    anybody.post("/api/sessions", {"name": PASSWORD, "password": "bob"})
    done = anybody.post("/api/sessions", {"name": "bob", "password": PASSWORD})
    cookie = done.headers["set-cookie"].split(";")[0]
    said = {"Cookie": cookie, "Sec_Fetch_Site": "same-origin"}
    assert anybody.get("/api/sessions/current", **said).body["name"] == "bob"
    anybody.call("DELETE", "/api/sessions/current", **said)
    anybody.call("DELETE", "/api/sessions/current", **said)

    found = [
        (each["action"], each["principal"], each["status"])
        for each in entries(admin)
        if each["action"].startswith("sign_")
    ]
    assert found == [
        ("sign_out", "bob", 200),
        ("sign_in", "bob", 201),
        ("sign_in", None, 401),
        ("sign_in", "bob", 401),
    ]
    assert last(admin, "sign_in")["target"] == {"session_id": done.body["session_id"]}
    assert PASSWORD not in str(entries(admin))


def test_a_token_pasted_as_an_id_is_not_recorded(admin: Api) -> None:
    assert admin.call("DELETE", f"/api/tokens/{admin.token}").status == 404

    assert last(admin, "revoke_token")["target"] == {"token_id": "***"}


def test_orders_to_executions_are_in_their_logs_with_who_gave_them(
    admin: Api,
) -> None:
    caller = {"principal": "local", "address": "127.0.0.1"}
    execution_id = admin.start(ASKS)
    path = f"/api/executions/{execution_id}"
    admin.await_event(execution_id, "task.suspended")
    for verb in ("pause", "resume"):
        assert admin.post(f"{path}/{verb}").status == 200
    admin.post(f"{path}/pause")
    assert admin.post(f"{path}/signal", {"name": "go"}).status == 200
    admin.post(f"{path}/cancel")

    events = {e["name"]: e for e in admin.get(f"{path}/events").body["events"]}

    for name in (
        *("workflow.paused", "workflow.resumed"),
        *("message.received", "workflow.cancelled"),
    ):
        assert events[name]["payload"]["caller"] == caller, name
    asked = events["playbook.execution.requested"]["payload"]["caller"]
    assert asked.items() >= caller.items()
    failure = admin.get(path).body["error"]
    assert "caller" not in failure
    orders = [each["action"] for each in entries(admin, "?limit=4")]
    steered = ["cancel_execution", "pause_execution", "resume_execution"]
    assert orders == [*steered, "pause_execution"]
    assert entries(admin, "?limit=1")[0]["target"] == {"execution_id": execution_id}


def test_registered_playbooks_are_put_down(admin: Api) -> None:
    made = admin.post("/api/catalog", {"playbook": HELLO}).body

    assert last(admin, "register_playbook")["target"] == {
        "path": "tests/hello",
        "version": made["version"],
        "sha256": made["sha256"],
    }


def test_unauthenticated_requests_do_not_fill_the_audit(
    server: Running, admin: Api
) -> None:
    before = entries(admin, "?limit=1")[0]["audit_id"]

    Api(server.url, "ntl_" + "0" * 64).post("/api/users", {"name": "x", "roles": []})
    Api(server.url, None).call("DELETE", "/api/users/ann")

    assert entries(admin, "?limit=1")[0]["audit_id"] == before


def test_it_is_for_auditors_and_admins_and_read_in_pages(
    server: Running, admin: Api
) -> None:
    auditor = server.person("audrey", "auditor")
    some = server.person("some", "auditor:tests/*")
    viewer = server.person("vic", "viewer")

    assert auditor.get("/api/audit").status == 200
    for other in (some, viewer):
        assert other.get("/api/audit").body["kind"] == "auth.role"
    seen, cursor = [], ""
    while True:
        page = auditor.get(f"/api/audit?limit=3{cursor}").body
        seen += [each["audit_id"] for each in page["entries"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    assert seen == sorted(set(seen), reverse=True)
    assert len(seen) == len(entries(admin, "?limit=1000"))
    since = entries(admin, "?limit=1000")[2]["at"].replace("+", "%2B")
    assert 2 <= len(entries(admin, f"?since={since}")) < len(seen)
    for query in ("?since=yesterday", "?limit=0", "?name=x"):
        assert auditor.get(f"/api/audit{query}").status == 422


def test_what_cannot_be_put_down_is_not_done(tmp_path: Path) -> None:
    """The table is away: no account is made."""
    server = Running(tmp_path / "home")
    try:
        admin = Api(server.url, server.token)
        db = sqlite3.connect(server.home.accounts)
        db.execute("ALTER TABLE audit RENAME TO away")
        db.commit()
        answer = admin.post("/api/users", {"name": "ann", "roles": []})
        db.execute("ALTER TABLE away RENAME TO audit")
        db.commit()
        db.close()
        assert (answer.status, answer.body["kind"]) == (503, "store.unavailable")
        assert admin.get("/api/users/ann").status == 404
    finally:
        server.stop()


def test_servers_on_one_database_share_it(tmp_path: Path, postgres: str) -> None:
    one = Running(tmp_path / "one", database=postgres, slots=0)
    two = Running(tmp_path / "two", database=postgres, slots=0)
    try:
        Api(one.url, one.token).post("/api/users", {"name": "ann", "roles": []})
        found = last(Api(two.url, two.token), "add_user")
        assert (found["status"], found["target"]["name"]) == (201, "ann")
    finally:
        one.stop()
        two.stop()
