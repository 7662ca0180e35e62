"""A session: its record, and how long it lasts."""

from __future__ import annotations

import msgspec

from noetl.engine.times import rfc3339, seconds_of
from noetl.errors import AccessError
from noetl.types import JSON

HISTORY = 10
"""How many versions of a session are kept (SES-11)."""


class Lifetime(msgspec.Struct, frozen=True):
    """In seconds: without activity, in all, and between two notes of activity."""

    ttl: float = 24 * 3600.0
    absolute: float = 7 * 24 * 3600.0
    renewal: float = 60.0

    def end(self, created_at: float, now: float) -> float:
        """When a session ends that is active now (SES-09)."""
        return min(now + self.ttl, created_at + self.absolute)


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """The value of SES-03. The token is not in it; moments are in seconds."""

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
        """Whether its activity shall be written down again."""
        return now - self.last_activity_at >= lifetime.renewal

    def renewed(self, now: float, lifetime: Lifetime) -> Session:
        """Its end moves on, at most to the absolute one, and never back."""
        end = max(self.expires_at, lifetime.end(self.created_at, now))
        end = min(end, self.created_at + lifetime.absolute)
        return msgspec.structs.replace(self, expires_at=end, last_activity_at=now)


_MOMENTS = ("created_at", "expires_at", "last_activity_at")


def encode(session: Session) -> bytes:
    """As JSON, with moments that people and other programs read."""
    value = msgspec.to_builtins(session)
    for name in _MOMENTS:
        value[name] = rfc3339(value[name])
    return msgspec.json.encode(value)


def decode(data: bytes) -> Session:
    """What ``encode`` wrote, or another program by the same table."""
    try:
        return from_value(msgspec.json.decode(data, type=dict))
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError):
        message = "a stored session cannot be read: delete it, and sign in again"
        raise AccessError("session.unreadable", message, 401) from None


def from_value(value: dict[str, JSON]) -> Session:
    """Ids may be numbers, as in a table; raises what reading them raises."""
    fields = {name: value.get(name) for name in Session.__struct_fields__}
    for name in _MOMENTS:
        fields[name] = seconds_of(value[name])
    for name in ("session_id", "user_id"):
        fields[name] = str(value[name])
    return msgspec.convert(fields, Session)
