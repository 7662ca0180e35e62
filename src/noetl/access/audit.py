"""The audit: who changed what on a server, from where, and what came of it (I-44)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.types import JSON

MASK = "***"
_LONGEST = 255
_TOKEN = re.compile(r"nt[ls]_[0-9A-Za-z]+")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One call. Without a ``status`` it was begun, and nobody knows how it ended.

    ``principal`` is the name of an account, ``credential`` the id of its token or
    session. ``target`` says what the call was about; ``problem`` is why it was refused.
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
    """Where entries are kept. Raises ``StoreError``."""

    async def note(self, entry: Entry) -> None:
        """Keep it; said again with the same id, only its end is added."""
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
        """The newest first; ``before`` is the id of the last one that was seen."""
        ...


def plain(value: JSON) -> JSON:
    """What may be kept of a name that somebody sent: short, and without a token, which
    people paste where its id belongs."""
    if isinstance(value, str):
        return _TOKEN.sub(MASK, value)[:_LONGEST]
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    return value
