"""Secrets that a server keeps: names are told, values never."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import KEY, Api, Running, playbook
from stored_log import contents

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.adapters.secrets.private_files import write_private
from noetl.errors import ConfigError
from noetl.local.home import Home

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


def test_a_server_without_a_database_has_no_keys_to_rotate(server: Running) -> None:
    admin = Api(server.url, server.token)
    for refused in (admin.get("/api/keys"), admin.post("/api/keys", {})):
        assert (refused.status, refused.body["kind"]) == (409, "keychain.one_key")
    keeper = server.person("keeper-of-keys", "secrets", "developer", "auditor")
    assert keeper.get("/api/keys").status == 403
    assert keeper.post("/api/keys", {}).status == 403


def test_servers_on_one_database_share_the_keychain_and_its_rotation(
    tmp_path: Path, postgres: str, caplog: pytest.LogCaptureFixture
) -> None:
    home = Home(tmp_path / "two")
    home.make()
    write_private(home.key, KEY)
    left = StoredKeychain(home.keychain, Cipher(home.key))
    left.set("of_home", VALUE, "secret_manager", "T")
    one = Running(tmp_path / "one", database=postgres, slots=4)
    two = Running(home.folder, database=postgres, slots=4)
    try:
        here, there = Api(one.url, one.token), Api(two.url, two.token)
        assert "(of_home); run there: noetl keychain move" in caplog.text
        assert here.post("/api/keychain/shared", {"value": VALUE}).status == 201
        made = here.post("/api/keys", {})
        assert made.status == 201
        assert here.post("/api/keychain/late", {"value": VALUE}).status == 201
        deadline = time.monotonic() + 60
        while len(keys := there.get("/api/keys").body["keys"]) > 1:
            assert time.monotonic() < deadline
        assert [each["key_id"] for each in keys] == [made.body["key_id"]]

        names = ("shared", "late", "of_home")
        listed = there.get("/api/keychain").body["keychain"]
        sealed_by = {each["name"]: each["key"] for each in listed}
        assert sealed_by == {
            **dict.fromkeys(("shared", "late"), made.body["key_id"]),
            "of_home": None,
        }
        length = " + ".join(f"(keychain.{name} | length)" for name in names)
        entries = ", ".join(f"{{name: {n}, kind: secret_manager}}" for n in names)
        text = playbook(
            "shares",
            f"""
            - step: start
              tool:
                kind: noop
                result: "{{{{ {length} }}}}"
            """,
            f"keychain: [{entries}]\n",
        )
        ran = there.run(text)
        assert ran["steps"][0]["result"] == 3 * len(VALUE), ran
        audit = here.get("/api/audit?action=rotate_keys").body["entries"]
        assert audit[0]["target"] == {"key_id": made.body["key_id"]}
    finally:
        one.stop()
        two.stop()
    write_private(home.key, bytes(32))
    with pytest.raises(ConfigError, match=r"another key .*see keychain_key"):
        Running(home.folder, database=postgres)


def test_the_server_of_noetl_up_shares_the_keychain_of_its_home(
    tmp_path: Path, postgres: str
) -> None:
    """`noetl run` under that home uses the same secrets."""
    home = Home(tmp_path / "home")
    server = Running(home.folder, database=postgres, personal=str(tmp_path))
    try:
        api = Api(server.url, server.token)
        stored = StoredKeychain(home.keychain, Cipher(home.key))
        assert api.post("/api/keychain/by_server", {"value": VALUE}).status == 201
        assert [*stored.list()] == ["by_server"]
        stored.set("by_command", VALUE, "secret_manager", "T")
        listed = api.get("/api/keychain").body["keychain"]
        assert [each["name"] for each in listed] == ["by_command", "by_server"]
        assert api.get("/api/keys").body["kind"] == "keychain.one_key"
    finally:
        server.stop()
