"""Secrets of running executions: a folder for each, a sealed file for each secret."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import msgspec

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.private_files import sync_folder, write_private
from noetl.errors import SecretError
from noetl.types import JSON


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
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                sync_folder(self._folder)
                sync_folder(self._folder.parent)
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
