"""Tokens and cookies: what is taken for one, and what is kept of it."""

from __future__ import annotations

import math
from hashlib import sha256

import pytest

from noetl.access.credentials import (
    API,
    SESSION,
    ApiToken,
    Credential,
    digest,
    mint,
    read_credential,
    set_cookie,
)
from noetl.errors import AccessError

TOKEN = mint(API, bytes(range(32)))
COOKIE = mint(SESSION, bytes(range(32)))
OTHER = mint(SESSION, bytes(32))


def api_token(**fields: float | None) -> ApiToken:
    known = digest(TOKEN, API)
    assert known is not None
    return ApiToken(
        token_id="t1",
        user_id="u1",
        digest=known,
        label="ci",
        scopes=None,
        created_at=0.0,
        expires_at=fields.get("expires_at"),
        last_used_at=fields.get("last_used_at"),
    )


def test_a_token_is_256_bits_behind_its_prefix() -> None:
    assert "ntl_" + bytes(range(32)).hex() == TOKEN
    assert math.log2(16 ** (len(TOKEN) - len(API))) == 256
    with pytest.raises(ValueError, match="256 random bits"):
        mint(API, bytes(16))


def test_only_the_digest_is_stored() -> None:
    token = api_token()

    assert token.digest == sha256(TOKEN.encode()).hexdigest()
    assert TOKEN[4:] not in repr(token)
    assert token.digest not in repr(token)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ntl_",
        "nothing",
        TOKEN[:-1],
        TOKEN + "0",
        TOKEN + "\n",
        TOKEN.upper(),
        " " + TOKEN,
        COOKIE,
        "ntl_" + "é" * 64,
    ],
)
def test_what_was_never_minted_has_no_digest(text: str) -> None:
    assert digest(text, API) is None


def test_a_token_is_valid_until_it_expires_and_for_its_own_digest_alone() -> None:
    known = api_token().digest

    assert api_token().is_valid(known, 1e10)
    assert api_token(expires_at=100.0).is_valid(known, 99.9)
    assert not api_token(expires_at=100.0).is_valid(known, 100.0)
    assert not api_token().is_valid(known[:-1] + "x", 0.0)


def test_its_last_use_is_noted_at_most_once_a_minute() -> None:
    assert api_token().use_is_due(5.0)
    assert not api_token(last_used_at=5.0).use_is_due(64.9)
    assert api_token(last_used_at=5.0).use_is_due(65.0)


def credential(
    authorization: list[str], cookies: list[str], secure: bool = False
) -> Credential | None:
    return read_credential(authorization, cookies, secure=secure)


def test_a_bearer_token_goes_before_a_cookie() -> None:
    found = credential([f"Bearer {TOKEN}"], [f"noetl_session={COOKIE}"])

    assert found == Credential("token", api_token().digest)
    assert credential([f"bearer  {TOKEN} "], []) == found


def test_a_cookie_is_found_among_others() -> None:
    found = credential([], [f"a=b; noetl_session={COOKIE}", "theme=dark"])

    assert found == Credential("session", digest(COOKIE, SESSION) or "")


def test_over_tls_only_the_name_that_tls_protects_counts() -> None:
    plain, protected = f"noetl_session={COOKIE}", f"__Host-noetl_session={COOKIE}"

    assert credential([], [plain], secure=True) is None
    assert credential([], [protected], secure=False) is None
    assert credential([], [protected], secure=True) is not None


def test_without_any_there_is_none() -> None:
    assert credential([], []) is None
    assert credential([], ["theme=dark"]) is None


@pytest.mark.parametrize(
    ("authorization", "cookies"),
    [
        (["Bearer nothing"], []),
        ([""], []),
        (["Bearer"], []),
        ([f"Basic {TOKEN}"], []),
        ([TOKEN], []),
        ([f"Bearer {COOKIE}"], []),
        ([f"Bearer {TOKEN}", f"Bearer {TOKEN}"], []),
        ([f"Bearer {TOKEN}, Bearer {TOKEN}"], []),
        (["Bearer nothing"], [f"noetl_session={COOKIE}"]),
        ([], [f"noetl_session={TOKEN}"]),
        ([], [f"noetl_session={COOKIE}; noetl_session={OTHER}"]),
        ([], [f"noetl_session={COOKIE}", f"noetl_session={OTHER}"]),
    ],
)
def test_every_invalid_credential_gets_the_same_answer(
    authorization: list[str], cookies: list[str]
) -> None:
    with pytest.raises(AccessError) as e:
        credential(authorization, cookies)

    assert (e.value.kind, e.value.status) == ("auth.required", 401)
    assert e.value.message == (
        "no valid credential: send Authorization: Bearer ntl_…, or sign in"
    )


def test_the_cookie_is_http_only_same_site_and_secure() -> None:
    assert set_cookie(COOKIE, 86400.0, secure=True) == (
        f"__Host-noetl_session={COOKIE}; Path=/; Max-Age=86400; HttpOnly; "
        "SameSite=Strict; Secure"
    )
    assert set_cookie("", 0, secure=False) == (
        "noetl_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    )
