"""Stored keychain: names in plain text, values sealed (``noetl keychain``)."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.private_files import make_folder, write_private
from noetl.errors import SecretError
from noetl.ports.keychain import (
    Bind,
    Change,
    Record,
    fields_of,
    keep_bindings,
    may_always,
)
from noetl.types import JSON


class StoredKeychain:
    """Keychain in one file, which processes change under a lock."""

    def __init__(self, path: Path, cipher: Cipher) -> None:
        self._path = path
        self._cipher = cipher

    def open(self, name: str, record: Record) -> JSON:
        """Return the value of a sealed record. Raises ``SecretError``."""
        try:
            text = self._cipher.open(base64.b64decode(record.sealed), name)
        except SecretError as error:
            message = f"'{name}' in {self._path}: {error.message}"
            raise SecretError(error.kind, message) from None
        return msgspec.json.decode(text)

    def list(self) -> dict[str, Record]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Record])
        except FileNotFoundError:
            return {}
        except OSError as error:
            message = f"{self._path} cannot be read: {error.strerror}"
            raise SecretError("secret.sealed", message) from None
        except msgspec.DecodeError:
            message = f"{self._path} is not a keychain"
            raise SecretError("secret.sealed", message) from None

    def set(
        self,
        name: str,
        value: JSON,
        kind: str,
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        """Seal and store a secret, or replace one."""
        text = msgspec.json.encode(value)
        sealed = base64.b64encode(self._cipher.seal(text, name)).decode()
        return self._put(name, Record(kind, fields_of(value), now, sealed), bind)

    def declare(
        self,
        name: str,
        kind: str,
        fields: Mapping[str, str],
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        """Declare the place of a secret of the host, or replace a declaration."""
        record = Record(kind, sorted(fields), now, "", declared=dict(fields))
        return self._put(name, record, bind)

    def delete(self, name: str, may: Callable[[Record], bool] = may_always) -> bool:
        """Delete a secret; returns whether one existed that the caller may delete."""
        with self._changing() as records:
            if name not in records or not may(records[name]):
                return False
            del records[name]
            return True

    def _put(self, name: str, record: Record, bind: Bind) -> Change:
        with self._changing() as records:
            before = records.get(name)
            after = msgspec.structs.replace(record, bound=bind(before))
            records[name] = after
        return Change(after, before is not None)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Record]]:
        make_folder(self._path.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        lock = os.open(self._path.with_name(f"{self._path.name}.lock"), flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            records = self.list()
            yield records
            ordered = dict(sorted(records.items()))
            write_private(self._path, msgspec.json.encode(ordered))
        finally:
            os.close(lock)


class HomeKeychain:
    """Keychain of a home, for asynchronous code: files are read and locked on
    threads."""

    def __init__(self, stored: StoredKeychain) -> None:
        self.stored = stored

    async def get(self, name: str) -> Record | None:
        return (await self.list()).get(name)

    async def list(self) -> dict[str, Record]:
        return await asyncio.to_thread(self.stored.list)

    async def open(self, name: str, record: Record) -> JSON:
        return await asyncio.to_thread(self.stored.open, name, record)

    async def set(
        self,
        name: str,
        value: JSON,
        kind: str,
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        return await asyncio.to_thread(self.stored.set, name, value, kind, now, bind)

    async def declare(
        self,
        name: str,
        kind: str,
        fields: Mapping[str, str],
        now: str,
        bind: Bind = keep_bindings,
    ) -> Change:
        declare = self.stored.declare
        return await asyncio.to_thread(declare, name, kind, fields, now, bind)

    async def delete(
        self, name: str, may: Callable[[Record], bool] = may_always
    ) -> bool:
        return await asyncio.to_thread(self.stored.delete, name, may)
