"""Accounts, tokens and sessions as an admin has them on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import Api

from noetl.runtime.worker_protocol.messages import PROTOCOL

PASSWORD = "correct horse battery"


@pytest.fixture
def server(shell: Any) -> Iterator[dict[str, Any]]:
    done = shell.noetl("server", "start", "--port", "0", "--json")
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)
    shell.noetl("server", "stop")


@pytest.mark.usefixtures("server")
def test_accounts_and_tokens_come_and_go(shell: Any) -> None:
    added = shell.noetl("user", "add", "ann", "--role", "viewer", stdin=PASSWORD)
    assert (added.returncode, added.stdout) == (0, "added: ann (viewer)\n")
    service = ("user", "add", "ci", "--role", "operator:x/*", "--no-password")
    assert shell.noetl(*service).stdout == "added: ci (operator:x/*; no password)\n"
    changed = shell.noetl("user", "roles", "ann", "author", "--json")
    assert json.loads(changed.stdout)["roles"] == ["author"]
    made = shell.noetl("token", "create", "ci", "--label", "nightly", "--expires", "9d")
    token = made.stdout.strip()
    assert token.startswith("ntl_")
    assert "nightly" in made.stderr
    assert token not in made.stderr
    lines = json.loads(shell.noetl("token", "list", "--user", "ci", "--json").stdout)
    (line,) = lines["tokens"]
    assert (line["label"], line["user"]) == ("nightly", "ci")
    assert token not in str(lines)

    shell._env["NOETL_TOKEN"] = token
    denied = shell.noetl("user", "list")
    assert denied.returncode == 2
    assert denied.stderr == "noetl: ci lacks the permission accounts:manage\n"
    del shell._env["NOETL_TOKEN"]

    assert shell.noetl("token", "revoke", line["token_id"]).returncode == 0
    assert shell.noetl("session", "list").stdout == "no session is open\n"
    assert shell.noetl("session", "end", "--user", "ann").returncode == 0
    new = shell.noetl("user", "password", "ann", stdin=PASSWORD + "!")
    assert (new.returncode, PASSWORD in new.stdout) == (0, False)
    assert shell.noetl("user", "delete", "ann").returncode == 0
    assert "ann" not in shell.noetl("user", "list").stdout

    listed = shell.noetl("audit", "--action", "delete_user").stdout
    assert "local from 127.0.0.1: delete_user name=ann roles" in listed
    done = shell.noetl("audit", "--user", "local", "--json")
    whole = json.loads(done.stdout)["entries"]
    assert {each["status"] for each in whole} == {200, 201}
    assert PASSWORD not in done.stdout
    assert token not in done.stdout
    denied = shell.noetl("audit", "--user", "ci")
    assert "list_users" not in denied.stdout


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("user add ann --role king", "unknown role 'king'"),
        ("user add a/b", "'a/b' is not a valid account name"),
        ("user add worker-1 --role worker", "needs a pool, for example"),
        ("user roles nobody viewer", "unknown account 'nobody'"),
        ("token create nobody --label x", "unknown account 'nobody'"),
        ("token create local --label x --expires 9", "write it as 30m, 12h or 90d"),
        ("token revoke ntl_x", "give the id of the token"),
        ("session end", "give the id of one session, or an account with --user"),
        ("session end x", "unknown session"),
        ("audit --since yesterday", "the query is not valid"),
    ],
)
def test_mistakes_are_explained(shell: Any, arguments: str, said: str) -> None:
    done = shell.noetl(*arguments.split(), stdin=PASSWORD)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.usefixtures("server")
def test_the_means_of_signing_in_are_listed(shell: Any) -> None:
    done = shell.noetl("session", "means")

    assert done.returncode == 0
    assert "by password: POST http://127.0.0.1:" in done.stdout
    assert "not configured (setting oidc_issuer)" in done.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"OIDC_ISSUER": "https://id.example.com"},
            "oidc_issuer is set, but not oidc_client_id, public_url, oidc_roles",
        ),
        ({"OIDC_CLIENT_ID": "noetl"}, "oidc_client_id is set, but oidc_issuer is not"),
        ({"OIDC_ISSUER": "id.example.com"}, "expected the address of a provider"),
        ({"OIDC_ROLES": "staff=king"}, "'staff': unknown role 'king'"),
        ({"OIDC_ROLES": "staff"}, "expected pairs separated by commas"),
        (
            {
                "OIDC_ISSUER": "http://id.example.com",
                "OIDC_CLIENT_ID": "noetl",
                "OIDC_ROLES": "staff=viewer",
                "PUBLIC_URL": "https://noetl.example.com",
            },
            "issuer must begin with https://",
        ),
    ],
)
def test_mistakes_about_a_provider_are_explained(
    shell: Any, given: dict[str, str], said: str
) -> None:
    for name, value in given.items():
        shell._env[f"NOETL_{name}"] = value

    done = shell.noetl("server", "start", "--port", "0")

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.usefixtures("server")
def test_a_password_is_needed_and_must_be_good(shell: Any) -> None:
    none = shell.noetl("user", "add", "ann", stdin="")
    short = shell.noetl("user", "add", "ann", stdin="short")

    assert "standard input has no password for ann" in none.stderr
    assert "the password is too short" in short.stderr
    assert none.returncode == short.returncode == 2


def test_beyond_this_machine_accounts_and_a_proxy_are_needed(shell: Any) -> None:
    """Row 100."""
    start = ("server", "start", "--host", "0.0.0.0", "--port", "0")

    refused = shell.noetl(*start, "--behind-proxy")

    assert refused.returncode == 2
    assert "auth.required_for_bind" in refused.stderr
    assert "noetl user add" in refused.stderr
    try:
        added = shell.noetl("user", "add", "ann", "--role", "admin", stdin=PASSWORD)
        assert (added.returncode, added.stdout) == (0, "added: ann (admin)\n")
        assert "--behind-proxy" in shell.noetl(*start).stderr
        assert shell.noetl(*start, "--behind-proxy").returncode == 0
        assert shell.noetl("server", "restart").returncode == 0
        assert shell.noetl("user", "list").returncode == 0
    finally:
        shell.noetl("server", "stop")


@pytest.mark.usefixtures("server")
def test_the_keychain_of_a_server_is_reached_by_its_address(shell: Any) -> None:
    url = json.loads(shell.noetl("server", "status", "--json").stdout)["url"]
    at = ("--server", url)

    stored = shell.noetl("keychain", "set", "api_token", *at, stdin="s3cret-value-1")
    again = shell.noetl("keychain", "set", "api_token", *at, stdin="s3cret-value-2")
    listed = shell.noetl("keychain", "list", *at)
    deleted = shell.noetl("keychain", "delete", "api_token", *at)
    missing = shell.noetl("keychain", "delete", "api_tokn", *at)

    assert stored.stdout == "stored: api_token: secret_manager\n"
    assert again.stdout == "replaced: api_token: secret_manager\n"
    assert "api_token: secret_manager" in listed.stdout
    assert deleted.returncode == 0
    assert (missing.returncode, "has no 'api_tokn'" in missing.stderr) == (2, True)
    audit = shell.noetl("audit", "--json").stdout
    assert "store_secret" in audit
    assert "s3cret-value" not in audit


def test_workers_elsewhere_are_seen(shell: Any) -> None:
    start = ("server", "start", "--port", "0", "--behind-proxy", "--json")
    url = json.loads(shell.noetl(*start).stdout)["url"]
    try:
        token = (Path(shell._env["NOETL_HOME"]) / "token").read_text().strip()
        body = {"worker": "rack-7", "pool": "gpu", "slots": 4, "protocol": PROTOCOL}
        said = {"X_Forwarded_For": "192.0.2.7"}
        assert Api(url, token).post("/api/worker/claim", body, **said).status == 200

        listed = shell.noetl("worker", "status", "--server", url)
        none = shell.noetl("worker", "status", "--server", url, "--pool", "other")
        parts = json.loads(shell.noetl("status", "--json").stdout)["parts"]

        assert listed.returncode == 0
        assert listed.stdout.startswith(
            "rack-7 (pool gpu, 0 of 4 slots; local from 192"
        )
        assert (none.returncode, "no worker asked" in none.stdout) == (3, True)
        places = [part["place"] for part in parts if part["name"] == "worker"]
        assert places == ["pool gpu, 4 slots, at 192.0.2.7"]
    finally:
        shell.noetl("server", "stop")


def test_the_first_admin_is_there_before_the_first_start(
    shell: Any, postgres: str
) -> None:
    """In the database of the settings, too; and the audit knows of it."""
    shell._env["NOETL_DATABASE"] = postgres
    for name in ("ann", "ann"):
        done = shell.noetl("user", "add", name, "--role", "admin", stdin=PASSWORD)
    assert (done.returncode, "an account 'ann' already" in done.stderr) == (2, True)
    wrong = shell.noetl("user", "add", "bob", "--role", "king", stdin=PASSWORD)
    assert (wrong.returncode, "unknown role 'king'" in wrong.stderr) == (2, True)
    listed = shell.noetl("user", "list")
    assert (listed.returncode, "noetl server start" in listed.stderr) == (3, True)

    assert shell.noetl("server", "start", "--port", "0").returncode == 0
    try:
        assert "ann (admin)" in shell.noetl("user", "list").stdout
        audit = shell.noetl("audit", "--action", "add_user", "--json")
        (entry,) = json.loads(audit.stdout)["entries"]
        assert (entry["principal"], entry["means"]) == ("local", "home")
        assert entry["target"] == {"name": "ann", "roles": ["admin"]}
    finally:
        shell.noetl("server", "stop")
