"""Stored secrets, read as a playbook reads them."""

from __future__ import annotations

import asyncio

from noetl.adapters.secrets.home_keychain import HomeKeychain, StoredKeychain
from noetl.ports.keychain import Keychain, find
from noetl.types import JSON


async def read_from(keychain: Keychain, name: str, path: str | None = None) -> JSON:
    """Return a secret for the playbook with this path."""
    return await keychain.open(name, await find(keychain, name, path))


def read(stored: StoredKeychain, name: str, path: str | None = None) -> JSON:
    """Return a secret of a home."""
    return asyncio.run(read_from(HomeKeychain(stored), name, path))
