"""What every store of accounts promises, on SQLite and on the real PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import asyncpg
import msgspec
import pytest

from noetl.access.accounts import Account
from noetl.access.credentials import ApiToken
from noetl.access.permissions import Grant, read_grants
from noetl.adapters.accounts.passwords import _UNKNOWN_HASH, Argon2Passwords
from noetl.adapters.accounts.tables import SqlAccounts
from noetl.adapters.postgres import Postgres
from noetl.adapters.sql_database import PostgresDatabase, SqliteFile
from noetl.errors import AccessError, ConfigError, StoreError
from noetl.ports.access import Accounts

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Accounts]]


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    """Opens the same store as often as a test wants."""
    if request.param == "sqlite":
        return lambda: on_sqlite(tmp_path / "access.db")
    address = request.getfixturevalue("postgres")
    return lambda: on_postgres(address)


@asynccontextmanager
async def on_sqlite(path: Path) -> AsyncIterator[Accounts]:
    file = SqliteFile.open(path)
    try:
        yield SqlAccounts(file)
    finally:
        await file.close()


@asynccontextmanager
async def on_postgres(address: str) -> AsyncIterator[Accounts]:
    database = PostgresDatabase(Postgres(address, schema="public"))
    try:
        yield SqlAccounts(database)
    finally:
        await database.close()


ANN = Account(
    user_id="u1",
    name="ann",
    grants=read_grants(["viewer", "operator:finance/*"]),
    created_at=1_800_000_000.25,
    email="ann@example.com",
    display_name="Änn 'the' $1; DROP TABLE account",
    password_hash="$argon2id$…",
)
BOB = Account(user_id="u2", name="bob", grants=(), created_at=5.0)
CI = ApiToken(
    token_id="t1",
    user_id="u1",
    digest="d" * 64,
    label="ci",
    scopes=read_grants(["viewer:finance/*"]),
    created_at=10.5,
    expires_at=20.5,
)


async def test_an_account_is_found_as_it_was_added(opening: Opening) -> None:
    async with opening() as accounts:
        await accounts.add(BOB)
        await accounts.add(ANN)
    async with opening() as accounts:
        assert await accounts.get("u1") == ANN
        assert await accounts.find("bob") == BOB
        assert await accounts.list_all() == [ANN, BOB]
        assert await accounts.get("u3") is None
        assert await accounts.find("ANN") is None


async def test_a_name_and_an_identity_are_somebodys_once(opening: Opening) -> None:
    known = msgspec.structs.replace(BOB, issuer="https://id", subject="auth0|1")
    async with opening() as accounts:
        await accounts.add(ANN)
        await accounts.add(known)
        for change in (
            {"user_id": "u9", "name": "bob", "subject": "auth0|2"},
            {"user_id": "u9", "name": "carl"},
            {"name": "carl", "subject": "auth0|2"},
        ):
            with pytest.raises(AccessError, match="already") as e:
                await accounts.add(msgspec.structs.replace(known, **change))
            assert (e.value.kind, e.value.status) == ("account.exists", 409)

        assert await accounts.find_subject("https://id", "auth0|1") == known
        assert await accounts.find_subject("https://other", "auth0|1") is None
        assert await accounts.list_all() == [ANN, known]


async def test_of_many_who_add_one_name_at_once_one_succeeds(opening: Opening) -> None:
    async with opening() as one, opening() as two:

        async def add(number: int) -> bool:
            account = msgspec.structs.replace(ANN, user_id=f"u{number}")
            try:
                await (one, two)[number % 2].add(account)
            except AccessError:
                return False
            return True

        assert sum(await asyncio.gather(*(add(number) for number in range(16)))) == 1
        assert len(await one.list_all()) == 1


async def test_each_change_raises_the_version(opening: Opening) -> None:
    async with opening() as accounts:
        await accounts.add(ANN)
        grants = (Grant("admin"),)
        steps = [
            await accounts.set_grants("u1", grants),
            await accounts.set_password("u1", "new"),
            await accounts.set_disabled("u1", True),
            await accounts.set_password("u1", None),
        ]

        last = await accounts.get("u1")
        assert [step.version for step in steps] == [2, 3, 4, 5]
        assert last == steps[-1]
        assert last == msgspec.structs.replace(
            ANN, grants=grants, password_hash=None, disabled=True, version=5
        )


async def test_changes_at_once_all_count(opening: Opening) -> None:
    async with opening() as one, opening() as two:
        await one.add(ANN)
        await asyncio.gather(
            *((one, two)[n % 2].set_disabled("u1", bool(n % 3)) for n in range(20))
        )
        last = await two.get("u1")

    assert last is not None
    assert last.version == 21


async def test_what_is_not_there_is_not_changed(opening: Opening) -> None:
    async with opening() as accounts:
        for asking in (
            accounts.set_grants("u1", ()),
            accounts.set_password("u1", None),
            accounts.set_disabled("u1", True),
            accounts.remove("u1"),
            accounts.add_token(CI),
            accounts.revoke_token("t1"),
        ):
            with pytest.raises(AccessError, match="there is no") as e:
                await asking
            assert (e.value.kind, e.value.status) == ("account.unknown", 404)
        await accounts.note_use("t1", 5.0)
        assert await accounts.find_token(CI.digest) is None


async def test_what_is_remembered_of_a_token_ends_with_every_change(
    tmp_path: Path,
) -> None:
    file = SqliteFile.open(tmp_path / "access.db")
    accounts, others = SqlAccounts(file, fresh=3600.0), SqlAccounts(file)
    await accounts.add(ANN)
    await accounts.add_token(CI)
    assert await accounts.find_token(CI.digest) == (CI, ANN)

    changed = await others.set_disabled("u1", True)
    assert await accounts.find_token(CI.digest) == (CI, ANN), "it was not remembered"
    await accounts.note_use("nobody", 5.0)
    assert await accounts.find_token(CI.digest) == (CI, changed)

    changed = await accounts.set_grants("u1", ())
    assert await accounts.find_token(CI.digest) == (CI, changed)
    await accounts.revoke_token("t1")
    assert await accounts.find_token(CI.digest) is None
    await file.close()


async def test_a_token_is_found_with_its_account_as_it_is_now(opening: Opening) -> None:
    async with opening() as accounts:
        await accounts.add(ANN)
        await accounts.add(BOB)
        await accounts.add_token(CI)
        unlimited = msgspec.structs.replace(
            CI, token_id="t2", digest="e" * 64, scopes=None, expires_at=None
        )
        await accounts.add_token(unlimited)
        assert await accounts.find_token(CI.digest) == (CI, ANN)

        now = await accounts.set_grants("u1", ())
        assert await accounts.find_token("e" * 64) == (unlimited, now)
        assert await accounts.list_tokens("u1") == [CI, unlimited]
        assert await accounts.list_tokens("u2") == []

        await accounts.revoke_token("t1")
        assert await accounts.find_token(CI.digest) is None
        await accounts.remove("u1")
        assert await accounts.find_token("e" * 64) is None
        assert await accounts.list_tokens("u1") == []


async def test_the_last_use_only_moves_on(opening: Opening) -> None:
    async with opening() as accounts:
        await accounts.add(ANN)
        await accounts.add_token(CI)
        for now in (15.0, 12.0):
            await accounts.note_use("t1", now)
        (token,) = await accounts.list_tokens("u1")

    assert token.last_used_at == 15.0


async def test_servers_that_start_at_once_make_the_tables_once(
    opening: Opening,
) -> None:
    async def start(number: int) -> None:
        async with opening() as accounts:
            await accounts.add(
                msgspec.structs.replace(BOB, user_id=f"{number}", name=f"n{number}")
            )

    await asyncio.gather(*(start(number) for number in range(4)))
    async with opening() as accounts:
        assert len(await accounts.list_all()) == 4


async def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "access.db") as accounts:
        await accounts.add(ANN)

    assert stat.S_IMODE((tmp_path / "access.db").stat().st_mode) == 0o600


def test_a_foreign_or_newer_file_is_refused(
    tmp_path: Path,
) -> None:
    other, newer = tmp_path / "other.db", tmp_path / "newer.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE x (y)")
    db.close()
    asyncio.run(SqliteFile.open(newer).close())
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    (tmp_path / "text.db").write_text("no database at all, but long enough" * 9)

    for name, kind in (
        ("other.db", "store.corrupt"),
        ("newer.db", "store.version"),
        ("text.db", "store.corrupt"),
        ("no/such/folder.db", "store.io"),
    ):
        with pytest.raises(StoreError) as e:
            SqliteFile.open(tmp_path / name)
        assert e.value.kind == kind


async def test_tables_of_a_newer_version_are_refused(postgres: str) -> None:
    async with on_postgres(postgres) as accounts:
        await accounts.list_all()
    connection = await asyncpg.connect(postgres)
    await connection.execute("INSERT INTO migration VALUES ('accounts', 99)")
    await connection.close()
    async with on_postgres(postgres) as accounts:
        with pytest.raises(StoreError, match="version 99, but this NoETL knows") as e:
            await accounts.list_all()
    assert e.value.kind == "store.version"


async def test_a_postgres_that_is_away_is_named_without_its_password(
    postgres: str,
) -> None:
    nobody = postgres.replace("postgres:s3cret", "postgres:wrong")
    for address in ("postgresql://a:s3cret@127.0.0.1:1/x", nobody):
        async with on_postgres(address) as accounts:
            with pytest.raises(StoreError) as e:
                await accounts.list_all()
        assert e.value.kind == "store.unreachable"
        assert "PostgreSQL does not answer" in str(e.value)
        assert "s3cret" not in str(e.value)


async def test_after_a_lost_connection_the_next_question_is_answered(
    postgres: str,
) -> None:
    async with on_postgres(postgres) as accounts:
        await accounts.add(ANN)
        connection = await asyncpg.connect(postgres)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'noetl accounts'"
        )
        await connection.close()
        with suppress(StoreError):  # unless the driver has noticed by now
            await accounts.get("u1")
        assert await accounts.get("u1") == ANN


def test_a_schema_is_a_plain_name() -> None:
    with pytest.raises(ConfigError, match="is not a valid schema name"):
        Postgres("postgresql://x", schema="a; DROP SCHEMA public")


async def test_passwords_are_hashed_by_argon2id_with_the_declared_costs() -> None:
    passwords = Argon2Passwords()
    known = await passwords.hash("cafe\u0301 au lait, please")

    assert known.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert known != await passwords.hash("cafe\u0301 au lait, please")
    assert await passwords.verify(known, "caf\u00e9 au lait, please")
    assert not await passwords.verify(known, "caf\u00e9 au lait")
    assert not passwords.is_outdated(known)


async def test_hashes_of_earlier_releases_are_known() -> None:
    """They were written by another library, in the same format."""
    known = (
        "$argon2id$v=19$m=19456,t=2,p=1$IglVdc6kw6VXnA9Te1I5IQ$"
        "oabm+1Zl+WkEzLP2yARcxKzk/Hdgach7pk7W7P4kk8s"
    )
    passwords = Argon2Passwords()

    assert await passwords.verify(known, "correct horse")
    assert not await passwords.verify(known, "correct house")
    assert not passwords.is_outdated(known)


async def test_an_invalid_hash_or_password_verifies_nothing() -> None:
    passwords = Argon2Passwords()
    known = await passwords.hash("correct horse")

    assert not await passwords.verify(None, "")
    assert not passwords.is_outdated(_UNKNOWN_HASH), "nobody's takes another time"
    assert not await passwords.verify(None, "correct horse")
    assert not await passwords.verify("plain", "plain")
    assert not await passwords.verify(known, "\ud800")
    assert passwords.is_outdated(known.replace("t=2", "t=1"))


async def test_a_commit_is_certain_when_its_journal_is_gone_for_good(
    tmp_path: Path,
) -> None:
    """A journal that comes back after a power cut would undo the commit."""
    file = SqliteFile.open(tmp_path / "access.db")

    [(level,)] = await file.fetch("PRAGMA synchronous")

    await file.close()
    extra = 3  # it syncs the folder, too
    assert level == extra
