"""The keyring of a home: its providers, and the sealed secrets of executions."""

from __future__ import annotations

from noetl.adapters.network import Network
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.execution_secrets import SealedFiles
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.adapters.secrets.registry import Providers
from noetl.local.home import Home
from noetl.runtime.keychain import Keyring


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
    cipher = Cipher(home.key)
    stored = StoredKeychain(home.keychain, cipher)
    providers = Providers(
        stored, plugins=plugins.secrets, declared_only=declared_only, network=network
    )
    return Keyring(providers, SealedFiles(home.sealed, cipher))
