"""Providers by kind of keychain entry, also those of secrets that an admin declares."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping

import msgspec

from noetl.access.secrets import disagreements, find_declared
from noetl.adapters.network import Network
from noetl.adapters.plugins.tool_guard import GuardedProvider
from noetl.adapters.secrets.by_path import (
    DEFAULT,
    CredentialProvider,
    SecretManager,
    chosen,
)
from noetl.adapters.secrets.oauth2 import OAuth2Provider
from noetl.adapters.secrets.providers import (
    CloudProvider,
    EnvProvider,
    FileProvider,
    read_aws,
    read_azure,
    read_gcp,
)
from noetl.adapters.secrets.vault import VaultProvider
from noetl.dsl.grammar.keychain import KEYCHAIN, KeychainKind
from noetl.engine.times import rfc3339
from noetl.errors import SecretError
from noetl.plugins import SecretPlugin
from noetl.ports import SecretProvider, Wanted
from noetl.ports.keychain import Keychain, Record, find, visible
from noetl.types import JSON

_NAME = re.compile(r"[\w.-]{1,80}")


class HostKind(msgspec.Struct, frozen=True):
    """Kind that reads the host or uses an operator's credential."""

    about: KeychainKind
    provider: SecretProvider


class KeptSecrets:
    """Finds a secret by name: a stored value, or that of a declared entry."""

    def __init__(self, stored: Keychain, hosts: Mapping[str, HostKind]) -> None:
        self.stored = stored
        self._hosts = hosts

    async def get(self, wanted: Wanted) -> JSON:
        name = str(wanted.fields.get("path") or wanted.name)
        record = await find(self.stored, name, wanted.playbook)
        if record.declared is None:
            return await self.stored.open(name, record)
        return await self.follow(wanted, name, record, frozenset({"path"}))

    async def remember(self, wanted: Wanted, old: str, new: str) -> None:
        """Replace the refresh token of a stored credential, unless it is another one
        by now. Its bindings are kept."""
        if wanted.fields.get("provider") not in (None, DEFAULT):
            return
        name = str(wanted.fields.get("path") or wanted.name)
        record = await find(self.stored, name, wanted.playbook)
        if record.declared is not None:
            return
        value = await self.stored.open(name, record)
        if isinstance(value, Mapping) and value.get("refresh_token") == old:
            value = {**value, "refresh_token": new}
            await self.stored.set(name, value, record.kind, rfc3339(time.time()))

    async def follow(
        self, wanted: Wanted, name: str, record: Record, naming: frozenset[str]
    ) -> JSON:
        """Return the value of a declared entry; ``naming`` are fields with its name.

        A playbook can only choose a part of the value. Raises ``SecretError``.
        """
        declared = record.declared or {}
        host = self._hosts.get(record.kind)
        if host is None:
            message = f"'{name}' is declared with the kind {record.kind}, but no "
            message += "enabled plug-in provides that"
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
    """Host kind of a server: it reads only entries that an admin has declared."""

    def __init__(self, kind: str, kept: KeptSecrets) -> None:
        self._kind = kind
        self._kept = kept

    async def get(self, wanted: Wanted) -> JSON:
        records = visible(await self._kept.stored.list(), wanted.playbook)
        kinds = {
            name: record.kind
            for name, record in records.items()
            if record.declared is not None
        }
        found = find_declared(self._kind, wanted.name, wanted.fields, kinds)
        if found is None:
            raise SecretError("keychain.unresolved", _undeclared(self._kind, wanted))
        name, naming = found
        record = await find(self._kept.stored, name, wanted.playbook)
        return await self._kept.follow(wanted, name, record, naming)


def _undeclared(kind: str, wanted: Wanted) -> str:
    """Return the message; it does not reveal entries declared for other playbooks."""
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


class Providers(Mapping[str, SecretProvider]):
    """Built-in providers, and those of enabled plug-ins (KEY-02).

    With ``declared_only``, kinds that read the host or use a credential of its operator
    read only entries that an admin has declared, and a playbook cannot send a stored
    credential to another address (S-81). ``network`` limits the addresses of playbooks
    and of stored credentials.
    """

    def __init__(
        self,
        stored: Keychain,
        environ: Mapping[str, str] = os.environ,
        plugins: Mapping[str, SecretPlugin] | None = None,
        *,
        declared_only: bool = False,
        network: Network | None = None,
    ) -> None:
        hosts = _host_kinds(environ, plugins or {})
        kept = KeptSecrets(stored, hosts)
        manager = SecretManager(self)
        credentials = CredentialProvider(manager, fixed=declared_only)
        self._providers: dict[str, SecretProvider] = {
            "stored": kept,
            "secret_manager": manager,
            "postgres_credential": credentials,
            "http_credential": credentials,
            "oauth2": OAuth2Provider(
                manager,
                fixed=declared_only,
                network=network,
                remember=kept.remember,
            ),
        }
        for kind, host in hosts.items():
            declared = DeclaredOnly(kind, kept) if declared_only else None
            self._providers[kind] = declared or host.provider

    def __getitem__(self, kind: str) -> SecretProvider:
        return self._providers[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._providers)

    def __len__(self) -> int:
        return len(self._providers)


def _host_kinds(
    environ: Mapping[str, str], plugins: Mapping[str, SecretPlugin]
) -> dict[str, HostKind]:
    """Return the kinds that read the machine or use its operator's credential."""
    builtin: dict[str, SecretProvider] = {
        "env": EnvProvider(environ),
        "file": FileProvider(),
        "vault": VaultProvider(environ),
        "aws": CloudProvider("aws", read_aws),
        "gcp": CloudProvider("gcp", read_gcp),
        "azure": CloudProvider("azure", read_azure),
    }
    found = {kind: HostKind(KEYCHAIN[kind], each) for kind, each in builtin.items()}
    for kind, plugin in plugins.items():
        found[kind] = HostKind(plugin.kind, GuardedProvider(kind, plugin))
    return found
