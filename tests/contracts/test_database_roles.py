"""Roles of a PostgreSQL: servers add to the log, and no role changes it (B9)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import asyncpg
import msgspec
import pytest
from click.testing import CliRunner
from kept_secrets import read_from

from noetl.access.audit import Entry
from noetl.adapters.accounts.tables import REMOVING, SqlAudit
from noetl.adapters.blobs.postgres import PostgresBlobs
from noetl.adapters.catalogs.postgres import PostgresCatalogRows
from noetl.adapters.database_roles import (
    PARTS,
    Role,
    judge_role,
    look_at_role,
    prepare_database,
    role_of,
)
from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.cluster_keychain import ClusterKeychain
from noetl.adapters.secrets.data_keys import DataKeys
from noetl.adapters.secrets.master_keys import KeyTexts
from noetl.adapters.secrets.private_files import write_private
from noetl.adapters.secrets.rotation import Rotation
from noetl.adapters.sql_database import PostgresDatabase
from noetl.adapters.sql_files import read_migrations
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.postgres.retention import PostgresRetention
from noetl.clictl import noetl
from noetl.errors import ConfigError, StoreError
from noetl.local.home import Home
from noetl.ports import Removal
from noetl.wiring.database_mark import find_restored, keep_mark

OWNER, SERVER, PASSWORD = "log_keeper", "log_writer", "s3cret"


def address_of(postgres: str, role: str) -> str:
    return postgres.replace(
        urlsplit(postgres).netloc.split("@")[0], f"{role}:{quote(PASSWORD)}"
    )


async def execute(address: str, *statements: str) -> None:
    connection = await asyncpg.connect(
        address, server_settings={"search_path": "noetl"}
    )
    try:
        for each in statements:
            await connection.execute(each)
    finally:
        await connection.close()


async def fetch(address: str, query: str, *values: Any) -> list[Any]:
    connection = await asyncpg.connect(
        address, server_settings={"search_path": "noetl"}
    )
    try:
        return [tuple(row) for row in await connection.fetch(query, *values)]
    finally:
        await connection.close()


@pytest.fixture
def roles(postgres: str) -> Iterator[tuple[str, str]]:
    """The addresses of an owner and of a server's role, neither of them a superuser."""
    made = f"LOGIN PASSWORD '{PASSWORD}' NOSUPERUSER NOCREATEDB NOCREATEROLE"
    asyncio.run(
        execute(
            postgres,
            f"CREATE ROLE {OWNER} {made}",
            f"CREATE ROLE {SERVER} {made}",
            f"GRANT CREATE ON DATABASE postgres TO {OWNER}",
        )
    )
    yield address_of(postgres, OWNER), address_of(postgres, SERVER)
    drops = [
        f"DROP OWNED BY {each} CASCADE; DROP ROLE {each}" for each in (OWNER, SERVER)
    ]
    asyncio.run(execute(postgres, *drops))


@contextlib.asynccontextmanager
async def opened(address: str) -> AsyncIterator[PostgresStore]:
    database = Postgres(address)
    try:
        yield await PostgresStore.open(database)
    finally:
        await database.close()


def over(facts: Any, name: str) -> Any:
    transition = facts.transition(
        name, count=3, status="completed", commands=[f"{name}-1"], snapshot=b"{}"
    )
    summary = msgspec.structs.replace(
        transition.summary,
        finished_at="2026-11-15T08:00:01.000000Z",
        labels={"team": "a"},
    )
    return msgspec.structs.replace(transition, summary=summary)


