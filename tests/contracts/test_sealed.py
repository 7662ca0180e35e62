"""What every store of sealed secrets promises, and what the one on a disk adds."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.data_keys import DataKeys
from noetl.adapters.secrets.execution_secrets import (
    MemorySealed,
    SealedFiles,
    SealedRows,
)
from noetl.adapters.secrets.master_keys import KeyTexts
from noetl.errors import SecretError
from noetl.ports import SealedStore

pytestmark = pytest.mark.spec("S-41", "S-67")

Opening = Callable[[], AbstractAsyncContextManager[SealedStore]]
SECRET = "s3cr3t-ünd-längér"


def open_files(folder: Path) -> SealedFiles:
    return SealedFiles(folder / "sealed", Cipher(folder / "key"))


@pytest.fixture(params=["memory", "files", "postgres"])
def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    """How to open one, on the loop that is to use it."""
    if request.param == "memory":
        return lambda: nullcontext(MemorySealed())
    if request.param == "files":
        return lambda: nullcontext(open_files(tmp_path))
    address = request.getfixturevalue("postgres")
    return lambda: on_postgres(address, tmp_path)


@asynccontextmanager
async def on_postgres(address: str, folder: Path) -> AsyncIterator[SealedStore]:
    database = Postgres(address)
    try:
        cipher = Cipher(folder / "key")
        keys = DataKeys(database, KeyTexts("a file", cipher.read, cipher.make))
        await keys.open(lambda: None)
        yield SealedRows(keys)
    finally:
        await database.close()


def test_what_was_saved_is_loaded_until_it_is_dropped(sealed: Opening) -> None:
    async def work() -> None:
        async with sealed() as store:
            await check(store)

    async def check(sealed: SealedStore) -> None:
        assert await sealed.load("e1") == {}
        assert await sealed.kept() == []
        await sealed.save("e1", "keychain", {"api": SECRET})
        await sealed.save("e1", "h1", "old")
        await sealed.save("e1", "h1", [SECRET])
        await sealed.save("e2", "h1", "other")
        assert await sealed.load("e1") == {"keychain": {"api": SECRET}, "h1": [SECRET]}
        assert sorted(await sealed.kept()) == ["e1", "e2"]
        await sealed.drop("e1")
        await sealed.drop("e1")
        assert await sealed.load("e1") == {}
        assert await sealed.load("e2") == {"h1": "other"}
        assert await sealed.kept() == ["e2"]

    asyncio.run(work())


def test_on_a_disk_it_is_there_for_the_next_process_and_sealed(tmp_path: Path) -> None:
    asyncio.run(open_files(tmp_path).save("e1", "h1", [SECRET]))

    assert asyncio.run(open_files(tmp_path).load("e1")) == {"h1": [SECRET]}
    for path in (tmp_path / "sealed").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600)
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_what_was_sealed_for_one_execution_does_not_open_for_another(
    tmp_path: Path,
) -> None:
    files = open_files(tmp_path)
    asyncio.run(files.save("e1", "h1", SECRET))
    asyncio.run(files.save("e2", "h1", "other"))
    folder = tmp_path / "sealed"
    (folder / "e2" / "h1").write_bytes((folder / "e1" / "h1").read_bytes())

    with pytest.raises(SecretError, match="secrets of e2 cannot be opened") as e:
        asyncio.run(files.load("e2"))
    assert e.value.kind == "secret.sealed"


def test_what_a_killed_process_had_begun_to_write_is_passed_over(
    tmp_path: Path,
) -> None:
    files = open_files(tmp_path)
    asyncio.run(files.save("e1", "h1", SECRET))
    (tmp_path / "sealed" / "e1" / ".h2.0011").write_bytes(b"half")

    assert asyncio.run(files.load("e1")) == {"h1": SECRET}


def test_a_disk_that_does_not_take_it_is_explained(tmp_path: Path) -> None:
    (tmp_path / "sealed").write_text("in the way")

    with pytest.raises(SecretError, match="cannot be sealed in") as e:
        asyncio.run(open_files(tmp_path).save("e1", "h1", SECRET))
    assert SECRET not in e.value.message


def test_in_a_database_nothing_can_be_read_without_the_key(
    postgres: str, tmp_path: Path
) -> None:
    async def work() -> None:
        async with on_postgres(postgres, tmp_path) as one:
            await one.save("e1", "h1", SECRET)
        (tmp_path / "other").mkdir()
        Cipher(tmp_path / "other" / "key").make()
        with pytest.raises(SecretError, match="a file has another key"):
            async with on_postgres(postgres, tmp_path / "other"):
                pass
        database = Postgres(postgres)
        [(value,)] = await database.fetch("SELECT value FROM sealed")
        assert SECRET.encode() not in value
        await database.close()

    asyncio.run(work())
