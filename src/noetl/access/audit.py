"""The audit: changes on a server, with caller, address and outcome (I-44)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.types import JSON

MASK = "***"
_MAX_CHARS = 255
_TOKEN = re.compile(r"nt[ls]_[0-9A-Za-z]+")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Without a ``status`` the call began, and its outcome is unknown.

    ``principal`` is the name of an account, ``credential`` the id of its token or
    session. ``target`` names the object of the call; ``problem`` is why it was refused.
    """

    audit_id: str
    at: float
    action: str
    principal: str | None = None
    user_id: str | None = None
    means: str | None = None
    credential: str | None = None
    address: str | None = None
    target: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    status: int | None = None
    problem: str | None = None


class Audit(Protocol):
    """The store of audit entries. Raises ``StoreError``."""

    async def note(self, entry: Entry) -> None:
        """Store the entry; a second call with the same id adds the outcome only."""
        ...

    async def entries(
        self,
        *,
        user: str | None = None,
        action: str | None = None,
        since: float | None = None,
        before: str | None = None,
        limit: int,
    ) -> Sequence[Entry]:
        """Return entries, the newest first; ``before`` is the id of the last one
        seen."""
        ...

    async def remove(self, before: float, limit: int) -> int:
        """Remove at most ``limit`` entries from before a time; return how many.

        A database may refuse to remove entries of the last 30 days: these stay.
        """
        ...


def plain(value: JSON) -> JSON:
    """Shorten a value from a request, and mask tokens, which users paste by mistake."""
    if isinstance(value, str):
        return _TOKEN.sub(MASK, value)[:_MAX_CHARS]
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    return value