async def test_a_server_works_with_the_rights_of_its_role_alone(roles, facts, tmp_path):
    owner, server = roles
    await prepare_database(owner, server)
    await prepare_database(owner, server)  # at each start

    database = Postgres(server)
    store = await PostgresStore.open(database)
    await PostgresCatalogRows.open(database)
    write_private(tmp_path / "key", bytes(32))
    key = Cipher(tmp_path / "key").read
    keys = DataKeys(database, KeyTexts("a file", key))
    await keys.open(lambda: None)
    keychain = ClusterKeychain(keys)
    await keychain.set("api", PASSWORD, "secret_manager", "T")
    await Rotation(keys).begin()
    await Rotation(keys).seal_anew()
    assert await read_from(keychain, "api") == PASSWORD
    await PostgresBlobs(database, str(tmp_path)).open()
    for part in ("accounts", "triggers"):
        await PostgresDatabase(database, part).fetch("SELECT 1")
    await store.commit([over(facts, "a")])
    await store.commit([facts.transition("b", commands=["b-1"])])
    [lease] = await store.claim("me", pool="default", slots=1, now=1.0, ttl=30)
    lost = await store.renew([lease], now=2.0, ttl=30)
    await store.sweep(now=3.0)
    role = await look_at_role(database)
    await database.close()

    assert lost == []
    assert role == Role(SERVER, is_superuser=False, owns_log=False)
    assert judge_role(role) is None


def test_a_command_brings_the_tables_up_to_date(roles, tmp_path):
    owner, server = roles
    settings = {"NOETL_HOME": str(tmp_path), "NOETL_DATABASE": server}
    migrate = ["server", "migrate", "--json"]

    alone = CliRunner().invoke(noetl, migrate, env=settings)
    settings["NOETL_DATABASE_OWNER"] = owner
    done = CliRunner().invoke(noetl, migrate, env=settings)

    assert isinstance(alone.exception, ConfigError)
    assert "NOETL_DATABASE_OWNER is not set" in str(alone.exception)
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.output
    assert asyncio.run(fetch(server, "SELECT count(*) FROM execution")) == [(0,)]


async def test_a_server_notices_a_database_that_was_restored(roles, facts, tmp_path):
    owner, server = roles
    home = Home(tmp_path / "home")
    home.make()
    database = Postgres(server)

    async def remake(count: int) -> None:
        await execute(owner, "DROP SCHEMA IF EXISTS noetl CASCADE")
        await prepare_database(owner, server)
        for number in range(count):
            await PostgresStore(database).commit([facts.transition(f"{number}", 0)])

    await remake(0)
    assert await find_restored(home, server, database) is None
    await remake(5)
    await keep_mark(home, server, database)
    assert await find_restored(home, server, database) is None

    await remake(2)

    found = await find_restored(home, server, database)
    assert found is not None
    assert "it ends 3 executions before" in found
    assert PASSWORD not in found
    assert await find_restored(home, f"{server}x", database) is None
    await remake(5)
    assert await find_restored(home, server, database) is None
    await database.close()


CHANGES = {
    "an event is changed": "UPDATE batch SET body = ''",
    "an event of a partition is changed": "UPDATE batch_0 SET body = ''",
    "an event is deleted": "DELETE FROM batch",
    "an event of a partition is deleted": "DELETE FROM batch_0",
    "the log is emptied": "TRUNCATE batch",
    "a partition is emptied": "TRUNCATE batch_0",
    "the log is emptied by a cascade": "TRUNCATE execution, batch CASCADE",
    "a removal is pretended": "SET noetl.removing = 'on'; UPDATE batch SET body = ''",
    "an open execution loses events": "SET noetl.removing = 'on'; DELETE FROM batch",
}


@pytest.mark.parametrize("who", ["server", "owner", "superuser"])
async def test_no_role_changes_the_log(postgres, roles, facts, who):
    owner, server = roles
    await prepare_database(owner, server)
    address = {"server": server, "owner": owner, "superuser": postgres}[who]
    wanted = "denied" if who == "server" else "append-only"
    async with opened(server) as store:
        await store.commit([facts.transition("a", commands=["a-1"])])
        before = await fetch(owner, "SELECT * FROM batch")
        for change, statement in CHANGES.items():
            with pytest.raises(asyncpg.PostgresError, match=wanted):
                await execute(address, statement)
            assert await fetch(owner, "SELECT * FROM batch") == before, change
        assert await store.verify("a") is None


