"""Keys of a cluster's keychain: rows of PostgreSQL, sealed by the operator's key."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from noetl.adapters.secrets.aes_gcm import GivenKey
from noetl.adapters.secrets.master_keys import SIZE, MasterKey
from noetl.adapters.sql_files import read_migrations
from noetl.engine.times import rfc3339
from noetl.errors import SecretError, StoreError
from noetl.ports.keychain import SealingKey

if TYPE_CHECKING:
    from noetl.adapters.postgres import Postgres

T = TypeVar("T")

FRESH_S = 5.0
"""Seconds for which a server believes that it knows the newest key."""
SERVER = "noetl: the key of the servers"
_PROOF = "noetl: the proof of a key"
_LOCK = 0x4E6F4B79  # "NoKy": serializes the making of keys
_EXISTS = "SELECT to_regclass('data_key') IS NOT NULL"
_NEWEST = "SELECT key_id FROM data_key ORDER BY number DESC LIMIT 1"
_ROW = "SELECT sealed_by, sealed, proof FROM data_key WHERE key_id = $1"
_ADD = "INSERT INTO data_key (key_id, sealed_by, sealed, proof) VALUES ($1, $2, $3, $4)"
_ALL = """
SELECT key_id, made_at, sealed_by,
  (SELECT count(*) FROM keychain AS k WHERE k.key_id = d.key_id)
    + (SELECT count(*) FROM sealed AS s WHERE s.key_id = d.key_id)
    + (SELECT count(*) FROM server_key AS k WHERE k.key_id = d.key_id)
FROM data_key AS d ORDER BY number DESC
"""
_SERVER_KEY = "SELECT key_id, sealed FROM server_key"
_ADD_SERVER_KEY = "INSERT INTO server_key (key_id, sealed) VALUES ($1, $2)"


class KeyRemoved(SecretError):
    """A rotation has removed the key: what it sealed is sealed by another one now."""


class DataKey(GivenKey):
    """Cipher of one row; it is never written anywhere in plain."""

    def __init__(self, key_id: str, key: bytes) -> None:
        super().__init__(key)
        self.key_id = key_id


class DataKeys:
    """Opened keys, by id. The newest one seals; all of them open."""

    def __init__(self, postgres: Postgres, master: MasterKey) -> None:
        self.postgres = postgres
        self._master = master
        self._opened: dict[str, DataKey] = {}
        self._newest: DataKey | None = None
        self._until = 0.0
        self._oldest: DataKey | None = None

    async def open(self, seed: Callable[[], bytes | None]) -> GivenKey:
        """Open all keys, and return the key of the servers.

        The first server of a cluster makes the keys; ``seed`` may return the key that
        sealed secrets before. Raises ``StoreError``, or ``SecretError`` if the
        operator's key does not open them.
        """
        steps = read_migrations("noetl.adapters.secrets")
        await self.postgres.migrate("secrets", steps)
        if not await self.postgres.fetch(_SERVER_KEY):
            await self._make_first(seed())
        try:
            return await self._open_all()
        except KeyRemoved:  # by the end of a rotation
            return await self._open_all()

    async def _open_all(self) -> GivenKey:
        for each in await self.listed():
            self._oldest = await self.get(each.key_id)
        [(used, sealed)] = await self.postgres.fetch(_SERVER_KEY)
        return GivenKey((await self.get(used)).open(sealed, SERVER))

    async def count(self) -> int:
        """Open all keys that exist, and return their number; nothing is made. Raises
        ``StoreError`` or ``SecretError``."""
        [(exists,)] = await self.postgres.fetch(_EXISTS)
        listed = await self.listed() if exists else []
        return len([await self.get(each.key_id) for each in listed])

    async def newest(self, *, again: bool = False) -> DataKey:
        """Return the key that seals. Raises ``StoreError`` or ``SecretError``."""
        if self._newest is None or again or time.monotonic() >= self._until:
            [(name,)] = await self.postgres.fetch(_NEWEST)
            self._newest = await self.get(name)
            self._until = time.monotonic() + FRESH_S
        return self._newest

    async def get(self, name: str | None) -> DataKey:
        """Return a key by its id; without an id the oldest one, which sealed what has
        none. Raises ``StoreError`` or ``SecretError``."""
        if name is None and self._oldest is not None:
            return self._oldest
        if name is None or name not in self._opened:
            rows = await self.postgres.fetch(_ROW, name)
            if not rows:
                message = f"the key {name} is not in the database any more"
                raise KeyRemoved("secret.sealed", message)
            key = DataKey(name or "", await self._master.open(*rows[0][:2]))
            _prove(key, rows[0][2], rows[0][0])
            self._opened[key.key_id] = key
        return self._opened[name or ""]

    async def sealing(self, store: Callable[[DataKey], Awaitable[T]]) -> T:
        """Call ``store`` with the key that seals. If that key has been removed since
        it was looked up, call ``store`` again with the newest one."""
        try:
            return await store(await self.newest())
        except StoreError as error:
            if not _is_removed(error):
                raise
            return await store(await self.newest(again=True))

    async def add(self) -> str:
        """Make a key, which seals from now on, and return its id.

        The operator's key must open what it has sealed: a service that answers
        something else is noticed before a secret is sealed. Raises ``SecretError``.
        """
        row = await self._sealed(secrets.token_bytes(SIZE))
        await self.postgres.fetch(_ADD, *row)
        self._until = 0.0
        return row[0]

    async def listed(self) -> Sequence[SealingKey]:
        """Return all keys, the newest one first."""
        rows = await self.postgres.fetch(_ALL)
        return [_shown(row, number == 0) for number, row in enumerate(rows)]

    async def _make_first(self, seed: bytes | None) -> None:
        name, sealed_by, sealed, proof = await self._sealed(
            seed or secrets.token_bytes(SIZE)
        )
        key = self._opened[name]
        server = key.seal(seed or secrets.token_bytes(SIZE), SERVER)

        async def work(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
                if await connection.fetchrow(_SERVER_KEY) is None:
                    await connection.execute(_ADD, name, sealed_by, sealed, proof)
                    await connection.execute(_ADD_SERVER_KEY, name, server)

        await self.postgres.run(work)  # if another server was first, its keys are used

    async def _sealed(self, key: bytes) -> tuple[str, str, bytes, bytes]:
        """Return the row of a new key."""
        sealed_by, sealed = await self._master.seal(key)
        if await self._master.open(sealed_by, sealed) != key:
            message = f"{sealed_by} sealed a key, and opened another one"
            raise SecretError("secret.sealed", message)
        made = DataKey(secrets.token_hex(8), key)
        self._opened[made.key_id] = made
        return made.key_id, sealed_by, sealed, made.seal(b"", _PROOF)


def _prove(key: DataKey, proof: bytes, sealed_by: str) -> None:
    """Raise ``SecretError`` if it is not the key that the row was made with."""
    try:
        if len(key.key) == SIZE:
            key.open(proof, _PROOF)
            return
    except SecretError:
        pass
    message = f"the key {key.key_id} of the keychain, sealed by {sealed_by}, opens as "
    raise SecretError("secret.sealed", f"{message}another key, or is damaged")


def _is_removed(error: StoreError) -> bool:
    import asyncpg

    return isinstance(error.__cause__, asyncpg.ForeignKeyViolationError)


def _shown(row: tuple[Any, ...], newest: bool) -> SealingKey:
    name, made_at, sealed_by, uses = row
    assert isinstance(made_at, datetime)
    return SealingKey(name, rfc3339(made_at.timestamp()), sealed_by, newest, uses)
