"""How many executions with one key may be under way, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from noetl.types import JSON

OnLimit = Literal["queue", "cancel_previous", "reject"]
MOST = 10_000
LONGEST = 200

Limit = Annotated[int, Meta(ge=1, le=MOST)]


class Concurrency(msgspec.Struct, frozen=True):
    """``of`` is whose key it is: a playbook's, so that no other's executions are
    counted, delayed or cancelled by it."""

    key: str
    limit: int = 1
    on_limit: OnLimit = "queue"
    of: str = ""

    @property
    def place(self) -> str:
        """What a store knows it by."""
        return f"{self.of}#{self.key}"

    def words(self) -> str:
        some = "execution is" if self.limit == 1 else "executions are"
        return f"at most {self.limit:,} {some} under way with the key '{self.key}'"


def why_not_key(key: JSON) -> str | None:
    """Why this is no key; None if it is one."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        found = "nothing" if key is None else type(key).__name__
        return f"a key is a text or a number, found {found}"
    if not 1 <= len(str(key)) <= LONGEST or not str(key).isprintable():
        return f"a key has 1 to {LONGEST} printable characters"
    return None


def taken(concurrency: Concurrency, holders: Sequence[str]) -> dict[str, JSON]:
    """Why a request is refused: who has the places."""
    shown = ", ".join(holders[:3]) + (", …" if len(holders) > 3 else "")
    return {
        "kind": "concurrency.taken",
        "message": f"{concurrency.words()}, held by {shown}",
        "step": None,
        "task": None,
        "holders": list(holders[:100]),
    }


def superseded(concurrency: Concurrency, by: str) -> dict[str, JSON]:
    """Why an earlier one is cancelled."""
    message = f"execution {by} came after it, and {concurrency.words()}"
    return {"kind": "cancelled", "message": message, "superseded_by": by}
