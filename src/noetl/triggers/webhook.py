"""Deliveries of webhooks: authentication, and the values that templates may read."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from hashlib import sha256

from noetl.access.credentials import digest
from noetl.triggers.definition import Webhook
from noetl.types import JSON

HOOK = "nth_"
"""Prefix of a webhook's token."""
MAX_BYTES = 1024 * 1024
"""Maximum size of a delivery."""

_NOBODY = sha256(b"nobody").hexdigest()
_PRIVATE = frozenset({"authorization", "cookie", "proxy-authorization"})
_SIGNATURE = "x-noetl-signature"

Headers = Mapping[str, Sequence[str]]


def proof_header(webhook: Webhook) -> str:
    """Return the header by which a sender proves itself, in lower case."""
    if webhook.header is not None:
        return webhook.header.lower()
    return "authorization" if webhook.verify == "token" else _SIGNATURE


def has_token(webhook: Webhook, headers: Headers, kept: str | None) -> bool:
    """Return whether the headers hold the token of this digest, in constant time."""
    given = headers.get(proof_header(webhook), ())
    text = given[0].strip() if len(given) == 1 else ""
    scheme, _, token = text.partition(" ")
    found = digest(token.strip() if scheme.lower() == "bearer" else text, HOOK)
    same = hmac.compare_digest(kept or _NOBODY, found or _NOBODY[::-1])
    return same and kept is not None and found is not None


def is_signed(webhook: Webhook, headers: Headers, body: bytes, secret: bytes) -> bool:
    """Return whether the header holds the HMAC-SHA256 of the body, in hexadecimal
    digits."""
    given = headers.get(proof_header(webhook), ())
    text = given[0].strip().lower() if len(given) == 1 else ""
    expected = hmac.new(secret, body, sha256).hexdigest()
    found = text.removeprefix("sha256=").encode("ascii", "replace")
    return hmac.compare_digest(expected.encode(), found)


def delivery_scope(
    webhook: Webhook, payload: JSON, headers: Headers
) -> dict[str, JSON]:
    """Return the values that templates read, without the header of the proof."""
    hidden = {*_PRIVATE, proof_header(webhook)}
    shown = {
        name: ", ".join(values)
        for name, values in headers.items()
        if name not in hidden
    }
    return {"payload": payload, "headers": shown}
