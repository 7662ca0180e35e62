"""A request's headers, all checks in their order."""

from __future__ import annotations

import pytest

from noetl.access.credentials import (
    API,
    SESSION,
    Credential,
    digest,
    digest_session,
    mint,
)
from noetl.access.request_guard import LOOPBACK, Hosts, RequestGuard
from noetl.errors import AccessError

TOKEN = mint(API, bytes(32))
COOKIE = mint(SESSION, bytes(32))
HOST = {"host": ["localhost:8082"]}
BEARER = {"authorization": [f"Bearer {TOKEN}"]}
SIGNED_IN = {"cookie": [f"noetl_session={COOKIE}"]}
OWN = {"origin": ["http://localhost:8082"]}
FOREIGN = {"origin": ["http://evil.example"]}
DOOR = RequestGuard(Hosts(LOOPBACK), "http")


def test_a_token_or_a_cookie_of_our_own_page_is_found() -> None:
    assert DOOR.look("POST", HOST | BEARER) == Credential(
        "token", digest(TOKEN, API) or ""
    )
    assert DOOR.look("POST", HOST | SIGNED_IN | OWN) == Credential(
        "session", digest_session(COOKIE) or ""
    )
    assert DOOR.look("GET", HOST) is None
    assert DOOR.look("POST", HOST) is None, "the gate will ask for a credential"


@pytest.mark.parametrize(
    ("method", "headers", "expected"),
    [
        pytest.param("GET", BEARER, 421, id="no host"),
        pytest.param("GET", {"host": ["evil.com"]} | BEARER, 421, id="another host"),
        pytest.param("POST", HOST | SIGNED_IN, 403, id="a cookie and no origin"),
        pytest.param("POST", HOST | SIGNED_IN | FOREIGN, 403, id="another page"),
        pytest.param("POST", HOST | BEARER | FOREIGN, 403, id="with a token"),
        pytest.param("POST", HOST | {"authorization": ["x"]}, 401, id="no credential"),
        pytest.param("POST", HOST | FOREIGN, 403, id="a sign-in by another page"),
    ],
)
def test_a_request_that_is_not_for_us_goes_no_further(
    method: str, headers: dict[str, list[str]], expected: int
) -> None:
    with pytest.raises(AccessError) as e:
        DOOR.look(method, headers)

    assert e.value.status == expected


def test_a_stream_by_cookie_needs_our_own_origin() -> None:
    assert DOOR.look("GET", HOST | SIGNED_IN | OWN, stream=True) is not None
    with pytest.raises(AccessError):
        DOOR.look("GET", HOST | SIGNED_IN, stream=True)
    with pytest.raises(AccessError):
        DOOR.look("GET", HOST | SIGNED_IN | FOREIGN, stream=True)


def test_over_tls_a_cookie_of_a_plain_connection_does_not_count() -> None:
    door = RequestGuard(Hosts(["noetl.example.com"]), "https")

    assert door.secure
    assert door.look("GET", {"host": ["noetl.example.com"]} | SIGNED_IN) is None
