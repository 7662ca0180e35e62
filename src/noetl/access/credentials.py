"""What a request brings to say who sends it: a bearer token, or a session's cookie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from noetl.access.tokens import API, digest, digest_session
from noetl.errors import AccessError

COOKIE = "noetl_session"
SECURE_COOKIE = "__Host-noetl_session"
"""Over TLS: no other host, and no plain connection, can set a cookie of this name."""


class Credential(msgspec.Struct, frozen=True):
    """The digest of what was presented; the token itself goes no further."""

    means: Literal["token", "session"]
    digest: str


def required() -> AccessError:
    """One answer for all that is wrong with a credential, or missing (row 53)."""
    message = "no valid credential: send Authorization: Bearer ntl_…, or sign in"
    return AccessError("auth.required", message, 401)


def read_credential(
    authorization: Sequence[str], cookies: Sequence[str], *, secure: bool
) -> Credential | None:
    """From all values of both headers; None if there is nothing.

    A bearer token goes first, and a wrong one is not made up for by a cookie. Raises
    ``AccessError`` for anything that is not exactly one token.
    """
    if authorization:
        scheme, _, token = authorization[0].strip().partition(" ")
        if len(authorization) > 1 or scheme.lower() != "bearer":
            raise required()
        return Credential("token", _known(digest(token.strip(), API)))
    name = SECURE_COOKIE if secure else COOKIE
    found = find_cookies(name, cookies)
    if not found:
        return None
    if len(found) > 1:  # one of them was planted, and nobody knows which
        raise required()
    return Credential("session", _known(digest_session(found[0])))


def _known(found: str | None) -> str:
    if found is None:
        raise required()
    return found


def find_cookies(name: str, headers: Sequence[str]) -> list[str]:
    """All values that a browser sends of it."""
    pairs = (pair.partition("=") for text in headers for pair in text.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def set_cookie(token: str, seconds: float, *, secure: bool) -> str:
    """The value of a Set-Cookie header; zero seconds take it away."""
    name = f"{SECURE_COOKIE if secure else COOKIE}={token}"
    parts = [name, "Path=/", f"Max-Age={int(seconds)}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if secure else parts)
