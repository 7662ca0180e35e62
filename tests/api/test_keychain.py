"""Secrets that a server keeps: names are told, values never."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import Api, Running, playbook
from stored_log import contents

VALUE = "s3cret-of-the-keychain-4711"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    server = Running(tmp_path_factory.mktemp("keychain") / "home")
    yield server
    server.stop()


def test_a_secret_is_stored_used_and_never_shown(server: Running) -> None:
    """I-40 and I-44."""
    admin = Api(server.url, server.token)
    keeper = server.person("keeper", "secrets")

    made = keeper.post("/api/keychain/api_token", {"value": VALUE})
    again = keeper.post("/api/keychain/api_token", {"value": VALUE})
    fields = {"user": "me", "password": VALUE}
    body = {"value": fields, "kind": "postgres_credential"}
    assert keeper.post("/api/keychain/pg", body).body["fields"] == ["password", "user"]
    assert (made.status, again.status) == (201, 200)

    listed = keeper.get("/api/keychain").body
    assert [each["name"] for each in listed["keychain"]] == ["api_token", "pg"]
    text = playbook(
        "uses",
        """
        - step: start
          tool:
            kind: noop
            result: "{{ 'same' if keychain.api_token == args.given else 'other' }}"
        """,
        "keychain: [{name: api_token, kind: secret_manager}]\n",
    )
    assert admin.run(text, args={"given": "x"})["status"] == "completed"
    assert keeper.call("DELETE", "/api/keychain/pg").status == 200
    gone = keeper.call("DELETE", "/api/keychain/pg")
    assert (gone.status, gone.body["kind"]) == (404, "keychain.unknown")

    audit = admin.get("/api/audit").body
    actions = [each["action"] for each in audit["entries"]]
    assert actions[:2] == ["delete_secret", "delete_secret"]
    assert audit["entries"][4]["target"] == {
        **{"name": "api_token", "kind": "secret_manager"}
    }
    held = list(contents(server.home.folder))
    assert [name for name, text in held if VALUE.encode() in text] == []
    for answer in (made, again, audit, listed):
        assert VALUE not in str(answer)


def test_who_may_not_keep_secrets_sees_and_changes_none(server: Running) -> None:
    for role in ("developer", "viewer", "auditor"):
        other = server.person(f"a-{role}", role)
        assert other.get("/api/keychain").status == 403
        refused = other.post("/api/keychain/x", {"value": VALUE})
        assert (refused.status, VALUE in str(refused.body)) == (403, False)
    some = server.person("some", "secrets:others/*")
    listed = some.get("/api/keychain")
    assert (listed.status, listed.body) == (200, {"keychain": []})


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("x", {}),
        ("x", {"value": ""}),
        ("x", {"value": 7}),
        ("x", {"value": VALUE, "kin": "x"}),
        ("x" * 300, {"value": VALUE}),
        ("a%00b", {"value": VALUE}),
    ],
)
def test_an_invalid_secret_is_refused(
    server: Running, name: str, body: dict[str, object]
) -> None:
    admin = Api(server.url, server.token)

    answer = admin.post(f"/api/keychain/{name}", body)

    assert answer.status == 422
    assert VALUE not in str(answer.body)
