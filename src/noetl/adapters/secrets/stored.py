"""The stored keychain: names in the open, values sealed (``noetl keychain``)."""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from noetl.adapters.secrets.cipher import Cipher
from noetl.adapters.secrets.private import write_private
from noetl.dsl.diagnostics import nearest
from noetl.errors import SecretError
from noetl.ports import Wanted
from noetl.types import JSON


class Record(msgspec.Struct, frozen=True):
    """What is known of a secret without opening it."""

    kind: str
    fields: list[str] | None
    updated_at: str
    sealed: str


class StoredKeychain:
    """One file; several processes may change it, one after the other."""

    def __init__(self, path: Path, cipher: Cipher) -> None:
        self._path = path
        self._cipher = cipher

    async def get(self, wanted: Wanted) -> JSON:
        return self.read(str(wanted.fields.get("path") or wanted.name))

    def read(self, name: str) -> JSON:
        """The secret. Raises ``SecretError`` if there is none of this name."""
        records = self.list()
        if name not in records:
            match = nearest(name, records)
            known = f"; did you mean '{match}'?" if match else ""
            message = (
                f"the stored keychain {self._path} has no '{name}'{known}; store it "
                f"with: noetl keychain set {name}"
            )
            raise SecretError("secret.missing", message)
        try:
            text = self._cipher.open(base64.b64decode(records[name].sealed), name)
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

    def set(self, name: str, value: JSON, kind: str, now: str) -> bool:
        """Store it; whether it replaced another."""
        text = msgspec.json.encode(value)
        sealed = base64.b64encode(self._cipher.seal(text, name)).decode()
        fields = sorted(value) if isinstance(value, Mapping) else None
        with self._changing() as records:
            replaced = name in records
            records[name] = Record(kind, fields, now, sealed)
        return replaced

    def delete(self, name: str) -> bool:
        """Forget it; whether there was one."""
        with self._changing() as records:
            return records.pop(name, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Record]]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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
