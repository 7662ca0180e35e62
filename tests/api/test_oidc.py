"""Sign-in by a provider, from the first redirect to the session."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from oidc_peer import CLIENT, SECRET, OidcPeer, Provider
from servers import Answer, Api, Running

from noetl.access.oidc import OidcClient

CALLBACK = "/api/sessions/oidc/callback"
MAPPED = {"engineers": "developer", "ops": "operator:finance/*"}
LINK = {
    "Sec_Fetch_Site": "cross-site",
    "Sec_Fetch_Mode": "navigate",
    "Sec_Fetch_Dest": "document",
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def server(
    provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    public = "http://127.0.0.1:8082"
    client = OidcClient(
        issuer=provider.peer.address,
        client_id=CLIENT,
        client_secret=SECRET,
        redirect_uri=f"{public}{CALLBACK}",
        roles=MAPPED,
    )
    server = Running(tmp_path_factory.mktemp("oidc") / "home", oidc=client)
    provider.peer.redirect = client.redirect_uri
    yield server
    server.stop()


@pytest.fixture
def peer(provider: Provider) -> OidcPeer:
    """As it should be."""
    peer = provider.peer
    peer.claims = {"sub": "auth0|123", "roles": ["engineers"], "name": "local"}
    peer.missing, peer.header, peer.metadata = set(), {}, {}
    peer.now = int(time.time())
    return peer


def begin(server: Running, query: str = "") -> tuple[str, str]:
    """Where the browser is sent, and its cookie."""
    answer = Api(server.url, None).get(f"/api/sessions/oidc{query}")
    assert answer.status == 302, answer.body
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Max-Age=600"} <= set(cookie.split("; "))
    return answer.headers["location"], cookie.split(";")[0]


def visit(url: str) -> dict[str, str]:
    """Sign in at the provider; the query that it sends back."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}")
    place = connection.getresponse().getheader("Location")
    connection.close()
    assert place is not None
    return {name: each[0] for name, each in parse_qs(urlsplit(place).query).items()}


def come_back(server: Running, query: dict[str, str], cookie: str | None) -> Answer:
    said = dict(LINK) if cookie is None else {**LINK, "Cookie": cookie}
    return Api(server.url, None).get(f"{CALLBACK}?{urlencode(query)}", **said)


