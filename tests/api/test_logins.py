"""``/api/logins``: commands sign in through the provider, and get a token."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oidc_peer import CLIENT, SECRET, OidcPeer, Provider
from servers import Answer, Api, Running

from noetl.access.oidc import OidcClient
from noetl.service.access.accounts import MAX_LOGINS

MAPPED = {"engineers": "developer", "ops": "operator:finance/*"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def server(
    provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    client = OidcClient(
        issuer=provider.peer.address,
        client_id=CLIENT,
        client_secret=SECRET,
        redirect_uri="http://127.0.0.1:8082/api/sessions/oidc/callback",
        roles=MAPPED,
    )
    server = Running(tmp_path_factory.mktemp("logins") / "home", oidc=client)
    yield server
    server.stop()


@pytest.fixture
def peer(provider: Provider) -> OidcPeer:
    """As it should be."""
    peer = provider.peer
    peer.claims = {"sub": "auth0|123", "roles": ["engineers"], "name": "Ann"}
    peer.missing, peer.device_answer, peer.decisions = set(), {}, []
    peer.now = int(time.time())
    return peer


def begin(server: Running) -> dict[str, Any]:
    answer = Api(server.url, None).post("/api/logins")
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.body
    return found


def finish(server: Running, begun: dict[str, Any]) -> Answer:
    body = {"handle": begun["handle"], "label": "laptop"}
    return Api(server.url, None).post("/api/logins/token", body)


def test_a_login_ends_in_a_token_with_the_roles_of_the_provider(
    server: Running, peer: OidcPeer
) -> None:
    peer.decisions = ["authorization_pending", "slow_down"]
    begun = begin(server)
    assert begun["user_code"] == "WDJB-MJHT"
    assert (begun["verification_uri"], begun["interval"]) == (
        f"{peer.address}/activate",
        1.0,
    )
    assert "device-code" not in str(begun)
    waiting = [finish(server, begun) for _ in range(2)]
    assert [(each.status, each.body) for each in waiting] == [
        (200, {"state": "pending"}),
        (200, {"state": "slow_down"}),
    ]
    given = finish(server, begun)
    assert given.status == 201

    mine = Api(server.url, given.body["token"])
    me = mine.get("/api/sessions/current").body
    assert (me["roles"], me["scopes"], me["means"]) == (["developer"], None, "token")
    assert me["name"].startswith("oidc-")
    assert given.body["label"] == "login laptop"
    admin = Api(server.url, server.token)
    entries = admin.get("/api/audit?action=finish_login").body["entries"]
    assert [each["principal"] for each in entries] == [me["name"]]
    assert entries[0]["target"]["token_id"] == given.body["token_id"]
    assert given.body["token"] not in str(admin.get("/api/audit").body)
    again = finish(server, begun)
    assert (again.status, again.body["kind"]) == (401, "oidc.refused")

    assert mine.call("DELETE", "/api/sessions/current").status == 200
    assert mine.get("/api/sessions/current").status == 401
    assert admin.call("DELETE", "/api/sessions/current").status == 200
    assert admin.get("/api/audit").status == 200, "no login has made this token"


def test_roles_of_a_later_login_hold_for_the_tokens_that_exist(
    server: Running, peer: OidcPeer
) -> None:
    first = Api(server.url, finish(server, begin(server)).body["token"])
    peer.claims["roles"] = ["ops"]
    finish(server, begin(server))

    assert first.get("/api/sessions/current").body["roles"] == ["operator:finance/*"]


def test_an_account_has_a_bounded_number_of_logins(
    server: Running, peer: OidcPeer
) -> None:
    peer.claims["sub"] = "many"
    given = [finish(server, begin(server)).body for _ in range(MAX_LOGINS + 2)]

    admin = Api(server.url, server.token)
    listed = admin.get(f"/api/tokens?user={given[0]['user']}").body["tokens"]
    kept = {each["token_id"] for each in listed}
    assert kept == {each["token_id"] for each in given[2:]}


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ("access_denied", "was refused at the provider"),
        ("expired_token", "took too long"),
        ("invalid_grant", "answered with invalid_grant"),
        ("<script>", "answered with 400"),
    ],
)
def test_a_login_that_the_provider_refuses_gives_no_token(
    server: Running, peer: OidcPeer, decision: str, said: str
) -> None:
    peer.decisions = [decision]
    refused = finish(server, begin(server))

    assert (refused.status, refused.body["kind"]) == (401, "oidc.refused")
    assert said in refused.body["message"]


@pytest.mark.parametrize(
    ("claims", "status", "kind"),
    [
        ({"roles": []}, 403, "auth.role"),
        ({"aud": "another"}, 401, "oidc.refused"),
        ({"iss": "https://other.example"}, 401, "oidc.refused"),
        ({"exp": 1}, 401, "oidc.refused"),
    ],
)
def test_an_id_token_that_is_not_for_this_server_gives_no_token(
    server: Running, peer: OidcPeer, claims: dict[str, Any], status: int, kind: str
) -> None:
    peer.claims |= claims
    refused = finish(server, begin(server))

    assert (refused.status, refused.body["kind"]) == (status, kind)


@pytest.mark.parametrize(
    "answer",
    [
        {"verification_uri": "http://evil.example/activate"},
        {"verification_uri": "javascript:alert(1)"},
        {"user_code": "A\u001b[2JB"},
        {"user_code": "x" * 65},
        {"expires_in": -1},
        {"device_code": ""},
    ],
)
def test_a_provider_that_begins_something_else_is_refused(
    server: Running, peer: OidcPeer, answer: dict[str, Any]
) -> None:
    peer.device_answer = answer
    refused = Api(server.url, None).post("/api/logins")

    assert (refused.status, refused.body["kind"]) == (401, "oidc.refused")


def test_a_handle_that_the_server_did_not_make_is_refused(
    server: Running, peer: OidcPeer
) -> None:
    begun = begin(server)
    text = begun["handle"]
    changed = text[:9] + ("B" if text[9] == "A" else "A") + text[10:]
    for handle in ("x", "é", "A" * 100, text[:-2], changed):
        refused = finish(server, {"handle": handle})
        assert (refused.status, refused.body["kind"]) == (401, "oidc.refused"), handle
    assert finish(server, begun).status == 201


def test_a_server_without_a_provider_says_so(fresh: Api) -> None:
    stranger = Api(fresh.url, None)
    body = {"handle": "x", "label": "y"}
    for refused in (
        stranger.post("/api/logins"),
        stranger.post("/api/logins/token", body),
    ):
        assert (refused.status, refused.body["kind"]) == (404, "oidc.off")


def test_the_command_keeps_the_token_for_its_server_alone(
    server: Running, peer: OidcPeer, tmp_path: Path
) -> None:
    environ = {**os.environ, "NOETL_HOME": str(tmp_path)}

    def noetl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "noetl", *words, "--server", server.url]
        return subprocess.run(command, env=environ, capture_output=True, text=True)

    done = noetl("login", "--json")
    assert done.returncode == 0, done.stderr
    assert "WDJB-MJHT" in done.stderr
    assert f"{peer.address}/activate" in done.stderr
    said = json.loads(done.stdout)
    assert said["server"] == server.url
    file = tmp_path / "logins.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = json.loads(file.read_text())[server.url]["token"]
    assert token not in done.stdout + done.stderr
    assert noetl("list").returncode == 0
    out = noetl("logout")
    assert (out.returncode, file.exists()) == (0, False), out.stderr
    assert Api(server.url, token).get("/api/sessions/current").status == 401
    peer.decisions = ["access_denied"]
    refused = noetl("login")
    assert refused.returncode == 2
    assert "was refused at the provider" in refused.stderr
    assert "Traceback" not in refused.stderr
