"""Keychain of a cluster: sealed rows of PostgreSQL, shared by all its servers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.adapters.secrets.data_keys import DataKey, DataKeys, KeyRemoved
from noetl.errors import SecretError
from noetl.ports.keychain import (
    Bind,
    Change,
    Keychain,
    Record,
    fields_of,
    keep_bindings,
    may_always,
)
from noetl.types import JSON

_LOCK = 0x4E6F4B63  # "NoKc": serializes changes
COLUMNS = "name, kind, fields, updated_at, bound, declared, key_id, sealed"
_GET = f"SELECT {COLUMNS} FROM keychain WHERE name = $1"
_LIST = f"SELECT {COLUMNS} FROM keychain ORDER BY name"
_PUT = f"""
INSERT INTO keychain ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, fields = excluded.fields,
  updated_at = excluded.updated_at, bound = excluded.bound,
  declared = excluded.declared, key_id = excluded.key_id, sealed = excluded.sealed
"""
_DELETE = "DELETE FROM keychain WHERE name = $1"


class ClusterKeychain:
    """Names in plain, values sealed.

    The seal of an entry covers its name, kind, bindings and declaration, too: a role
    of the database can remove entries, and cannot bind them to other playbooks.
    """

    def __init__(self, keys: DataKeys) -> None:
        self._postgres = keys.postgres
        self._keys = keys

    async def get(self, name: str) -> Record | None:
        for row in await self._postgres.fetch(_GET, name):
            return await self._checked(*read_row(row))
        return None

    async def list(self) -> dict[str, Record]:
        rows = await self._postgres.fetch(_LIST)
        return dict([read_row(row) for row in rows])

    async def open(self, name: str, record: Record) -> JSON:
        try:
            text = await self._text(name, record)
        except SecretError as error:
            message = f"'{name}' in the keychain of the cluster: {error.message}"
            raise SecretError(error.kind, message) from None
        return msgspec.json.decode(text)

    async def _text(self, name: str, record: Record) -> bytes:
        try:
            key = await self._keys.get(record.key)
        except KeyRemoved:
            rows = await self._postgres.fetch(_GET, name)
            if not rows:
                raise
            name, record = read_row(rows[0])
            key = await self._keys.get(record.key)
        return key.open(base64.b64decode(record.sealed), purpose_of(name, record))

    async def set(
        self,
        name: str,
        value: JSON,
        kind: str,
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        record = Record(kind, fields_of(value), now, "")
        return await self._put(name, record, value, bind)

    async def declare(
        self,
        name: str,
        kind: str,
        fields: Mapping[str, str],
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        record = Record(kind, sorted(fields), now, "", declared=dict(fields))
        return await self._put(name, record, None, bind)

    async def delete(
        self, name: str, may: Callable[[Record], bool] = may_always
    ) -> bool:
        async def work(connection: Any) -> bool:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                row = await connection.fetchrow(_GET, name)
                if row is None or not may(read_row(tuple(row))[1]):
                    return False
                await connection.execute(_DELETE, name)
                return True

        return await self._postgres.run(work)

    async def _checked(self, name: str, record: Record) -> Record:
        """Return a record whose declaration is the one that was stored."""
        if record.declared is not None:
            await self.open(name, record)
        return record

    async def _put(self, name: str, record: Record, value: JSON, bind: Bind) -> Change:
        text = msgspec.json.encode(value)

        async def store(key: DataKey) -> Change:
            async def work(connection: Any) -> Change:
                async with connection.transaction():
                    await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                    row = await connection.fetchrow(_GET, name)
                    before = None if row is None else read_row(tuple(row))[1]
                    after = sealed_by(
                        key,
                        name,
                        msgspec.structs.replace(record, bound=bind(before)),
                        text,
                    )
                    await connection.execute(_PUT, *row_of(name, after))
                return Change(after, before is not None)

            return await self._postgres.run(work)

        return await self._keys.sealing(store)


def sealed_by(key: DataKey, name: str, record: Record, text: bytes) -> Record:
    """Return the record with a value that the key seals."""
    sealed = base64.b64encode(key.seal(text, purpose_of(name, record))).decode()
    return msgspec.structs.replace(record, sealed=sealed, key=key.key_id)


def purpose_of(name: str, record: Record) -> str:
    """Return what the seal of an entry covers besides its value."""
    about: list[JSON] = [record.kind, record.fields, record.updated_at]
    about += [record.bound, record.declared]
    return msgspec.json.encode(["keychain", name, *about], order="sorted").decode()


def read_row(row: tuple[Any, ...]) -> tuple[str, Record]:
    """Return name and record of a row. Raises ``SecretError`` if it is malformed."""
    name, kind, fields, updated_at, bound, declared, key, sealed = row
    try:
        record = Record(
            kind,
            None if fields is None else msgspec.json.decode(fields, type=list[str]),
            updated_at,
            base64.b64encode(sealed).decode(),
            msgspec.json.decode(bound, type=tuple[str, ...]),
            None
            if declared is None
            else msgspec.json.decode(declared, type=dict[str, str]),
            key,
        )
    except msgspec.MsgspecError:
        message = f"'{name:.80}' in the keychain of the cluster is damaged"
        raise SecretError("secret.sealed", message) from None
    return name, record


def row_of(name: str, record: Record) -> tuple[Any, ...]:
    return (
        name,
        record.kind,
        _text(record.fields),
        record.updated_at,
        _text(record.bound),
        _text(record.declared),
        record.key,
        base64.b64decode(record.sealed),
    )


def _text(value: JSON) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


class WithHome:
    """Keychain of a cluster, before the entries that a server still has in its home.

    They are read until ``noetl keychain move`` has moved them; changes go to the
    cluster.
    """

    def __init__(self, cluster: ClusterKeychain, home: Keychain) -> None:
        self._cluster = cluster
        self._home = home

    async def get(self, name: str) -> Record | None:
        return await self._cluster.get(name) or await self._home.get(name)

    async def list(self) -> dict[str, Record]:
        found = {**await self._home.list(), **await self._cluster.list()}
        return dict(sorted(found.items()))

    async def open(self, name: str, record: Record) -> JSON:
        keychain: Keychain = self._home if record.key is None else self._cluster
        return await keychain.open(name, record)

    async def set(
        self,
        name: str,
        value: JSON,
        kind: str,
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        known = await self._home.get(name)
        change = await self._cluster.set(name, value, kind, now, _over(known, bind))
        return await self._replaced(change, known)

    async def declare(
        self,
        name: str,
        kind: str,
        fields: Mapping[str, str],
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        known = await self._home.get(name)
        declare = self._cluster.declare
        change = await declare(name, kind, fields, now, _over(known, bind))
        return await self._replaced(change, known)

    async def delete(
        self, name: str, may: Callable[[Record], bool] = may_always
    ) -> bool:
        found = await self._cluster.delete(name, may)
        return await self._home.delete(name, may) or found

    async def _replaced(self, change: Change, known: Record | None) -> Change:
        return Change(change.record, change.replaced or known is not None)


def _over(known: Record | None, bind: Bind) -> Bind:
    return lambda before: bind(before or known)
