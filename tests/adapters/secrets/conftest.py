"""Providers with a home of their own, and an environment that is empty at first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import HomeKeychain, StoredKeychain
from noetl.adapters.secrets.registry import Providers
from noetl.ports import Wanted

Ask = Callable[..., Any]


@pytest.fixture
def stored(tmp_path: Path) -> StoredKeychain:
    return StoredKeychain(tmp_path / "keychain.json", Cipher(tmp_path / "key"))


@pytest.fixture
def environ() -> dict[str, str]:
    """What providers see of the environment."""
    return {}


@pytest.fixture
def providers(stored: StoredKeychain, environ: dict[str, str]) -> Providers:
    return Providers(HomeKeychain(stored), environ)


@pytest.fixture
def ask(providers: Providers, tmp_path: Path) -> Ask:
    """``ask(kind, name, **fields)``: what the provider of the kind answers."""

    def get(kind: str, name: str = "it", *, fresh: bool = False, **fields: Any) -> Any:
        wanted = Wanted(name, kind, fields, str(tmp_path), fresh)
        return asyncio.run(providers[kind].get(wanted))

    return get


@pytest.fixture
def peer(secret_peer: str) -> str:
    return secret_peer
