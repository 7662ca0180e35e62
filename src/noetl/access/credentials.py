"""Credentials of a request: a bearer token, or a session cookie."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

import msgspec

from noetl.access.permissions import Grant
from noetl.errors import AccessError

API = "ntl_"
SESSION = "nts_"
BITS = 256
USE_INTERVAL_S = 60.0
"""Minimum seconds between two records of a token's last use."""

_FOREIGN = re.compile(r"[A-Za-z0-9._~+/=-]{32,512}\Z")
_DIGITS = re.compile(r"[0-9a-f]{64}\Z")


def mint(prefix: str, entropy: bytes) -> str:
    """Return a token of 32 random bytes, which the caller provides."""
    if len(entropy) * 8 != BITS:
        raise ValueError(f"a token needs {BITS} random bits")
    return prefix + entropy.hex()


def digest(token: str, prefix: str) -> str | None:
    """Return the digest by which a token is stored; None for a malformed token.

    A fast hash is enough for 256 random bits.
    """
    if not token.startswith(prefix) or not _DIGITS.match(token, len(prefix)):
        return None
    return sha256(token.encode()).hexdigest()


def digest_session(token: str) -> str | None:
    """Return the key of a session (C-42), also of one that another program created."""
    if token.startswith(API) or not _FOREIGN.match(token):
        return None
    return sha256(token.encode()).hexdigest()


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an issued token, without the token itself."""

    token_id: str
    user_id: str
    digest: str
    label: str
    scopes: tuple[Grant, ...] | None
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None

    def is_valid(self, presented: str, now: float) -> bool:
        """Compare digests in constant time, and check the expiry."""
        same = hmac.compare_digest(self.digest, presented)
        return same and (self.expires_at is None or now < self.expires_at)

    def use_is_due(self, now: float) -> bool:
        """Return True if this use must be recorded."""
        return self.last_used_at is None or now - self.last_used_at >= USE_INTERVAL_S

    def __repr__(self) -> str:
        return f"ApiToken({self.token_id!r}, {self.label!r})"


COOKIE = "noetl_session"
SECURE_COOKIE = "__Host-noetl_session"
"""The cookie over TLS: other hosts and plain connections cannot set this name."""


class Credential(msgspec.Struct, frozen=True):
    """The digest of the presented token; the token itself is not stored."""

    means: Literal["token", "session"]
    digest: str


def required() -> AccessError:
    """Return the same error for every invalid or missing credential (row 53)."""
    message = "no valid credential: send Authorization: Bearer ntl_…, or sign in"
    return AccessError("auth.required", message, 401)


def read_credential(
    authorization: Sequence[str], cookies: Sequence[str], *, secure: bool
) -> Credential | None:
    """Read the credential from all values of both headers; None if there is none.

    A bearer token has precedence, and an invalid one is not replaced by a cookie.
    Raises ``AccessError`` for anything but exactly one token.
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
    if len(found) > 1:  # one of the cookies was planted; it is not known which
        raise required()
    return Credential("session", _known(digest_session(found[0])))


def _known(found: str | None) -> str:
    if found is None:
        raise required()
    return found


def find_cookies(name: str, headers: Sequence[str]) -> list[str]:
    """Return all values of the cookie."""
    pairs = (pair.partition("=") for text in headers for pair in text.split(";"))
    return [value.strip() for key, _, value in pairs if key.strip() == name]


def set_cookie(token: str, seconds: float, *, secure: bool) -> str:
    """Return a Set-Cookie header; zero seconds delete the cookie."""
    name = f"{SECURE_COOKIE if secure else COOKIE}={token}"
    parts = [name, "Path=/", f"Max-Age={int(seconds)}", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if secure else parts)
