"""Stored keychain: names in plain text, values sealed (``noetl keychain``)."""

from __future__ import annotations

import base64
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from noetl.access.secrets import EVERYWHERE, is_for
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.private_files import make_folder, write_private
from noetl.dsl.diagnostics import nearest
from noetl.errors import SecretError
from noetl.types import JSON


class Record(msgspec.Struct, frozen=True):
    """Description of a secret, with its sealed value.

    ``bound`` are the paths of the playbooks that may use it. ``declared`` are the
    fields of an entry that an admin has declared: it names the place of a secret, and
    has no sealed value.
    """

    kind: str
    fields: list[str] | None
    updated_at: str
    sealed: str
    bound: tuple[str, ...] = msgspec.field(default=(EVERYWHERE,), name="for")
    declared: dict[str, str] | None = None


class Change(msgspec.Struct, frozen=True):
    """New record, and whether it replaced another."""

    record: Record
    replaced: bool


Bind = Callable[[Record | None], tuple[str, ...]]
"""Returns the bindings of a record, given the one that is replaced. If it raises,
nothing is changed."""


def keep_bindings(before: Record | None) -> tuple[str, ...]:
    return before.bound if before is not None else (EVERYWHERE,)


class StoredKeychain:
    """Keychain in one file, which processes change under a lock."""

    def __init__(self, path: Path, cipher: Cipher) -> None:
        self._path = path
        self._cipher = cipher

    def read(self, name: str, path: str | None = None) -> JSON:
        """Return a secret for the playbook with this path. Raises ``SecretError``."""
        return self.open(name, self.find(name, path))

    def find(self, name: str, path: str | None) -> Record:
        """Return the record of a secret that the playbook may use.

        Raises ``SecretError``, with the same text for a missing secret and for one that
        is bound to other playbooks.
        """
        records = self.visible(path)
        if name not in records:
            match = nearest(name, records)
            known = f"; did you mean '{match}'?" if match else ""
            raise SecretError("secret.missing", _missing(name, path, known))
        return records[name]

    def visible(self, path: str | None) -> dict[str, Record]:
        """Return the records that the playbook with this path may use."""
        records = self.list().items()
        return {name: each for name, each in records if is_for(each.bound, path)}

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
        fields = sorted(value) if isinstance(value, Mapping) else None
        return self._put(name, Record(kind, fields, now, sealed), bind)

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

    def delete(self, name: str, may: Callable[[Record], bool] = lambda _: True) -> bool:
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


def _missing(name: str, path: str | None, known: str) -> str:
    where = f" for the playbook '{path}'" if path is not None else ""
    cure = f"store it with: noetl keychain set {name}"
    return f"the stored keychain has no '{name}'{where}{known}; {cure}"
