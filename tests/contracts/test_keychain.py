"""What every keychain promises, and what the one of a cluster adds: several keys."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from kept_secrets import read_from

from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.cluster_keychain import ClusterKeychain, WithHome
from noetl.adapters.secrets.data_keys import DataKeys
from noetl.adapters.secrets.execution_secrets import SealedRows
from noetl.adapters.secrets.home_keychain import HomeKeychain, StoredKeychain
from noetl.adapters.secrets.master_keys import KeyTexts
from noetl.adapters.secrets.rotation import Rotation
from noetl.errors import SecretError
from noetl.ports.keychain import Keychain, Record

pytestmark = pytest.mark.spec("S-67", "S-81")

SECRET = "s3cr3t-ünd-längér"
ONE, TWO = bytes([1]) * 32, bytes([2]) * 32


class Site:
    """One server: its connection, keys and keychain. ``key`` is its key file."""

    def __init__(self, address: str, key: Callable[[], bytes]) -> None:
        self.database = Postgres(address, size=4)
        self.keys = DataKeys(self.database, KeyTexts("the file", key))
        self.keychain = ClusterKeychain(self.keys)
        self.sealed = SealedRows(self.keys)
        self.rotation = Rotation(self.keys)


@asynccontextmanager
async def site(
    address: str,
    key: Callable[[], bytes] = lambda: ONE,
    seed: bytes | None = None,
) -> AsyncIterator[Site]:
    made = Site(address, key)
    try:
        await made.keys.open(lambda: seed)
        yield made
    finally:
        await made.database.close()


@pytest.fixture(params=["home", "postgres"])
def keychain(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    run: Callable[[Coroutine[Any, Any, Any]], Any],
) -> Iterator[Keychain]:
    if request.param == "home":
        yield of_home(tmp_path)
        return
    opened = site(request.getfixturevalue("postgres"))
    yield run(opened.__aenter__()).keychain
    run(opened.__aexit__(None, None, None))


async def in_postgres(address: str, *statements: tuple[Any, ...]) -> list[Any]:
    settings = {"search_path": "noetl"}
    connection = await asyncpg.connect(address, server_settings=settings)
    try:
        for statement in statements:
            rows = await connection.fetch(*statement)
        return [tuple(row) for row in rows]
    finally:
        await connection.close()


def of_home(folder: Path) -> HomeKeychain:
    cipher = Cipher(folder / "key")
    return HomeKeychain(StoredKeychain(folder / "keychain.json", cipher))


async def test_a_stored_secret_is_read_listed_replaced_and_deleted(
    keychain: Keychain,
) -> None:
    assert not (await keychain.set("api", SECRET, "secret_manager", "T1")).replaced
    fields = {"user": "u", "password": SECRET}
    await keychain.set("pg", fields, "postgres_credential", "T2")
    assert (await keychain.set("api", SECRET + "2", "secret_manager", "T3")).replaced

    assert await read_from(keychain, "api") == SECRET + "2"
    assert await read_from(keychain, "pg") == fields
    listed = await keychain.list()
    assert {name: each.fields for name, each in listed.items()} == {
        "api": None,
        "pg": ["password", "user"],
    }
    assert not await keychain.delete("api", lambda _: False)
    assert await keychain.delete("api") is True
    assert await keychain.delete("api") is False
    with pytest.raises(SecretError, match="has no 'api'"):
        await read_from(keychain, "api")


async def test_a_new_value_keeps_its_bindings_unless_the_caller_is_refused(
    keychain: Keychain,
) -> None:
    def refuse(_: object) -> tuple[str, ...]:
        raise SecretError("secret.denied", "no")

    await keychain.set("a", SECRET, "secret_manager", "T1", lambda _: ("finance/*",))
    change = await keychain.set("a", SECRET + "2", "secret_manager", "T2")
    with pytest.raises(SecretError, match="no"):
        await keychain.set("a", "other", "secret_manager", "T3", refuse)

    assert change.record.bound == ("finance/*",)
    assert await read_from(keychain, "a", "finance/x") == SECRET + "2"
    with pytest.raises(SecretError, match="has no 'a'"):
        await read_from(keychain, "a", "hr/x")


async def test_a_declared_entry_names_a_place_and_has_no_value(
    keychain: Keychain,
) -> None:
    await keychain.declare("db", "vault", {"path": "secret/data/db"}, "T")

    record = await keychain.get("db")
    assert record is not None
    assert record.declared == {"path": "secret/data/db"}


async def test_secrets_stored_at_the_same_time_are_all_kept(
    keychain: Keychain,
) -> None:
    stored = [keychain.set(f"n{n}", n, "secret_manager", "T") for n in range(8)]
    await asyncio.gather(*stored)

    assert [await read_from(keychain, f"n{n}") for n in range(8)] == list(range(8))


async def test_of_two_that_take_a_name_at_the_same_time_one_sees_the_other(
    keychain: Keychain,
) -> None:
    """The rights of the caller on a replaced entry are checked in ``bind``."""

    def take(before: Record | None) -> tuple[str, ...]:
        if before is not None:
            raise SecretError("secret.denied", "it is taken")
        return ("*",)

    await asyncio.gather(*[keychain.list() for _ in range(6)])  # connections are open
    taken = [keychain.set("n", n, "secret_manager", "T", take) for n in range(6)]
    found = await asyncio.gather(*taken, return_exceptions=True)

    assert len([each for each in found if isinstance(each, SecretError)]) == 5


async def test_a_role_of_the_database_reads_no_secret_and_binds_none_elsewhere(
    postgres: str,
) -> None:
    changes = {
        "other playbooks": "UPDATE keychain SET bound = '[\"*\"]'",
        "another name": "UPDATE keychain SET name = 'b' WHERE name = 'a'",
        "another kind": "UPDATE keychain SET kind = 'oauth2'",
        "another place": 'UPDATE keychain SET declared = \'{"path": "/etc"}\'',
    }
    async with site(postgres) as one:
        for what, change in changes.items():
            await one.keychain.set("a", SECRET, "secret_manager", "T", lambda _: ("x",))
            await one.keychain.declare(
                "d", "file", {"path": "/y"}, "T", lambda _: ("x",)
            )
            await one.sealed.save("e1", "h", SECRET)
            for table in ("keychain", "data_key", "server_key", "sealed"):
                held = await in_postgres(
                    postgres, (f"SELECT {table}::text FROM {table}",)
                )
                assert held, table
                for plain in (SECRET.encode(), ONE):
                    assert plain.hex() not in str(held), table
                    assert plain not in str(held).encode(), table
            await in_postgres(postgres, (change,))
            name = "b" if what == "another name" else "a"
            with pytest.raises(SecretError, match="does not open"):
                await read_from(one.keychain, name, "x")
            if what != "another name":
                with pytest.raises(SecretError, match="does not open"):
                    await one.keychain.get("d")
            await in_postgres(postgres, ("DELETE FROM keychain",))


async def test_servers_share_entries_by_one_key_and_refuse_another(
    postgres: str,
) -> None:
    async with site(postgres) as one, site(postgres) as two:
        await one.keychain.set("a", SECRET, "secret_manager", "T")
        assert await read_from(two.keychain, "a") == SECRET
        await two.keychain.delete("a")
        assert await one.keychain.list() == {}

    for key, words in (
        (lambda: TWO, "the file has another key"),
        (lambda: b"short", "holds no key"),
    ):
        with pytest.raises(SecretError, match=words) as refused:
            async with site(postgres, key):
                pass
        assert refused.value.kind == "secret.sealed"


async def test_a_damaged_key_is_not_used(postgres: str) -> None:
    async with site(postgres):
        pass
    await in_postgres(postgres, ("UPDATE data_key SET proof = decode('00', 'hex')",))

    with pytest.raises(SecretError, match="opens as another key, or is damaged"):
        async with site(postgres):
            pass


async def test_a_rotation_seals_everything_anew_while_secrets_are_used(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.adapters.secrets.rotation.BATCH", 3)
    async with site(postgres) as one, site(postgres) as two:
        for n in range(7):
            await one.keychain.set(f"n{n}", SECRET, "secret_manager", "T")
            await one.sealed.save("e1", f"h{n}", SECRET)
        [before] = await one.rotation.keys()
        made = await one.rotation.begin()
        await one.keychain.set("new", SECRET, "secret_manager", "T")

        assert made.key_id != before.key_id
        assert await read_from(two.keychain, "new") == SECRET
        assert await read_from(two.keychain, "n0") == SECRET
        assert [each.uses for each in await two.rotation.keys()] == [1, 15]
        await two.rotation.seal_anew()
        [only] = await one.rotation.keys()
        assert (only.key_id, only.uses) == (made.key_id, 16)
        # The first server does not know yet that its key has gone.
        one.keys._newest = await one.keys.get(before.key_id)
        one.keys._until = float("inf")
        await one.keychain.set("late", SECRET, "secret_manager", "T")
        await one.sealed.save("e2", "h", SECRET)
        for each in (one, two):
            assert await read_from(each.keychain, "late") == SECRET
            assert await each.sealed.load("e2") == {"h": SECRET}
            assert len(await each.sealed.load("e1")) == 7
    async with site(postgres) as three:
        assert await read_from(three.keychain, "n6") == SECRET


async def test_a_rotation_that_was_interrupted_goes_on_where_it_was(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.adapters.secrets.rotation.BATCH", 2)
    async with site(postgres) as one:
        for n in range(6):
            await one.keychain.set(f"n{n}", SECRET, "secret_manager", "T")
        await one.rotation.begin()
        newest, older = [await one.keys.get(e.key_id) for e in await one.keys.listed()]
        await one.rotation._entries(newest, {older.key_id: older}, ("", ""))
        assert [each.uses for each in await one.rotation.keys()] == [2, 5]
    async with site(postgres) as two:
        assert await read_from(two.keychain, "n5") == SECRET
        await two.rotation.seal_anew()
        assert [each.uses for each in await two.rotation.keys()] == [7]
        assert await read_from(two.keychain, "n0") == SECRET


async def test_an_entry_that_does_not_open_keeps_its_key(
    postgres: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(postgres) as one:
        await one.keychain.set("good", SECRET, "secret_manager", "T")
        await one.keychain.set("bad", SECRET, "secret_manager", "T")
        change = "UPDATE keychain SET sealed = decode('00', 'hex') WHERE name = 'bad'"
        await in_postgres(postgres, (change,))
        await one.rotation.begin()
        await one.rotation.seal_anew()
        await one.rotation.seal_anew()

        assert [each.uses for each in await one.rotation.keys()] == [2, 1]
        assert await read_from(one.keychain, "good") == SECRET
        with pytest.raises(SecretError, match="does not open"):
            await read_from(one.keychain, "bad")
    assert caplog.text.count("'bad' does not open, and keeps its key") == 1


async def test_the_operators_key_changes_without_a_restart(
    postgres: str, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    one_line, two_line = (b64encode(key) + b"\n" for key in (ONE, TWO))
    file.write_bytes(one_line)
    async with (
        site(postgres, file.read_bytes) as one,
        site(postgres, file.read_bytes) as two,
    ):
        await one.keychain.set("a", SECRET, "secret_manager", "T")
        file.write_bytes(two_line + one_line)
        await one.rotation.begin()
        await one.rotation.seal_anew()
        file.write_bytes(two_line)
        assert await read_from(two.keychain, "a") == SECRET
    async with site(postgres, lambda: TWO) as three:
        assert await read_from(three.keychain, "a") == SECRET
    with pytest.raises(SecretError, match="another key"):
        async with site(postgres, lambda: ONE):
            pass


async def test_secrets_of_an_earlier_version_open_until_the_first_rotation(
    postgres: str, tmp_path: Path
) -> None:
    """Servers of that version, which still run, open what is sealed now."""
    old = Cipher(tmp_path / "key")
    async with site(postgres, old.make, old.make()) as one:
        value = old.seal(b'"before"', "e1/h")
        await in_postgres(
            postgres, ("INSERT INTO sealed VALUES ('e1', 'h', $1)", value)
        )
        await one.sealed.save("e1", "now", SECRET)
        [(sealed,)] = await in_postgres(
            postgres, ("SELECT value FROM sealed WHERE name = 'now'",)
        )
        assert old.open(sealed, "e1/now") == f'"{SECRET}"'.encode()
        assert await one.sealed.load("e1") == {"h": "before", "now": SECRET}
        await one.rotation.begin()
        await one.rotation.seal_anew()
        assert len(await one.rotation.keys()) == 1
    async with site(postgres, old.make) as two:
        assert await two.sealed.load("e1") == {"h": "before", "now": SECRET}


async def test_entries_of_a_home_are_read_until_they_are_replaced(
    postgres: str, tmp_path: Path
) -> None:
    home = of_home(tmp_path)
    await home.set("a", "of the home", "secret_manager", "T", lambda _: ("x/*",))
    await home.set("b", "of the home", "secret_manager", "T")
    async with site(postgres) as one:
        both = WithHome(one.keychain, home)
        assert await read_from(both, "a", "x/y") == "of the home"
        change = await both.set("a", SECRET, "secret_manager", "T")
        assert (change.replaced, change.record.bound) == (True, ("x/*",))
        assert await read_from(both, "a", "x/y") == SECRET
        assert [*await both.list()] == ["a", "b"]
        for name in ("a", "b"):
            assert await both.delete(name)
        assert await both.list() == await home.list() == {}
