"""Real PostgreSQL for tests: one server for each process, emptied for each test."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

PEER = Path(__file__).parent / "peers" / "postgres.py"
PASSWORD = "s3cret/of:tests"
DROP = "DROP SCHEMA IF EXISTS noetl, kept CASCADE;"
PUBLIC = (
    "DROP SCHEMA public CASCADE; CREATE SCHEMA public;"
    "GRANT USAGE ON SCHEMA public TO public;"
)
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'noetl'::regnamespace
  AND relkind IN ('r', 'p') AND NOT relispartition
"""
SHAPE = """
SELECT md5(string_agg(line, '|' ORDER BY line)) FROM (
  SELECT concat_ws(' ', relname, relkind, relacl, reloptions) AS line FROM pg_class
    WHERE relnamespace IN (to_regnamespace('noetl'), to_regnamespace('kept'))
  UNION ALL SELECT concat_ws(' ', proname, proacl, md5(prosrc)) FROM pg_proc
    WHERE pronamespace = to_regnamespace('noetl')
  UNION ALL SELECT concat_ws(' ', tgrelid::regclass, tgname, tgenabled)
    FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT concat_ws(' ', attrelid::regclass, attname, atttypid, attnotnull)
    FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
    WHERE relnamespace = to_regnamespace('noetl') AND NOT attisdropped
) AS lines
"""
"""A digest of the tables, functions and rights of NoETL."""


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
    address = address_of(postgres_server)
    # A database of its own would cost 150 ms each time.
    asyncio.run(execute(address, DROP + PUBLIC))
    return address


@pytest.fixture(scope="session")
def log_server(postgres_server: int) -> LogDatabase:
    return LogDatabase(address_of(postgres_server))


def address_of(port: int) -> str:
    return f"postgresql://postgres:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres"


async def execute(address: str, script: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(address)
    await connection.execute(script)
    await connection.close()


class LogDatabase:
    """A database with the tables of the log, empty: to make them costs 40 ms of CPU."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._shape = ""
        self._clear = ""

    async def clear(self) -> None:
        """Remove all rows, or all tables if they are not as the log has them."""
        import asyncpg

        connection = await asyncpg.connect(self.address)
        if self._shape and await connection.fetchval(SHAPE) == self._shape:
            await connection.execute(self._clear)
        else:
            await connection.execute(DROP + PUBLIC)
            await self._make(connection)
        await connection.close()

    async def _make(self, connection: Any) -> None:
        from noetl.adapters.postgres import Postgres
        from noetl.adapters.stores.postgres import PostgresStore

        database = Postgres(self.address)
        await PostgresStore.open(database)
        await database.close()
        tables = [row[0] for row in await connection.fetch(TABLES)]
        filled = [
            name
            for name in tables
            if await connection.fetchval(f"SELECT count(*) FROM noetl.{name}")
        ]
        keep = "CREATE TABLE kept.{0} AS TABLE noetl.{0};"
        put_back = "INSERT INTO noetl.{0} TABLE kept.{0};"
        await connection.execute(
            "CREATE SCHEMA kept;" + "".join(keep.format(each) for each in filled)
        )
        self._shape = await connection.fetchval(SHAPE)
        self._clear = (
            "BEGIN; SET LOCAL session_replication_role = replica;"  # without triggers
            + "".join(f"DELETE FROM noetl.{each};" for each in tables)
            + "".join(put_back.format(each) for each in filled)
            + f"SELECT setval('noetl.execution_number_seq', 1, false); {PUBLIC} COMMIT"
        )
