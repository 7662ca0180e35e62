"""A sign-in that has begun, kept in a cookie of the browser that began it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

import msgspec

from noetl.access.credentials import find_cookies
from noetl.access.oidc import Pending

COOKIE = "noetl_oidc"
SECURE_COOKIE = "__Host-noetl_oidc"


class _Kept(msgspec.Struct):
    pending: Pending
    place: str


def set_pending(
    pending: Pending | None, place: str, seconds: float, *, secure: bool
) -> str:
    """The value of a Set-Cookie header. Lax, for the provider's page leads back here;
    None takes it away."""
    name, text = SECURE_COOKIE if secure else COOKIE, ""
    if pending is not None:
        text = urlsafe_b64encode(msgspec.json.encode(_Kept(pending, place))).decode()
    parts = [f"{name}={text.rstrip('=')}", "Path=/", f"Max-Age={int(seconds)}"]
    parts += ["HttpOnly", "SameSite=Lax"]
    return "; ".join([*parts, "Secure"] if secure else parts)


def read_pending(
    cookies: Sequence[str], *, secure: bool
) -> tuple[Pending | None, str | None]:
    """And where the browser wants to go; None of what is not exactly one of ours."""
    found = find_cookies(SECURE_COOKIE if secure else COOKIE, cookies)
    if len(found) != 1 or len(found[0]) > 4096:
        return None, None
    try:
        text = urlsafe_b64decode(found[0] + "=" * (-len(found[0]) % 4))
        kept = msgspec.json.decode(text, type=_Kept)
    except ValueError:
        return None, None
    return kept.pending, kept.place
