"""Providers with a home of their own, and who gives out secrets, on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.secrets.cipher import Cipher
from noetl.adapters.secrets.registry import Providers
from noetl.adapters.secrets.stored import StoredKeychain
from noetl.ports import Wanted

PEER = Path(__file__).parents[3] / "peers" / "secrets.py"

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
    return Providers(stored, environ)


@pytest.fixture
def ask(providers: Providers, tmp_path: Path) -> Ask:
    """``ask(kind, name, **fields)``: what the provider of the kind answers."""

    def get(kind: str, name: str = "it", *, fresh: bool = False, **fields: Any) -> Any:
        wanted = Wanted(name, kind, fields, str(tmp_path), fresh)
        return asyncio.run(providers[kind].get(wanted))

    return get


@pytest.fixture(scope="session")
def peer() -> Iterator[str]:
    """The address of a token endpoint and a Vault."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", str(PEER)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout is not None
        yield f"http://127.0.0.1:{int(program.stdout.readline())}"
        program.communicate()  # ends its input, and so the peer
