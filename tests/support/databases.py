"""Real PostgreSQL for tests: one server for each process, emptied for each test."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

PEER = Path(__file__).parent / "peers" / "postgres.py"
PASSWORD = "s3cret/of:tests"


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
    """The address of a database whose schema ``public`` is empty."""
    secret = quote(PASSWORD, safe="")
    address = f"postgresql://postgres:{secret}@127.0.0.1:{postgres_server}/postgres"

    async def empty() -> None:
        import asyncpg

        connection = await asyncpg.connect(address)
        # A database of its own would cost 150 ms each time.
        await connection.execute(
            "DROP SCHEMA IF EXISTS noetl CASCADE;"
            "DROP SCHEMA public CASCADE; CREATE SCHEMA public;"
            "GRANT USAGE ON SCHEMA public TO public"
        )
        await connection.close()

    asyncio.run(empty())
    return address
