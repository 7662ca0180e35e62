"""Concurrency keys: how many executions may share one, and how the rest is handled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from noetl.types import JSON

OnLimit = Literal["queue", "cancel_previous", "reject"]
MAX_LIMIT = 10_000
MAX_KEY_LENGTH = 200

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT)]


class Concurrency(msgspec.Struct, frozen=True):
    """A concurrency key and its limit. ``of`` is the playbook that owns the key:
    executions of other playbooks are not counted, delayed or cancelled by it."""

    key: str
    limit: int = 1
    on_limit: OnLimit = "queue"
    of: str = ""

    @property
    def place(self) -> str:
        """Return the name under which the store counts the key."""
        return f"{self.of}#{self.key}"

    def words(self) -> str:
        some = "execution" if self.limit == 1 else "executions"
        return f"at most {self.limit:,} {some} may run with the key '{self.key}'"


def why_not_key(key: JSON) -> str | None:
    """Return why the value is not a valid key, or None."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        found = "nothing" if key is None else type(key).__name__
        return f"the key must be a text or a number, found {found}"
    if not 1 <= len(str(key)) <= MAX_KEY_LENGTH or not str(key).isprintable():
        return f"the key must have 1 to {MAX_KEY_LENGTH} printable characters"
    return None


def taken(concurrency: Concurrency, holders: Sequence[str]) -> dict[str, JSON]:
    """Return the error of a rejected request, with the executions that hold the
    slots."""
    shown = ", ".join(holders[:3]) + (", …" if len(holders) > 3 else "")
    return {
        "kind": "concurrency.taken",
        "message": f"{concurrency.words()}; now running: {shown}",
        "step": None,
        "task": None,
        "holders": list(holders[:100]),
    }


def superseded(concurrency: Concurrency, by: str) -> dict[str, JSON]:
    """Return the error of an execution that a later one replaces."""
    message = f"execution {by} replaces it, because {concurrency.words()}"
    return {"kind": "cancelled", "message": message, "superseded_by": by}
