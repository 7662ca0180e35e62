"""Accounts, tokens and sessions as an admin has them on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

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
    assert denied.stderr == "noetl: ci has no right to accounts:manage\n"
    del shell._env["NOETL_TOKEN"]

    assert shell.noetl("token", "revoke", line["token_id"]).returncode == 0
    assert shell.noetl("session", "list").stdout == "nobody is signed in\n"
    assert shell.noetl("session", "end", "--user", "ann").returncode == 0
    new = shell.noetl("user", "password", "ann", stdin=PASSWORD + "!")
    assert (new.returncode, PASSWORD in new.stdout) == (0, False)
    assert shell.noetl("user", "delete", "ann").returncode == 0
    assert "ann" not in shell.noetl("user", "list").stdout


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("user add ann --role king", "there is no role 'king'"),
        ("user add a/b", "'a/b' is no name of an account"),
        ("user add worker-1 --role worker", "needs the pool that it works for"),
        ("user roles nobody viewer", "there is no account 'nobody'"),
        ("token create nobody --label x", "there is no account 'nobody'"),
        ("token create local --label x --expires 9", "write it as 30m, 12h or 90d"),
        ("token revoke ntl_x", "name a token by its id"),
        ("session end", "name one session by its id, or an account by --user"),
        ("session end x", "there is no such session"),
    ],
)
def test_mistakes_are_explained(shell: Any, arguments: str, said: str) -> None:
    done = shell.noetl(*arguments.split(), stdin=PASSWORD)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.usefixtures("server")
def test_a_password_is_needed_and_must_be_good(shell: Any) -> None:
    none = shell.noetl("user", "add", "ann", stdin="")
    short = shell.noetl("user", "add", "ann", stdin="short")

    assert "standard input has no password of ann" in none.stderr
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
        shell.noetl("server", "start", "--port", "0")
        shell.noetl("user", "add", "ann", "--role", "admin", stdin=PASSWORD)
        shell.noetl("server", "stop")
        assert "--behind-proxy" in shell.noetl(*start).stderr
        assert shell.noetl(*start, "--behind-proxy").returncode == 0
        assert shell.noetl("server", "restart").returncode == 0
        assert shell.noetl("user", "list").returncode == 0
    finally:
        shell.noetl("server", "stop")
