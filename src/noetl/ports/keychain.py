"""The stored keychain: its entries, and what every keychain promises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.access.secrets import EVERYWHERE, is_for
from noetl.dsl.diagnostics import nearest
from noetl.errors import SecretError
from noetl.types import JSON


class Record(msgspec.Struct, frozen=True):
    """Description of a secret, with its sealed value.

    ``bound`` are the paths of the playbooks that may use it. ``declared`` are the
    fields of an entry that an admin has declared: it names the place of a secret.
    ``key`` is the id of the key that seals it, in a keychain that has several.
    """

    kind: str
    fields: list[str] | None
    updated_at: str
    sealed: str
    bound: tuple[str, ...] = msgspec.field(default=(EVERYWHERE,), name="for")
    declared: dict[str, str] | None = None
    key: str | None = None


class Change(msgspec.Struct, frozen=True):
    """New record, and whether it replaced another."""

    record: Record
    replaced: bool


Bind = Callable[[Record | None], tuple[str, ...]]
"""Returns the bindings of a record, given the one that is replaced. If it raises,
nothing is changed."""


def keep_bindings(before: Record | None) -> tuple[str, ...]:
    return before.bound if before is not None else (EVERYWHERE,)


def may_always(record: Record) -> bool:
    return True


def fields_of(value: JSON) -> list[str] | None:
    """Return the names of a credential's fields; None for a single value."""
    return sorted(value) if isinstance(value, Mapping) else None


class Keychain(Protocol):
    """Secrets by name. Each method raises ``SecretError`` or ``StoreError``."""

    async def get(self, name: str) -> Record | None:
        """Return the record with this name, or None."""
        ...

    async def list(self) -> dict[str, Record]:
        """Return all records by name."""
        ...

    async def open(self, name: str, record: Record) -> JSON:
        """Return the value of a sealed record. Raises ``SecretError`` if the record
        does not open: it was changed, or sealed with another key."""
        ...

    async def set(
        self,
        name: str,
        value: JSON,
        kind: str,
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        """Seal and store a secret, or replace one."""
        ...

    async def declare(
        self,
        name: str,
        kind: str,
        fields: Mapping[str, str],
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        """Declare the place of a secret of the host, or replace a declaration."""
        ...

    async def delete(
        self, name: str, may: Callable[[Record], bool] = may_always
    ) -> bool:
        """Delete a secret; return whether one existed that the caller may delete."""
        ...


class SealingKey(msgspec.Struct, frozen=True):
    """A key that seals entries. ``sealed_by`` identifies the key that seals it;
    ``uses`` counts the entries, and the secrets of executions, that it seals."""

    key_id: str
    made_at: str
    sealed_by: str
    is_current: bool
    uses: int


class KeyRotation(Protocol):
    """The keys of a keychain. The newest one seals; all of them open."""

    async def keys(self) -> Sequence[SealingKey]:
        """Return the keys, the newest one first."""
        ...

    async def begin(self) -> SealingKey:
        """Make a new key, which seals from now on. ``serve`` seals the rest anew."""
        ...

    async def serve(self) -> None:
        """Seal with the newest key what others still seal, whenever there is any, and
        remove keys that are not used any more. Runs until it is cancelled."""
        ...


def visible(records: Mapping[str, Record], path: str | None) -> dict[str, Record]:
    """Return the records that the playbook with this path may use."""
    return {name: each for name, each in records.items() if is_for(each.bound, path)}


async def find(keychain: Keychain, name: str, path: str | None) -> Record:
    """Return the record of a secret that the playbook may use.

    Raises ``SecretError``, with the same text for a missing secret and for one that is
    bound to other playbooks.
    """
    record = await keychain.get(name)
    if record is None or not is_for(record.bound, path):
        match = nearest(name, visible(await keychain.list(), path))
        known = f"; did you mean '{match}'?" if match else ""
        raise SecretError("secret.missing", _missing(name, path, known))
    return record


def _missing(name: str, path: str | None, known: str) -> str:
    where = f" for the playbook '{path}'" if path is not None else ""
    cure = f"store it with: noetl keychain set {name}"
    return f"the stored keychain has no '{name}'{where}{known}; {cure}"
