"""Sessions in NATS: who is signed in at one server is known to all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nats_servers import NatsServer
from servers import Answer, Api, Running
from stored_log import contents

PASSWORD = "correct horse battery"


def signed_in(server: Running, name: str) -> str:
    body = {"name": name, "password": PASSWORD}
    answer = Api(server.url, None).post("/api/sessions", body)
    assert answer.status == 201, answer.body
    return answer.headers["set-cookie"].split(";")[0]


def look(server: Running, cookie: str) -> Answer:
    return Api(server.url, None).get("/api/executions", Cookie=cookie)


def add(server: Running, name: str) -> None:
    body = {"name": name, "roles": ["viewer"], "password": PASSWORD}
    assert Api(server.url, server.token).post("/api/users", body).status == 201


@pytest.fixture
def pair(
    tmp_path: Path, postgres: str, nats_server: NatsServer
) -> Iterator[tuple[Running, Running]]:
    options = {"database": postgres, "nats": nats_server.address, "slots": 0}
    one = Running(tmp_path / "one", **options)
    two = Running(tmp_path / "two", **options)
    yield one, two
    one.stop()
    two.stop()


@pytest.mark.spec("SES-01", "SES-04", "SES-05", "SES-07", "SES-08")
def test_a_session_is_good_at_every_server_and_ends_at_all_of_them(
    pair: tuple[Running, Running],
) -> None:
    one, two = pair
    add(one, "ann")
    cookie, other = signed_in(one, "ann"), signed_in(two, "ann")

    assert look(two, cookie).status == 200
    admin = Api(two.url, two.token)
    listed = admin.get("/api/sessions?user=ann").body["sessions"]
    assert len(listed) == 2

    said = {"Cookie": cookie, "Sec_Fetch_Site": "same-origin"}
    out = Api(one.url, None).call("DELETE", "/api/sessions/current", **said)
    assert out.status == 200
    assert (look(two, cookie).status, look(two, other).status) == (401, 200)

    Api(one.url, one.token).post("/api/users/ann/password", {"password": PASSWORD * 2})
    assert look(two, other).status == 401


def test_nothing_of_a_session_is_in_files_or_rows(
    pair: tuple[Running, Running],
) -> None:
    """They are NATS' alone, and of the token only the digest (SES-01, C-42)."""
    one, _ = pair
    add(one, "bob")
    token = signed_in(one, "bob").partition("=")[2]

    held = b"".join(text for _, text in contents(one.home.folder))
    assert token.encode() not in held
    assert not one.home.accounts.exists()


def test_without_nats_no_session_is_valid_and_tokens_go_on(
    tmp_path: Path, start_nats: Callable[..., NatsServer]
) -> None:
    """Of a server without a database, too; and it comes back with NATS."""
    nats = start_nats()
    server = Running(tmp_path / "home", nats=nats.address)
    try:
        add(server, "ann")
        cookie = signed_in(server, "ann")
        assert look(server, cookie).status == 200
        nats.kill()

        answer = look(server, cookie)
        assert (answer.status, answer.body["kind"]) == (401, "session.store_down")
        assert "API tokens still work" in answer.body["message"]
        assert Api(server.url, server.token).get("/api/users").status == 200

        start_nats(nats.port)
        while look(server, cookie).body.get("kind") == "session.store_down":
            pass  # until the connection is there again
        assert look(server, cookie).status == 200
    finally:
        server.stop()


def test_a_server_starts_without_its_nats(tmp_path: Path) -> None:
    server = Running(tmp_path / "home", nats="nats://127.0.0.1:9")
    try:
        api = Api(server.url, server.token)
        assert api.get("/readyz").status == 200
        add(server, "ann")
        body = {"name": "ann", "password": PASSWORD}
        answer = api.post("/api/sessions", body)
        assert (answer.status, answer.body["kind"]) == (401, "session.store_down")
    finally:
        server.stop()


def test_a_session_of_another_installation_opens_nothing(
    tmp_path: Path, nats_server: NatsServer
) -> None:
    """Row 53: two of them use one NATS."""
    one = Running(tmp_path / "one", nats=nats_server.address)
    two = Running(tmp_path / "two", nats=nats_server.address)
    try:
        add(one, "ann")
        add(two, "ann")
        cookie = signed_in(one, "ann")
        assert (look(one, cookie).status, look(two, cookie).status) == (200, 401)
    finally:
        one.stop()
        two.stop()
