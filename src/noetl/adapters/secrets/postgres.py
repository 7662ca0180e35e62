"""Secrets of running executions, sealed, in PostgreSQL, for a cluster."""

from __future__ import annotations

import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.sql_files import read_migrations
from noetl.errors import SecretError
from noetl.types import JSON

_SAVE = (
    "INSERT INTO sealed (execution_id, name, value) VALUES ($1, $2, $3) "
    "ON CONFLICT (execution_id, name) DO UPDATE SET value = excluded.value"
)
_LOAD = "SELECT name, value FROM sealed WHERE execution_id = $1"
_DROP = "DELETE FROM sealed WHERE execution_id = $1"
_KEPT = "SELECT DISTINCT execution_id FROM sealed"


class SealedRows:
    """All servers must have the same key, as a file in their home folders."""

    def __init__(self, postgres: Postgres, cipher: Cipher) -> None:
        self._postgres = postgres
        self._cipher = cipher

    async def open(self) -> None:
        steps = read_migrations("noetl.adapters.secrets")
        await self._postgres.migrate("secrets", steps)

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        text = msgspec.json.encode(value)
        sealed = self._cipher.seal(text, f"{execution_id}/{name}")
        await self._postgres.fetch(_SAVE, execution_id, name, sealed)

    async def load(self, execution_id: str) -> dict[str, JSON]:
        found: dict[str, JSON] = {}
        for name, sealed in await self._postgres.fetch(_LOAD, execution_id):
            try:
                text = self._cipher.open(sealed, f"{execution_id}/{name}")
            except SecretError as error:
                message = f"the sealed secrets of {execution_id} cannot be opened: "
                raise SecretError(error.kind, message + error.message) from None
            found[name] = msgspec.json.decode(text)
        return found

    async def drop(self, execution_id: str) -> None:
        await self._postgres.fetch(_DROP, execution_id)

    async def kept(self) -> list[str]:
        return [name for (name,) in await self._postgres.fetch(_KEPT)]
