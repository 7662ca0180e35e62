"""Tokens: 256 random bits behind a prefix, of which only a digest is kept."""

from __future__ import annotations

import hmac
import re
from hashlib import sha256

import msgspec

from noetl.access.grants import Grant

API = "ntl_"
SESSION = "nts_"
BITS = 256
USE_EVERY = 60.0
"""How often at most the last use of a token is written down, in seconds."""

_FOREIGN = re.compile(r"[A-Za-z0-9._~+/=-]{32,512}\Z")
_DIGITS = re.compile(r"[0-9a-f]{64}\Z")


def mint(prefix: str, entropy: bytes) -> str:
    """A token of 32 random bytes, which come from the caller."""
    if len(entropy) * 8 != BITS:
        raise ValueError(f"a token needs {BITS} random bits")
    return prefix + entropy.hex()


def digest(token: str, prefix: str) -> str | None:
    """What is stored and looked for; None for a text that was never minted.

    The token has so many random bits that a slow hash would protect nothing.
    """
    if not token.startswith(prefix) or not _DIGITS.match(token, len(prefix)):
        return None
    return sha256(token.encode()).hexdigest()


def digest_session(token: str) -> str | None:
    """The key of a session (C-42), also of one that another program began."""
    if token.startswith(API) or not _FOREIGN.match(token):
        return None
    return sha256(token.encode()).hexdigest()


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token that was given out: all but the token itself."""

    token_id: str
    user_id: str
    digest: str
    label: str
    scopes: tuple[Grant, ...] | None
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None

    def is_valid(self, presented: str, now: float) -> bool:
        """Whether ``presented`` is its digest, compared in constant time, in time."""
        same = hmac.compare_digest(self.digest, presented)
        return same and (self.expires_at is None or now < self.expires_at)

    def use_is_due(self, now: float) -> bool:
        """Whether this use shall be written down."""
        return self.last_used_at is None or now - self.last_used_at >= USE_EVERY

    def __repr__(self) -> str:
        return f"ApiToken({self.token_id!r}, {self.label!r})"
