"""Which provider works for which kind of keychain entry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from noetl.adapters.network import Network
from noetl.adapters.plugins.guards import GuardedProvider
from noetl.adapters.secrets.clouds import (
    CloudProvider,
    read_aws,
    read_azure,
    read_gcp,
)
from noetl.adapters.secrets.declared import DeclaredOnly, HostKind, KeptSecrets
from noetl.adapters.secrets.local import EnvProvider, FileProvider
from noetl.adapters.secrets.managers import CredentialProvider, SecretManager
from noetl.adapters.secrets.oauth2 import OAuth2Provider
from noetl.adapters.secrets.stored import StoredKeychain
from noetl.adapters.secrets.vault import VaultProvider
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.plugins import SecretPlugin
from noetl.ports import SecretProvider


class Providers(Mapping[str, SecretProvider]):
    """Those that are built in, and those of enabled plug-ins (KEY-02).

    With ``declared_only``, kinds that read the host or use a credential of its operator
    lead only where an admin has declared them to, and a playbook cannot send a kept
    credential to an address of its own (S-81). ``network`` is what addresses of
    playbooks and of stored credentials may reach.
    """

    def __init__(
        self,
        stored: StoredKeychain,
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
            "oauth2": OAuth2Provider(manager, fixed=declared_only, network=network),
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
    """Those that read the machine, or a service with the credential of its operator."""
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
