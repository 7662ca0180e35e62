"""A token endpoint, a Vault and an echo, on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PEER = Path(__file__).parent / "peers" / "secrets.py"


@pytest.fixture(scope="session")
def secret_peer() -> Iterator[str]:
    """The address of ``peers/secrets.py``."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-I", str(PEER)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdout is not None
        yield f"http://127.0.0.1:{int(program.stdout.readline())}"
        program.communicate()  # ends its input, and so the peer
