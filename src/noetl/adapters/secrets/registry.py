"""Which provider works for which kind of keychain entry."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

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
from noetl.ports import SecretProvider

GROUP = "noetl.secrets"
"""Entry points of other packages: a kind, and a function that makes its provider."""


class Providers(Mapping[str, SecretProvider]):
    """Those that are built in, and those that other packages bring (KEY-02)."""

    def __init__(
        self, stored: StoredKeychain, environ: Mapping[str, str] = os.environ
    ) -> None:
        manager = SecretManager(self)
        self._built_in: dict[str, SecretProvider] = {
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

    def __getitem__(self, kind: str) -> SecretProvider:
        if kind not in self._built_in:
            from importlib.metadata import entry_points  # slow, and seldom needed

            for found in entry_points(group=GROUP, name=kind):
                self._built_in[kind] = found.load()()
        return self._built_in[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)
