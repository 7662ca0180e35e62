"""What every store of blobs promises."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import asyncpg
import nats
import pytest
from memory_blobs import MemoryBlobs
from nats.js.errors import NotFoundError
from nats_servers import OTHER, OURS, NatsServer
from obstore.store import LocalStore, ObjectStore
from s3_peer import KEY, SECRET, S3Peer

from noetl.adapters.blobs import object_store
from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.blobs.nats import NatsBlobs
from noetl.adapters.blobs.object_store import ObjectBlobs, open_store
from noetl.adapters.blobs.postgres import PostgresBlobs
from noetl.adapters.nats.permissions import RESULTS
from noetl.adapters.postgres import Postgres
from noetl.errors import BlobCorrupt, BlobGone, ConfigError, StoreError
from noetl.ports import Blobs

# ruff: noqa: ASYNC240
pytestmark = pytest.mark.spec("S-62", "RES-07")


class Kept:
    """A store, and hands that reach behind it: to damage, lose or age a blob."""

    def __init__(self, blobs: Blobs, hands: Hands) -> None:
        self.blobs = blobs
        self.hands = hands


class Hands(Protocol):
    async def change(self, key: str, data: bytes | None) -> None: ...


class InMemory:
    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs._blobs

    async def change(self, key: str, data: bytes | None) -> None:
        at = self._blobs.pop(key)[1]
        if data is not None:
            self._blobs[key] = (data, at)


class InFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def change(self, key: str, data: bytes | None) -> None:
        file = self._folder / key[:2] / key[2:]
        file.unlink()
        if data is not None:
            file.write_bytes(data)


class InPeer:
    def __init__(self, peer: S3Peer) -> None:
        self._objects = peer.objects

    async def change(self, key: str, data: bytes | None) -> None:
        path = f"/bucket/some/results/blobs/{key[:2]}/{key[2:]}"
        at = self._objects.pop(path)[1]
        if data is not None:
            self._objects[path] = (data, at)


class InRows:
    def __init__(self, address: str) -> None:
        self._address = address

    async def change(self, key: str, data: bytes | None) -> None:
        connection = await asyncpg.connect(self._address)
        if data is None:
            await connection.execute("DELETE FROM noetl.blob WHERE key = $1", key)
        else:
            update = "UPDATE noetl.blob_part SET data = $2 WHERE key = $1"
            await connection.execute(update, key, data)
        await connection.close()


class InBucket:
    def __init__(self, address: str, bucket: str) -> None:
        self._address = address
        self._bucket = bucket

    async def change(self, key: str, data: bytes | None) -> None:
        client = await nats.connect(self._address)
        store = await client.jetstream().object_store(self._bucket)
        if data is None:
            await store.delete(key)
        else:
            await store.put(key, data)
        await client.close()


def objects(store: ObjectStore, tmp_path: Path) -> ObjectBlobs:
    return ObjectBlobs(store, "the store", str(tmp_path / "drafts"), "this-home")


@pytest.fixture
def rows(postgres: str, tmp_path: Path, run: Callable[..., None]) -> Iterator[Kept]:
    database = Postgres(postgres)
    blobs = PostgresBlobs(database, str(tmp_path / "drafts"))
    run(blobs.open())
    yield Kept(blobs, InRows(postgres))
    run(database.close())


@pytest.fixture
def bucket(
    nats_server: NatsServer, tmp_path: Path, run: Callable[..., None]
) -> Iterator[Kept]:
    address, name = nats_server.address, f"b-{secrets.token_hex(4)}"
    blobs = NatsBlobs(address, name, str(tmp_path / "drafts"))
    yield Kept(blobs, InBucket(address, name))
    run(drop(address, name))


@pytest.fixture
def guarded(
    guarded_nats: NatsServer, tmp_path: Path, run: Callable[..., None]
) -> Iterator[Kept]:
    """A bucket by the user of servers, who may do nothing else in that NATS."""
    blobs = NatsBlobs(guarded_nats.place(OURS), RESULTS, str(tmp_path / "drafts"))
    hands = InBucket(guarded_nats.place(OTHER), RESULTS)
    yield Kept(blobs, hands)
    run(drop(guarded_nats.place(OTHER), RESULTS))


async def drop(address: str, *buckets: str) -> None:
    """Another test would find what is in it."""
    client = await nats.connect(address)
    for bucket in buckets:
        with suppress(NotFoundError):
            await client.jetstream().delete_object_store(bucket)
    await client.close()


@pytest.fixture(
    params=["memory", "files", "objects", "s3", "rows", "bucket", "guarded"]
)
def kept(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Kept:
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    if request.param == "memory":
        memory = MemoryBlobs(str(drafts))
        return Kept(memory, InMemory(memory))
    if request.param == "files":
        files = FileBlobs(tmp_path / "blobs")
        Path(files.drafts).mkdir(parents=True)
        return Kept(files, InFiles(tmp_path / "blobs"))
    if request.param == "objects":
        store = LocalStore(tmp_path / "objects", mkdir=True)
        return Kept(objects(store, tmp_path), InFiles(tmp_path / "objects" / "blobs"))
    if request.param in ("rows", "bucket", "guarded"):
        found: Kept = request.getfixturevalue(request.param)
        return found
    s3 = request.getfixturevalue("s3")
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    store = open_store("s3://bucket/some/results")
    return Kept(objects(store, tmp_path), InPeer(s3))


@pytest.fixture
def blobs(kept: Kept) -> Blobs:
    return kept.blobs


@pytest.mark.spec("RES-01", "RES-02")
@pytest.mark.parametrize("data", [b"", b"x", b"\0\xff" * 700_000])
async def test_bytes_come_back_by_their_hash(blobs, data):
    key = await blobs.put(data)

    assert key == sha256(data).hexdigest()
    assert await blobs.get(key) == data


async def test_putting_twice_is_putting_once(blobs):
    assert await blobs.put(b"x") == await blobs.put(b"x")


async def test_all_may_put_the_same_at_once(blobs):
    keys = await asyncio.gather(*(blobs.put(b"x" * 10_000) for _ in range(20)))

    assert len(set(keys)) == 1
    assert len(await blobs.get(keys[0])) == 10_000


async def test_what_was_not_put_is_gone(blobs):
    with pytest.raises(BlobGone) as caught:
        await blobs.get(sha256(b"never").hexdigest())

    assert caught.value.kind == "ref.gone"


@pytest.mark.parametrize(
    "key",
    [
        "",
        "../../etc/passwd",
        "/etc/passwd",
        "A" * 64,
        "0" * 63,
        "0" * 65,
        "0" * 64 + "\n",
        "0" * 32 + "\0" * 32,
        "a" * 5000,
        "..//" * 16,
    ],
)
async def test_an_invalid_key_is_gone(blobs, key):
    with pytest.raises(BlobGone):
        await blobs.get(key)


@pytest.mark.parametrize("suffix", ["\0", "/", "/../x", "\n"])
async def test_a_key_with_a_suffix_is_refused(blobs, suffix):
    key = await blobs.put(b"x")

    with pytest.raises(BlobGone):
        await blobs.get(key + suffix)


def draft(blobs: Blobs, data: bytes) -> str:
    file = Path(blobs.drafts) / "large.draft"
    file.write_bytes(data)
    return str(file)


@pytest.mark.spec("S-48")
@pytest.mark.parametrize("data", [b"", b"[]", b"\0\xff" * 10_000_000])
async def test_a_draft_becomes_a_blob(blobs, data):
    file = draft(blobs, data)

    blob = await blobs.adopt(file)

    assert (blob.key, blob.size) == (sha256(data).hexdigest(), len(data))
    assert await blobs.get(blob.key) == data
    assert not os.path.exists(file)
    assert await blobs.put(data) == blob.key


async def test_a_blob_is_read_as_a_file(blobs):
    data = b"genuine" * 1_000_000
    async with blobs.file(await blobs.put(data)) as file:
        assert Path(file).read_bytes() == data


@pytest.mark.parametrize("damage", [b"", b"forged!", b"forgery and more", None])
async def test_what_was_changed_or_lost_is_not_given_out(kept, damage):
    blobs, kind = kept.blobs, "ref.gone" if damage is None else "ref.corrupt"
    key = await blobs.put(b"genuine")
    await kept.hands.change(key, damage)

    with pytest.raises((BlobGone, BlobCorrupt)) as caught:
        await blobs.get(key)
    assert caught.value.kind == kind
    with pytest.raises((BlobGone, BlobCorrupt)) as caught:
        async with blobs.file(key):
            pass
    assert caught.value.kind == kind


async def test_putting_again_repairs_what_was_damaged(kept):
    key = await kept.blobs.put(b"genuine")
    await kept.hands.change(key, b"forged!")

    await kept.blobs.put(b"genuine")

    assert await kept.blobs.get(key) == b"genuine"


async def test_all_blobs_can_be_listed(blobs):
    keys = {await blobs.put(f"{n}".encode()): len(f"{n}") for n in range(20)}

    assert {blob.key: blob.size async for blob in blobs.each()} == keys
    assert [blob async for blob in blobs.each() if blob.at < time.time() - 60] == []


async def test_nothing_is_in_a_new_store(blobs):
    assert [blob async for blob in blobs.each()] == []


async def test_only_old_blobs_are_removed(blobs):
    key = await blobs.put(b"x")

    assert not await blobs.remove(key, time.time() - 60)
    assert await blobs.get(key) == b"x"
    assert await blobs.remove(key, time.time() + 60)
    assert not await blobs.remove(key, time.time() + 60)
    with pytest.raises(BlobGone):
        await blobs.get(key)


async def test_only_old_drafts_are_swept_away(blobs):
    file = Path(draft(blobs, b"half"))
    other = file.with_name("somebody-elses")
    other.touch()

    assert await blobs.sweep(time.time() - 60) == []
    assert [each.size for each in await blobs.sweep(time.time() + 60)] == [4]
    assert not file.exists()
    assert other.exists()


async def test_who_puts_a_blob_again_keeps_it_from_being_removed(tmp_path):
    blobs = FileBlobs(tmp_path / "blobs")
    key = await blobs.put(b"x")
    os.utime(file_of(tmp_path / "blobs", key), (1, 1))
    old = [blob.key async for blob in blobs.each() if blob.at < 1000]

    await blobs.put(b"x")  # after the listing, and before its event is committed

    assert old == [key]
    assert not await blobs.remove(key, 1000)
    assert await blobs.get(key) == b"x"


@pytest.fixture
def cloud(tmp_path: Path, s3: S3Peer, monkeypatch: pytest.MonkeyPatch) -> ObjectBlobs:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return objects(open_store("s3://bucket/some/results"), tmp_path)


async def test_a_large_draft_goes_in_parts(cloud, s3, tmp_path):
    Path(cloud.drafts).mkdir()
    await cloud.adopt(draft(cloud, b"x" * 40_000_000))

    assert s3.largest_body <= 8 * 1024 * 1024


async def test_who_else_uses_a_store_can_be_asked(cloud, s3):
    other = ObjectBlobs(cloud._store, "the store", cloud.drafts, "that-home")
    await cloud.put(b"x")
    assert await cloud.others() == 0

    await other.put(b"y")

    assert await cloud.others() == 1


async def test_a_refusal_of_a_store_is_reported_without_its_message(cloud, s3):
    s3.refuses = True

    with pytest.raises(StoreError) as caught:
        await cloud.put(b"x")

    assert caught.value.kind == "store.denied"
    assert "credential is missing or refused" in str(caught.value)
    for secret in (KEY, SECRET, "StringToSign"):
        assert secret not in str(caught.value)
        assert caught.value.__cause__ is None


def test_a_cloud_without_its_variables_says_which(monkeypatch):
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigError, match="check AZURE_STORAGE_ACCOUNT_NAME and"):
        open_store("az://container/x")


async def test_a_missing_store_is_reported(cloud, s3, monkeypatch):
    s3.stop()
    monkeypatch.setitem(object_store._RETRY, "max_retries", 0)
    store = open_store("s3://bucket/some/results")

    with pytest.raises(StoreError) as caught:
        await objects(store, Path(cloud.drafts)).get("0" * 64)

    assert caught.value.kind == "store.unreachable"


async def test_what_is_in_another_bucket_of_ours_is_found(bucket, nats_server):
    other = NatsBlobs(nats_server.address, "other", bucket.blobs.drafts)
    key = await other.put(b"there")

    try:
        assert await bucket.blobs.get(key) == b"there"
        async with bucket.blobs.file(key) as file:
            assert Path(file).read_bytes() == b"there"
    finally:
        await drop(nats_server.address, "other")


async def test_nothing_is_written_to_a_foreign_bucket(bucket, nats_server):
    client = await nats.connect(nats_server.address)
    await client.jetstream().create_object_store("theirs")
    await client.close()
    blobs = NatsBlobs(nats_server.address, "theirs", bucket.blobs.drafts)

    try:
        for attempt in (blobs.check, lambda: blobs.put(b"x")):
            with pytest.raises(StoreError, match="was not made by NoETL") as caught:
                await attempt()
            assert caught.value.kind == "store.denied"
    finally:
        await drop(nats_server.address, "theirs")


def test_a_bucket_has_a_name_that_nats_takes(tmp_path):
    with pytest.raises(ConfigError, match="is not a valid name of a NATS bucket"):
        NatsBlobs("nats://127.0.0.1:1", "../x", str(tmp_path))


async def test_a_missing_nats_is_reported(tmp_path):
    with pytest.raises(StoreError) as caught:
        await NatsBlobs("nats://s3cret@127.0.0.1:1", "b", str(tmp_path)).put(b"x")

    assert caught.value.kind == "store.unreachable"
    assert "s3cret" not in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def file_of(folder: Path, key: str) -> Path:
    return folder / key[:2] / key[2:]


@pytest.mark.parametrize("whole_folder", [False, True])
async def test_links_are_not_followed(folder, tmp_path, whole_folder):
    blobs = FileBlobs(folder)
    key = await blobs.put(b"genuine")
    file = file_of(folder, key)
    moved = file.parent if whole_folder else file
    elsewhere = moved.rename(tmp_path / "elsewhere")
    moved.symlink_to(elsewhere)

    with pytest.raises(BlobGone):
        await blobs.get(key)


async def test_a_folder_is_refused_as_a_blob(folder):
    key = sha256(b"x").hexdigest()
    file_of(folder, key).mkdir(parents=True)

    with pytest.raises(BlobGone):
        await FileBlobs(folder).get(key)


async def test_nothing_half_written_stays(folder, monkeypatch):
    blobs = FileBlobs(folder)

    def fail(file: int) -> None:
        raise OSError(28, "No space left on device")

    file_of(folder, await blobs.put(b"x")).unlink()
    monkeypatch.setattr("noetl.adapters.blobs.files.os.fsync", fail)
    with pytest.raises(Exception, match="No space left") as caught:
        await blobs.put(b"x")

    assert caught.value.kind == "store.full"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["lock"]


async def test_a_folder_of_a_killed_process_is_synced_before_its_first_blob(
    folder, monkeypatch
):
    """It may have made the folder of the blob, and not synced the one above."""
    key = await FileBlobs(folder).put(b"x" * 100)
    (folder / key[:2] / key[2:]).unlink()
    synced: list[str] = []
    sync = os.fsync

    def note(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        sync(file)

    monkeypatch.setattr("noetl.adapters.blobs.files.os.fsync", note)
    blobs = FileBlobs(folder)
    await blobs.put(b"x" * 100)
    first, synced[:] = [*synced], []
    await blobs.put(b"x" * 100)

    assert str(folder) in first
    assert synced == [str(folder / key[:2])]


async def test_files_belong_to_their_user_alone(folder):
    key = await FileBlobs(folder).put(b"x")

    assert file_of(folder, key).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
