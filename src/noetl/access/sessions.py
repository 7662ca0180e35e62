"""Sessions: the stored record and its lifetime."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from noetl.access.credentials import BITS
from noetl.engine.times import rfc3339, seconds_of
from noetl.errors import AccessError
from noetl.types import JSON

MAX_VERSIONS = 10
"""Versions of a session that a store keeps (SES-11)."""


class Lifetime(msgspec.Struct, frozen=True):
    """Seconds: of inactivity, in total, and between two records of activity."""

    ttl: float = 24 * 3600.0
    absolute: float = 7 * 24 * 3600.0
    renewal: float = 60.0

    def end(self, created_at: float, now: float) -> float:
        """Return the time at which a session that is active now expires (SES-09)."""
        return min(now + self.ttl, created_at + self.absolute)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The session record of SES-03, without its token; times are Unix seconds."""

    session_id: str
    user_id: str
    email: str | None
    display_name: str | None
    roles: tuple[str, ...]
    created_at: float
    expires_at: float
    last_activity_at: float
    client_ip: str | None = None
    auth0_id: str | None = None

    def is_valid(self, now: float) -> bool:
        return now < self.expires_at

    def is_due(self, now: float, lifetime: Lifetime) -> bool:
        """Return True if the activity must be recorded again."""
        return now - self.last_activity_at >= lifetime.renewal

    def renewed(self, now: float, lifetime: Lifetime) -> Session:
        """Return the session with a later expiry, at most the absolute one."""
        end = max(self.expires_at, lifetime.end(self.created_at, now))
        end = min(end, self.created_at + lifetime.absolute)
        return msgspec.structs.replace(self, expires_at=end, last_activity_at=now)


_MOMENTS = ("created_at", "expires_at", "last_activity_at")


def encode(session: Session) -> bytes:
    """Encode the session as JSON with ISO 8601 times."""
    value = msgspec.to_builtins(session)
    for name in _MOMENTS:
        value[name] = rfc3339(value[name])
    return msgspec.json.encode(value)


def decode(data: bytes) -> Session:
    """Decode a session that NoETL or another program wrote. Raises ``AccessError``."""
    try:
        return from_value(msgspec.json.decode(data, type=dict))
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError):
        message = "a stored session cannot be read: delete it and sign in again"
        raise AccessError("session.unreadable", message, 401) from None


def from_value(value: dict[str, JSON]) -> Session:
    """Convert a decoded record; ids may be numbers. Raises the errors of
    ``msgspec``."""
    fields = {name: value.get(name) for name in Session.__struct_fields__}
    for name in _MOMENTS:
        fields[name] = seconds_of(value[name])
    for name in ("session_id", "user_id"):
        fields[name] = str(value[name])
    return msgspec.convert(fields, Session)


LIFETIME_S = 60.0
MAX_CODES = 1000
MAX_CODES_OF_USER = 10


class LoginCodes:
    """Holds the digests of codes in memory, each for ``LIFETIME_S`` seconds."""

    def __init__(self) -> None:
        self._open: dict[bytes, tuple[float, str]] = {}

    def issue(self, user_id: str, entropy: bytes, now: float) -> str:
        """Return a code of 32 random bytes; evict the oldest code of the user above
        ``MAX_CODES_OF_USER``, and that of all above ``MAX_CODES``."""
        if len(entropy) * 8 != BITS:
            raise ValueError(f"a code needs {BITS} random bits")
        code = entropy.hex()
        own = [key for key, (_, user) in self._open.items() if user == user_id]
        for key in own[: max(0, len(own) + 1 - MAX_CODES_OF_USER)]:
            del self._open[key]
        self._open[_digest(code)] = (now + LIFETIME_S, user_id)
        while len(self._open) > MAX_CODES:
            del self._open[next(iter(self._open))]
        return code

    def redeem(self, code: str, now: float) -> str | None:
        """Return the user of a valid code, and invalidate the code."""
        ends, user_id = self._open.pop(_digest(code), (now, ""))
        return user_id if now < ends else None


def _digest(code: str) -> bytes:
    return sha256(code.encode(errors="replace")).digest()
