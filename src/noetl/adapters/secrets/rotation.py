"""A new key for a cluster's keychain: what older keys seal is sealed anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import asyncpg

from noetl.adapters.secrets.aes_gcm import GivenKey
from noetl.adapters.secrets.cluster_keychain import COLUMNS, purpose_of, read_row
from noetl.adapters.secrets.data_keys import SERVER, DataKey, DataKeys
from noetl.errors import SecretError, StoreError
from noetl.ports.keychain import SealingKey

log = logging.getLogger("noetl.server")

BATCH = 100
"""Rows that one transaction seals anew."""
PAUSE_S = 5.0
"""Seconds between two looks for a new key."""
_ENTRIES = f"""
SELECT {COLUMNS} FROM keychain WHERE name > $1 AND key_id <> $2
ORDER BY name LIMIT $3 FOR UPDATE SKIP LOCKED
"""
_SEAL_ENTRY = "UPDATE keychain SET key_id = $2, sealed = $3 WHERE name = $1"
_SECRETS = """
SELECT execution_id, name, key_id, value FROM sealed
WHERE (execution_id, name) > ($1, $2) AND key_id IS DISTINCT FROM $3
ORDER BY execution_id, name LIMIT $4 FOR UPDATE SKIP LOCKED
"""
_SEAL_SECRET = """
UPDATE sealed SET key_id = $3, value = $4 WHERE execution_id = $1 AND name = $2
"""
_SERVER_KEY = """
SELECT key_id, sealed FROM server_key WHERE key_id <> $1 FOR UPDATE SKIP LOCKED
"""
_SEAL_SERVER_KEY = "UPDATE server_key SET key_id = $1, sealed = $2"
_COUNT = "SELECT count(*) FROM data_key"
# A foreign key keeps a key that a server uses in this moment.
_REMOVE = """
DELETE FROM data_key AS d WHERE number < (SELECT max(number) FROM data_key)
  AND NOT EXISTS (SELECT FROM keychain AS k WHERE k.key_id = d.key_id)
  AND NOT EXISTS (SELECT FROM sealed AS s WHERE s.key_id = d.key_id)
  AND NOT EXISTS (SELECT FROM server_key AS k WHERE k.key_id = d.key_id)
  AND NOT EXISTS (SELECT FROM sealed AS s WHERE s.key_id IS NULL)
"""
Last = tuple[str, ...]


class Rotation:
    """Rotation of the keys of a cluster.

    All that it knows is in the database: any server goes on with it, and none repeats
    a row that is done. Several may work at the same time.
    """

    def __init__(self, keys: DataKeys) -> None:
        self._postgres = keys.postgres
        self._keys = keys
        self._begun = asyncio.Event()
        self._told: set[str] = set()

    async def keys(self) -> Sequence[SealingKey]:
        return await self._keys.listed()

    async def begin(self) -> SealingKey:
        await self._keys.add()
        self._begun.set()
        return (await self._keys.listed())[0]

    async def serve(self) -> None:
        while True:
            try:
                if await self._is_due():
                    await self.seal_anew()
            except SecretError as error:
                self._tell(f"the key is not changed: {error.message}")
            self._begun.clear()
            try:
                await asyncio.wait_for(self._begun.wait(), PAUSE_S)
            except TimeoutError:
                continue

    async def _is_due(self) -> bool:
        [(count,)] = await self._postgres.fetch(_COUNT)
        return bool(count > 1)

    async def seal_anew(self) -> None:
        """Seal everything with the newest key; remove the keys that are left unused.

        What does not open stays as it is, with its key.
        """
        newest, *older = [await self._keys.get(k.key_id) for k in await self.keys()]
        old = {each.key_id: each for each in older}
        try:
            for batch in (self._entries, self._secrets):
                last: Last | None = ("", "")
                while last is not None:
                    last = await batch(newest, old, last)
            await self._server_key(newest, old)
            await self._postgres.fetch(_REMOVE)
        except StoreError as error:
            if not isinstance(error.__cause__, asyncpg.ForeignKeyViolationError):
                raise  # else a key came into use, or went out of it: look again

    async def _entries(
        self, newest: DataKey, old: dict[str, DataKey], last: Last
    ) -> Last | None:
        async def work(connection: Any) -> Last | None:
            async with connection.transaction():
                rows = await connection.fetch(_ENTRIES, last[0], newest.key_id, BATCH)
                for row in rows:
                    name = row["name"]
                    try:
                        record = read_row(tuple(row))[1]
                    except SecretError as error:
                        self._tell(error.message)
                        continue
                    sealed = self._sealed(
                        f"'{name}'",
                        row["sealed"],
                        purpose_of(name, record),
                        newest,
                        old.get(row["key_id"]),
                    )
                    if sealed is not None:
                        found = (name, newest.key_id, sealed)
                        await connection.execute(_SEAL_ENTRY, *found)
            return (rows[-1]["name"],) if rows else None

        return await self._postgres.run(work)

    async def _secrets(
        self, newest: DataKey, old: dict[str, DataKey], last: Last
    ) -> Last | None:
        oldest = await self._keys.get(None)

        async def work(connection: Any) -> Last | None:
            async with connection.transaction():
                rows = await connection.fetch(_SECRETS, *last, newest.key_id, BATCH)
                for execution_id, name, used, value in rows:
                    sealed = self._sealed(
                        f"a secret of {execution_id}",
                        value,
                        f"{execution_id}/{name}",
                        newest,
                        oldest if used is None else old.get(used),
                    )
                    if sealed is not None:
                        found = (execution_id, name, newest.key_id, sealed)
                        await connection.execute(_SEAL_SECRET, *found)
            return (rows[-1][0], rows[-1][1]) if rows else None

        return await self._postgres.run(work)

    async def _server_key(self, newest: DataKey, old: dict[str, DataKey]) -> None:
        async def work(connection: Any) -> None:
            async with connection.transaction():
                row = await connection.fetchrow(_SERVER_KEY, newest.key_id)
                if row is None:
                    return
                used, value = row
                sealed = self._sealed(
                    "the key of the servers", value, SERVER, newest, old.get(used)
                )
                if sealed is not None:
                    found = (newest.key_id, sealed)
                    await connection.execute(_SEAL_SERVER_KEY, *found)

        await self._postgres.run(work)

    def _sealed(
        self,
        what: str,
        sealed: bytes,
        purpose: str,
        newest: DataKey,
        key: GivenKey | None,
    ) -> bytes | None:
        """Return the value sealed with the newest key; None if it does not open, or if
        a still newer key has sealed it."""
        if key is None:
            return None
        try:
            return newest.seal(key.open(sealed, purpose), purpose)
        except SecretError:
            self._tell(f"{what} does not open, and keeps its key")
            return None

    def _tell(self, what: str) -> None:
        if what not in self._told:
            self._told.add(what)
            log.error("rotation of the keychain: %s", what)
