"""Keychain and keyring of a home, and the keychain of a cluster."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from noetl.adapters.network import Network
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.secrets.aes_gcm import AesGcm, Cipher
from noetl.adapters.secrets.execution_secrets import SealedFiles
from noetl.adapters.secrets.home_keychain import HomeKeychain, StoredKeychain
from noetl.adapters.secrets.registry import Providers
from noetl.config import KEYCHAIN_KEY, Settings
from noetl.errors import ConfigError, SecretError
from noetl.local.home import Home
from noetl.ports.keychain import Keychain
from noetl.runtime.keychain import Keyring

if TYPE_CHECKING:  # a home without a database has no driver
    from noetl.adapters.postgres import Postgres
    from noetl.adapters.secrets.data_keys import DataKeys
    from noetl.adapters.secrets.master_keys import MasterKey

log = logging.getLogger("noetl.server")


def make_keyring(
    home: Home,
    plugins: Plugins,
    *,
    declared_only: bool = False,
    network: Network | None = None,
) -> Keyring:
    """Make the keyring whose secrets are in files of the home.

    With ``declared_only`` playbooks use secrets of the host by declared names alone;
    ``network`` says what providers may reach.
    """
    providers = Providers(
        keychain_of(home),
        plugins=plugins.secrets,
        declared_only=declared_only,
        network=network,
    )
    return Keyring(providers, SealedFiles(home.sealed, Cipher(home.key)))


def master_key(home: Home, settings: Settings, plugins: Plugins) -> MasterKey:
    """Return the key that seals the keys of a cluster. Raises ``ConfigError``."""
    from noetl.adapters.secrets.master_keys import KeyTexts, open_master_key

    place = settings[KEYCHAIN_KEY]
    if place is not None:
        return open_master_key(place, plugins.keys)
    cipher = Cipher(home.key)
    return KeyTexts(str(home.key), cipher.read, cipher.make)


async def open_data_keys(
    home: Home, postgres: Postgres, plugins: Plugins, settings: Settings
) -> tuple[DataKeys, AesGcm]:
    """Open the keys of a cluster, and the cipher that its servers share.

    Raises ``StoreError``, or ``ConfigError`` if this server has another key.
    """
    from noetl.adapters.secrets.data_keys import DataKeys

    keys = DataKeys(postgres, master_key(home, settings, plugins))

    def seed() -> bytes | None:
        """Return the key by which earlier versions sealed secrets."""
        return Cipher(home.key).read() if home.key.exists() else None

    try:
        return keys, await keys.open(seed)
    except SecretError as error:
        message = f"the keychain of the cluster cannot be opened: {error.message}; "
        message += "give this server the same key as the others: see keychain_key"
        raise ConfigError(message) from None


def keychain_of(home: Home) -> Keychain:
    return HomeKeychain(StoredKeychain(home.keychain, Cipher(home.key)))


def shared_keychain(home: Home, keys: DataKeys) -> Keychain:
    """Return the keychain of the cluster, before entries that are only in this home."""
    from noetl.adapters.secrets.cluster_keychain import ClusterKeychain, WithHome

    left = StoredKeychain(home.keychain, Cipher(home.key))
    try:
        names = list(left.list())
    except SecretError as error:
        log.warning("the keychain of this home is not used: %s", error.message)
        return ClusterKeychain(keys)
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        message = "%d secrets are in the home of this server, where other servers do "
        message += "not see them (%s); run there: noetl keychain move"
        log.warning(message, len(names), shown)
    return WithHome(ClusterKeychain(keys), HomeKeychain(left))
