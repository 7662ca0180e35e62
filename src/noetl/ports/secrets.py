"""Providers of secrets, and the sealed store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.types import JSON


class Wanted(msgspec.Struct, frozen=True):
    """A requested secret: an entry of a keychain, or of a ``secrets`` task.

    ``fields`` give its location; a relative path starts at ``folder``. A ``fresh``
    secret is not taken from a cache. ``playbook`` is the path of the requesting
    playbook.
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
    """A provider of secrets of one kind."""

    async def get(self, wanted: Wanted) -> JSON:
        """Return a text, or a mapping of fields. Raises ``SecretError``, without
        secrets."""
        ...


class SealedStore(Protocol):
    """Secrets of running executions: sealed, and outside of the log."""

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        """Seal the secret and store it durably."""
        ...

    async def load(self, execution_id: str) -> dict[str, JSON]:
        """Return all secrets of an execution by name. Raises ``SecretError``."""
        ...

    async def drop(self, execution_id: str) -> None:
        """Remove all secrets of an execution; there may be none."""
        ...

    async def kept(self) -> Sequence[str]:
        """Return the executions that have secrets."""
        ...


class TaskPlace(msgspec.Struct, frozen=True):
    """The task of a playbook that makes a request, by its label."""

    execution_id: str
    step: str
    task: str


class Keys(Protocol):
    """Access of tools to secrets."""

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None,
        path: str | None,
    ) -> dict[str, JSON]:
        """Look the secret up, seal it, and return its handle. Raises
        ``SecretError``."""
        ...