FORBIDDEN = {
    "a program is run": "COPY (SELECT 1) TO PROGRAM 'true'",
    "a program is read": "CREATE TEMP TABLE t (a text); COPY t FROM PROGRAM 'id'",
    "a file is read": "SELECT pg_read_file('postgresql.conf')",
    "a file is written": "COPY (SELECT 1) TO '/tmp/noetl-was-here'",
    "the trigger is dropped": "DROP TRIGGER batch_is_never_changed ON batch",
    "the trigger is off": "ALTER TABLE batch DISABLE TRIGGER ALL",
    "triggers are skipped": "SET session_replication_role = replica",
    "the guard is rewritten": "CREATE OR REPLACE FUNCTION refuse_change() RETURNS "
    "trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
    "a table is made": "CREATE TABLE mine (a text)",
    "a role is made": "CREATE ROLE another SUPERUSER",
    "it becomes another": f"SET ROLE {OWNER}",
    "an execution is deleted": "DELETE FROM execution",
    "a dictionary is changed": "UPDATE dictionary SET body = ''",
    "the audit is changed": "UPDATE audit SET principal = 'another'",
    "the audit is emptied": "DELETE FROM audit",
    "versions are changed": "UPDATE migration SET version = 1",
    "a key is changed": "UPDATE data_key SET sealed = ''",
    "the key of the servers is removed": "DELETE FROM server_key",
}


async def test_a_server_can_do_nothing_else_in_the_database(roles):
    """Also not run programs or read files of the database's machine."""
    owner, server = roles
    await prepare_database(owner, server)
    for deed, statement in FORBIDDEN.items():
        try:
            await execute(server, statement)
        except asyncpg.InsufficientPrivilegeError:
            continue
        raise AssertionError(deed)


async def test_what_is_over_can_be_removed_as_a_whole(roles, facts):
    owner, server = roles
    await prepare_database(owner, server)
    async with opened(server) as store:
        for name in ("a", "b", "c"):
            await store.commit([over(facts, name)])
        await store.commit([facts.transition("d", commands=["d-1"])])
        for wrong, reason in (
            (["a", "d"], "d is not over"),
            (["a", "x"], "no execution x"),
        ):
            with pytest.raises(asyncpg.RaiseError, match=reason):
                await fetch(server, "SELECT remove_executions($1)", wrong)
        await fetch(server, "SELECT remove_executions($1)", ["a", "c"])

        found = [each.execution_id for each in await store.find()]
        assert found == ["d", "b"]
        assert await store.read("a") == []
        assert await store.verify("b") is None
        rows = await fetch(owner, "SELECT command_id FROM command ORDER BY 1")
        assert rows == [("b-1",), ("d-1",)]
        assert len(await fetch(owner, "SELECT name FROM label")) == 1
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await execute(owner, "DELETE FROM batch")


async def test_a_server_plans_and_carries_out_a_removal(roles, facts):
    owner, server = roles
    await prepare_database(owner, server)
    database = Postgres(server)
    store, retention = await PostgresStore.open(database), PostgresRetention(database)
    await store.commit([over(facts, "a")])
    fork = over(facts, "b")
    at = {"execution_id": "a", "seq": 1}
    summary = msgspec.structs.replace(fork.summary, forked_from=at)
    await store.commit([msgspec.structs.replace(fork, summary=summary)])

    held = [each.held for each in await retention.families()]
    await retention.take_turn("me", now=1.0, ttl=10.0)
    removal = Removal("a", ["a", "b"])
    await retention.plan("me", removal)
    await retention.carry_out("me", removal)
    freed = await retention.free_space()
    left = await store.find()
    await database.close()

    assert held == [True, False]
    assert (left, freed) == ([], 0)