def cookies(server: Running, query: dict[str, str], cookie: str) -> list[str]:
    """All that the callback sets: there are two of them."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    path = f"{CALLBACK}?{urlencode(query)}"
    connection.request("GET", path, headers={"Cookie": cookie})
    response = connection.getresponse()
    found = [v for n, v in response.getheaders() if n.lower() == "set-cookie"]
    connection.close()
    assert response.status == 200
    return found


def test_who_signs_in_there_has_a_session_here(server: Running, peer: OidcPeer) -> None:
    place, pending = begin(server)
    session, ended = cookies(server, visit(place), pending)

    assert session.startswith("noetl_session=nts_")
    assert "SameSite=Strict" in session
    assert "Max-Age=0" in ended
    me = (
        Api(server.url, None)
        .get("/api/sessions/current", Cookie=session.split(";")[0])
        .body
    )
    assert me["roles"] == ["developer"]
    assert me["name"].startswith("oidc-"), "not by a name that they chose themselves"
    admin = Api(server.url, server.token)
    entry = admin.get("/api/audit?action=finish_sign_in&limit=1").body["entries"][0]
    assert (entry["principal"], entry["means"]) == (me["name"], "oidc")
    assert entry["target"]["subject"] == "auth0|123"
    users = {each["name"]: each for each in admin.get("/api/users").body["users"]}
    assert users[me["name"]]["issuer"] == peer.address
    for secret in (SECRET, session.split(";")[0].partition("=")[2]):
        assert secret not in str(admin.get("/api/audit").body)


def test_the_page_goes_on_where_they_wanted_to(server: Running, peer: OidcPeer) -> None:
    place, pending = begin(server, "?next=/ui/runs")
    done = come_back(server, visit(place), pending)

    assert done.status == 200
    assert b'url=/ui/runs"' in done.body
    for bad in ("//evil.com", "https://evil.com", "/\\evil.com", "javascript:x"):
        query = urlencode({"next": bad})
        answer = Api(server.url, None).get(f"/api/sessions/oidc?{query}")
        assert (answer.status, answer.body["kind"]) == (422, "query.invalid")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"iss": "https://other.example"}, "from another issuer"),
        ({"aud": "another"}, "for another client"),
        ({"azp": "another", "aud": [CLIENT, "b"]}, "given to another client"),
        ({"nonce": "another"}, "of another sign-in"),
        ({"exp": 1}, "has expired"),
        ({"iat": 4_000_000_000}, "issued in the future"),
        ({"sub": ""}, "the ID token has no subject"),
    ],
)
def test_an_id_token_that_is_not_for_us_is_refused(
    server: Running, peer: OidcPeer, wrong: dict[str, Any], said: str
) -> None:
    peer.claims |= wrong
    place, pending = begin(server)

    answer = come_back(server, visit(place), pending)

    assert (answer.status, answer.body["kind"]) == (401, "oidc.refused")
    assert said in answer.body["message"]
    assert "set-cookie" not in answer.headers


def test_a_sign_in_belongs_to_the_browser_that_began_it(
    server: Running, peer: OidcPeer
) -> None:
    place, pending = begin(server)
    query = visit(place)
    _, other = begin(server)

    for cookie in (None, other, "noetl_oidc=rubbish", f"{pending}; {other}"):
        answer = come_back(server, query, cookie)
        assert (answer.status, answer.body["kind"]) == (401, "oidc.refused")
        assert "not begun in this browser" in answer.body["message"]
    assert come_back(server, {**query, "state": "x"}, pending).status == 401
    assert come_back(server, {}, pending).status == 401
    error = come_back(server, {"state": query["state"], "error": "denied"}, pending)
    assert "answered with denied" in error.body["message"]
    assert come_back(server, query, pending).status == 200
    again = come_back(server, query, pending)
    assert (again.status, again.body["kind"]) == (401, "oidc.refused"), "a code is used"


def test_an_identity_without_a_mapped_role_is_refused(
    server: Running, peer: OidcPeer
) -> None:
    peer.claims["roles"] = ["visitors"]
    place, pending = begin(server)

    answer = come_back(server, visit(place), pending)

    assert (answer.status, answer.body["kind"]) == (403, "auth.role")


def test_another_role_there_ends_the_session_with_the_old_one(
    server: Running, peer: OidcPeer
) -> None:
    place, pending = begin(server)
    first = cookies(server, visit(place), pending)[0].split(";")[0]
    peer.claims["roles"] = ["ops"]
    place, pending = begin(server)
    second = cookies(server, visit(place), pending)[0].split(";")[0]

    anybody = Api(server.url, None)
    assert anybody.get("/api/sessions/current", Cookie=first).status == 401
    me = anybody.get("/api/sessions/current", Cookie=second).body
    assert me["roles"] == ["operator:finance/*"]


def test_a_name_that_is_not_ours_is_refused_here_too(server: Running) -> None:
    for path in ("/api/sessions/oidc", f"{CALLBACK}?state=x&code=y"):
        answer = Api(server.url, None).get(path, Host="evil.com")
        assert (answer.status, answer.body["kind"]) == (421, "host.not_allowed")


def test_without_a_provider_that_is_said(api: Api) -> None:
    anybody = Api(api.url, None)
    for path in ("/api/sessions/oidc", CALLBACK):
        answer = anybody.get(path)
        assert (answer.status, answer.body["kind"]) == (404, "oidc.off")
    means = anybody.get("/api/sessions/means").body
    assert means == {"password": True, "oidc": None, "sign_in": None}


def test_a_provider_that_is_away_is_named(tmp_path_factory: Any) -> None:
    client = OidcClient(
        issuer="http://127.0.0.1:9", client_id="x", redirect_uri="http://localhost/x"
    )
    server = Running(tmp_path_factory.mktemp("away") / "home", oidc=client)
    try:
        answer = Api(server.url, None).get("/api/sessions/oidc")
        assert (answer.status, answer.body["kind"]) == (503, "oidc.unreachable")
        assert "http://127.0.0.1:9" in answer.body["message"]
        many = [Api(server.url, None).get("/api/sessions/oidc") for _ in range(100)]
        assert many[-1].status == 429
    finally:
        server.stop()
