"""Who keeps secrets, and where they are sealed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.types import JSON


class Wanted(msgspec.Struct, frozen=True):
    """A secret that is asked for: an entry of a keychain, or a ``secrets`` task.

    ``fields`` say where it is; a relative path is seen from ``folder``. One that must
    be ``fresh`` is not taken from a cache. ``playbook`` is the path of who asks.
    """

    name: str
    kind: str
    fields: Mapping[str, JSON]
    folder: str | None = None
    fresh: bool = False
    playbook: str | None = None

    def __repr__(self) -> str:
        return f"Wanted({self.name!r}, {self.kind!r})"  # a field may be a secret


class SecretProvider(Protocol):
    """Who keeps secrets of one kind."""

    async def get(self, wanted: Wanted) -> JSON:
        """A text, or a mapping of fields. Raises ``SecretError``, without secrets."""
        ...


class SealedStore(Protocol):
    """Secrets of executions that are under way: sealed, and not in the log."""

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        """Seal and keep it; durable when this returns."""
        ...

    async def load(self, execution_id: str) -> dict[str, JSON]:
        """All of an execution by their names. Raises ``SecretError``."""
        ...

    async def drop(self, execution_id: str) -> None:
        """Forget them; nothing happens if there are none."""
        ...

    async def kept(self) -> Sequence[str]:
        """The executions that have some."""
        ...


class TaskPlace(msgspec.Struct, frozen=True):
    """The task of a playbook for which something is asked, by its label."""

    execution_id: str
    step: str
    task: str


class Keys(Protocol):
    """What a tool may ask about secrets."""

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None,
        path: str | None,
    ) -> dict[str, JSON]:
        """Look it up, seal it, and give its handle. Raises ``SecretError``."""
        ...