async def test_a_server_removes_old_entries_of_the_audit_and_no_recent_ones(roles):
    owner, server = roles
    await prepare_database(owner, server)
    database = Postgres(server)
    audit = SqlAudit(PostgresDatabase(database), REMOVING)
    now = time.time()
    for days in (400, 40, 20):
        at = now - days * 86_400
        await audit.note(Entry(audit_id=f"{days:03}", at=at, action="x"))

    removed = [await audit.remove(now - 100 * 86_400, 10), await audit.remove(now, 10)]
    left = [each.audit_id for each in await audit.entries(limit=10)]
    await database.close()

    assert removed == [1, 1]
    assert left == ["020"]


async def test_tables_of_ones_own_do_not_mislead_the_removal(postgres, roles, facts):
    """The function has the owner's rights: it must look at the real tables."""
    owner, server = roles
    await prepare_database(owner, server)
    async with opened(server) as store:
        await store.commit([facts.transition("a")])
        with pytest.raises(asyncpg.RaiseError, match="a is not over"):
            await execute(
                server,
                "CREATE TEMP TABLE execution AS SELECT number, execution_id, "
                "'completed' AS status FROM noetl.execution",
                "SELECT noetl.remove_executions(ARRAY['a'])",
            )
        assert len(await store.read("a")) > 0


async def test_a_role_without_tables_gets_a_hint(roles):
    _, server = roles
    with pytest.raises(StoreError, match="permission denied for database"):
        async with opened(server):
            pass


async def test_tables_of_an_older_version_are_not_used(roles):
    owner, server = roles
    await prepare_database(owner, server)
    newest, _ = read_migrations(PARTS["log"])[-1]
    last = f"part = 'log' AND version = {newest}"
    await execute(owner, f"DELETE FROM migration WHERE {last}")
    with pytest.raises(StoreError, match="NOETL_DATABASE_OWNER") as found:
        async with opened(server):
            pass
    again = f"INSERT INTO migration (part, version) VALUES ('log', {newest})"
    await execute(owner, again)
    await execute(owner, "UPDATE made_functions SET digest = 'another'")
    with pytest.raises(StoreError, match="NOETL_DATABASE_OWNER"):
        async with opened(server):
            pass

    assert found.value.kind == "store.migration"


async def test_one_role_for_everything_still_works_and_is_judged(
    postgres, roles, facts
):
    owner, _ = roles
    database = Postgres(owner)
    store = await PostgresStore.open(database)
    await store.commit([over(facts, "a")])
    alone = await look_at_role(database)
    await database.close()
    database = Postgres(postgres)
    highest = await look_at_role(database)
    await database.close()

    assert "owns the log" in str(judge_role(alone))
    assert "is a superuser" in str(judge_role(highest))


async def test_rights_for_a_role_that_is_not_there_are_refused(roles):
    owner, server = roles
    with pytest.raises(ConfigError, match="the role 'nowhere' of NOETL_DATABASE"):
        await prepare_database(owner, server.replace(SERVER, "nowhere"))


@pytest.mark.parametrize(
    ("address", "role"),
    [
        ("postgresql://noetl@db/x", "noetl"),
        ("postgresql://a%2Fb:secret@db/x", "a/b"),
        ("postgresql://db/x?user=noetl", "noetl"),
    ],
)
def test_an_address_names_a_role(address: str, role: str) -> None:
    assert role_of(address) == role


def test_an_address_without_a_role_is_refused() -> None:
    with pytest.raises(ConfigError, match="names no role"):
        role_of("postgresql://db/x")


def test_every_part_with_tables_is_prepared() -> None:
    """Every part that is migrated by itself must be in the list."""
    import re
    from pathlib import Path

    import noetl

    source = Path(noetl.__file__).parent
    named = set()
    for file in source.rglob("*.py"):
        named |= set(re.findall(r'migrate\(\s*"(\w+)"', file.read_text()))
        named |= set(re.findall(r'PostgresDatabase\(\w+, "(\w+)"', file.read_text()))
    assert named | {"accounts"} == set(PARTS)
