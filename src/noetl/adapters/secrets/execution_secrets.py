"""Secrets of running executions, sealed: in files, in rows, or in memory."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.data_keys import KeyRemoved
from noetl.adapters.secrets.private_files import make_folder, write_private
from noetl.errors import SecretError
from noetl.types import JSON

if TYPE_CHECKING:  # a run without a cluster has no driver
    from noetl.adapters.secrets.data_keys import DataKey, DataKeys


class SealedFiles:
    """Writes each file atomically."""

    def __init__(self, folder: Path, cipher: Cipher) -> None:
        self._folder = folder
        self._cipher = cipher

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        await asyncio.to_thread(self._save, execution_id, name, value)

    async def load(self, execution_id: str) -> dict[str, JSON]:
        folder = self._folder / execution_id
        if not folder.is_dir():
            return {}
        return await asyncio.to_thread(self._load, folder)

    async def drop(self, execution_id: str) -> None:
        folder = self._folder / execution_id
        if folder.is_dir():
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def kept(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return await asyncio.to_thread(os.listdir, self._folder)

    def _save(self, execution_id: str, name: str, value: JSON) -> None:
        folder = self._folder / execution_id
        try:
            if not folder.is_dir():
                make_folder(self._folder)
                make_folder(folder)
            text = msgspec.json.encode(value)
            sealed = self._cipher.seal(text, f"{execution_id}/{name}")
            write_private(folder / name, sealed)
        except OSError as error:
            message = f"a secret cannot be sealed in {folder}: {error.strerror}"
            raise SecretError("secret.sealed", message) from None

    def _load(self, folder: Path) -> dict[str, JSON]:
        found: dict[str, JSON] = {}
        for path in sorted(folder.iterdir()):
            if path.name.startswith("."):
                continue  # left by a process that was killed while it wrote
            try:
                text = self._cipher.open(
                    path.read_bytes(), f"{folder.name}/{path.name}"
                )
            except SecretError as error:
                message = f"the sealed secrets of {folder.name} cannot be opened: "
                raise SecretError(error.kind, message + error.message) from None
            found[path.name] = msgspec.json.decode(text)
        return found


class MemorySealed:
    def __init__(self) -> None:
        self._kept: dict[str, dict[str, JSON]] = {}

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        self._kept.setdefault(execution_id, {})[name] = value

    async def load(self, execution_id: str) -> dict[str, JSON]:
        return dict(self._kept.get(execution_id, {}))

    async def drop(self, execution_id: str) -> None:
        self._kept.pop(execution_id, None)

    async def kept(self) -> list[str]:
        return list(self._kept)


_SAVE = (
    "INSERT INTO sealed (execution_id, name, value, key_id) VALUES ($1, $2, $3, $4) "
    "ON CONFLICT (execution_id, name) "
    "DO UPDATE SET value = excluded.value, key_id = excluded.key_id"
)
_LOAD = "SELECT name, value, key_id FROM sealed WHERE execution_id = $1"
_DROP = "DELETE FROM sealed WHERE execution_id = $1"
_KEPT = "SELECT DISTINCT execution_id FROM sealed"


class SealedRows:
    """Secrets in rows of PostgreSQL, sealed with the keys of the keychain."""

    def __init__(self, keys: DataKeys) -> None:
        self._postgres = keys.postgres
        self._keys = keys

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        text = msgspec.json.encode(value)

        async def store(key: DataKey) -> None:
            sealed = key.seal(text, f"{execution_id}/{name}")
            row = (execution_id, name, sealed, key.key_id)
            await self._postgres.fetch(_SAVE, *row)

        await self._keys.sealing(store)

    async def load(self, execution_id: str) -> dict[str, JSON]:
        rows = await self._postgres.fetch(_LOAD, execution_id)
        try:
            keys = [await self._keys.get(used) for *_, used in rows]
        except KeyRemoved:
            rows = await self._postgres.fetch(_LOAD, execution_id)
            keys = [await self._keys.get(used) for *_, used in rows]
        found: dict[str, JSON] = {}
        for (name, sealed, _), key in zip(rows, keys, strict=True):
            try:
                text = key.open(sealed, f"{execution_id}/{name}")
            except SecretError as error:
                message = f"the sealed secrets of {execution_id} cannot be opened: "
                raise SecretError(error.kind, message + error.message) from None
            found[name] = msgspec.json.decode(text)
        return found

    async def drop(self, execution_id: str) -> None:
        await self._postgres.fetch(_DROP, execution_id)

    async def kept(self) -> list[str]:
        return [name for (name,) in await self._postgres.fetch(_KEPT)]
