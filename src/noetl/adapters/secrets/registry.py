"""Which provider works for which kind of keychain entry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from noetl.adapters.plugins.guards import GuardedProvider
from noetl.adapters.secrets.clouds import (
    CloudProvider,
    read_aws,
    read_azure,
    read_gcp,
)
from noetl.adapters.secrets.local import EnvProvider, FileProvider
from noetl.adapters.secrets.managers import CredentialProvider, SecretManager
from noetl.adapters.secrets.oauth2 import OAuth2Provider
from noetl.adapters.secrets.stored import StoredKeychain
from noetl.adapters.secrets.vault import VaultProvider
from noetl.plugins import SecretPlugin
from noetl.ports import SecretProvider


class Providers(Mapping[str, SecretProvider]):
    """Those that are built in, and those of enabled plug-ins (KEY-02)."""

    def __init__(
        self,
        stored: StoredKeychain,
        environ: Mapping[str, str] = os.environ,
        plugins: Mapping[str, SecretPlugin] | None = None,
    ) -> None:
        manager = SecretManager(self)
        self._providers: dict[str, SecretProvider] = {
            "env": EnvProvider(environ),
            "file": FileProvider(),
            "stored": stored,
            "secret_manager": manager,
            "postgres_credential": CredentialProvider(manager),
            "http_credential": CredentialProvider(manager),
            "oauth2": OAuth2Provider(manager),
            "vault": VaultProvider(environ),
            "aws": CloudProvider("aws", read_aws),
            "gcp": CloudProvider("gcp", read_gcp),
            "azure": CloudProvider("azure", read_azure),
        }
        for kind, plugin in (plugins or {}).items():
            self._providers[kind] = GuardedProvider(kind, plugin)

    def __getitem__(self, kind: str) -> SecretProvider:
        return self._providers[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._providers)

    def __len__(self) -> int:
        return len(self._providers)
