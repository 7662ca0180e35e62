"""Real PostgreSQL for tests: a server for each process, a database for each test."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

PEER = Path(__file__).parents[1] / "peers" / "postgres.py"
PASSWORD = "s3cret/of:tests"
_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[int]:
    """The port of a server; its user is ``postgres``."""
    with subprocess.Popen(
        [sys.executable, "-I", str(PEER)],
        env={**os.environ, "PGPASSWORD": PASSWORD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # an interrupt is for us; its input tells it to end
    ) as peer:
        assert peer.stdout is not None
        line = peer.stdout.readline()
        assert line, "PostgreSQL did not start"
        yield int(line)
        peer.communicate()


@pytest.fixture
def postgres(postgres_server: int) -> str:
    """The address of an empty database."""
    name = f"t{next(_numbers)}"
    secret = PASSWORD.replace("/", "%2F").replace(":", "%3A")
    base = f"postgresql://postgres:{secret}@127.0.0.1:{postgres_server}"

    async def create() -> None:
        import asyncpg

        connection = await asyncpg.connect(f"{base}/postgres")
        await connection.execute(f"CREATE DATABASE {name}")
        await connection.close()

    asyncio.run(create())
    return f"{base}/{name}"
