"""Kept secrets, and entries that an admin has declared for what the host can reach."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from noetl.access.secrets import disagreements, find_declared
from noetl.adapters.secrets.fields import chosen
from noetl.adapters.secrets.stored import Record, StoredKeychain
from noetl.dsl.grammar.keychain import KeychainKind
from noetl.errors import SecretError
from noetl.ports import SecretProvider, Wanted
from noetl.types import JSON

_NAME = re.compile(r"[\w.-]{1,80}")


class HostKind(msgspec.Struct, frozen=True):
    """A kind that reads the host or uses an operator's credential."""

    about: KeychainKind
    provider: SecretProvider


class KeptSecrets:
    """Answers by name: a stored value, or what a declared entry leads to."""

    def __init__(self, stored: StoredKeychain, hosts: Mapping[str, HostKind]) -> None:
        self.stored = stored
        self._hosts = hosts

    async def get(self, wanted: Wanted) -> JSON:
        name = str(wanted.fields.get("path") or wanted.name)
        record = self.stored.find(name, wanted.playbook)
        if record.declared is None:
            return self.stored.open(name, record)
        return await self.follow(wanted, name, record, frozenset({"path"}))

    async def follow(
        self, wanted: Wanted, name: str, record: Record, naming: frozenset[str]
    ) -> JSON:
        """What a declared entry leads to; ``naming`` are the fields that named it.

        The playbook chooses a part of it at most. Raises ``SecretError``.
        """
        declared = record.declared or {}
        host = self._hosts.get(record.kind)
        if host is None:
            message = f"'{name}' is declared with the kind {record.kind}, and no "
            message += "enabled plug-in brings that"
            raise SecretError("secret.wrong", message)
        given = {k: v for k, v in wanted.fields.items() if k not in naming}
        known = None if host.about.open else host.about.fields
        if wrong := disagreements(given, declared, known):
            fields = ", ".join(f"'{each}'" for each in wrong)
            message = f"'{name}' was declared by an admin, and the playbook cannot "
            message += f"change where it leads: leave out {fields}"
            raise SecretError("secret.denied", message)
        asked = Wanted(name, record.kind, declared, None, wanted.fresh)
        value = await host.provider.get(asked)
        chosen_by = {k: v for k, v in given.items() if k not in declared}
        part = msgspec.structs.replace(wanted, fields=chosen_by)
        return chosen(part, value, f"'{name}'")


class DeclaredOnly:
    """A host kind of a server: it leads only where an admin has declared it to."""

    def __init__(self, kind: str, kept: KeptSecrets) -> None:
        self._kind = kind
        self._kept = kept

    async def get(self, wanted: Wanted) -> JSON:
        records = self._kept.stored.visible(wanted.playbook)
        kinds = {
            name: record.kind
            for name, record in records.items()
            if record.declared is not None
        }
        found = find_declared(self._kind, wanted.name, wanted.fields, kinds)
        if found is None:
            raise SecretError("keychain.unresolved", _undeclared(self._kind, wanted))
        name, naming = found
        return await self._kept.follow(wanted, name, records[name], naming)


def _undeclared(kind: str, wanted: Wanted) -> str:
    """The same whether nothing is declared, or only for other playbooks."""
    name = wanted.name if _NAME.fullmatch(wanted.name) else "NAME"
    where = "variable" if kind == "env" else "path"
    folder = (wanted.playbook or "").rpartition("/")[0]
    place = f"{folder}/*" if folder else wanted.playbook or "*"
    return (
        f"on a server, kind {kind} works only through an entry that an admin has "
        f"declared, and none is declared for the playbook '{wanted.playbook}'; "
        f"an admin can run: noetl keychain declare {name} --kind {kind} "
        f"--field {where}=… --for '{place}'"
    )
