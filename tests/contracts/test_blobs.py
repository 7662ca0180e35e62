"""What every store of blobs promises."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.blobs.memory import MemoryBlobs
from noetl.errors import BlobCorrupt, BlobGone
from noetl.ports import Blobs

pytestmark = pytest.mark.spec("S-62")


@pytest.fixture(params=["memory", "files"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    if request.param == "memory":
        return MemoryBlobs()
    return FileBlobs(tmp_path / "blobs")


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
async def test_what_is_no_key_is_gone(blobs, key):
    with pytest.raises(BlobGone):
        await blobs.get(key)


@pytest.mark.parametrize("suffix", ["\0", "/", "/../x", "\n"])
async def test_a_key_with_more_behind_it_is_no_key(blobs, suffix):
    key = await blobs.put(b"x")

    with pytest.raises(BlobGone):
        await blobs.get(key + suffix)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


def file_of(folder: Path, key: str) -> Path:
    return folder / key[:2] / key[2:]


@pytest.mark.parametrize("damage", [b"", b"forge", b"forged!", b"forgery and more"])
async def test_a_damaged_file_is_not_given_out(folder, damage):
    blobs = FileBlobs(folder)
    key = await blobs.put(b"genuine")
    file_of(folder, key).write_bytes(damage)

    with pytest.raises(BlobCorrupt) as caught:
        await blobs.get(key)

    assert caught.value.kind == "ref.corrupt"


async def test_putting_again_repairs_a_damaged_file(folder):
    blobs = FileBlobs(folder)
    key = await blobs.put(b"genuine")
    file_of(folder, key).write_bytes(b"forged")

    await blobs.put(b"genuine")

    assert await blobs.get(key) == b"genuine"


async def test_a_removed_file_is_gone(folder):
    blobs = FileBlobs(folder)
    key = await blobs.put(b"genuine")
    file_of(folder, key).unlink()

    with pytest.raises(BlobGone):
        await blobs.get(key)


def test_a_file_is_found_by_its_key_and_verified(folder):
    blobs = FileBlobs(folder)
    key = asyncio.run(blobs.put(b"genuine" * 1_000_000))

    assert Path(blobs.locate(key)).read_bytes() == b"genuine" * 1_000_000
    file_of(folder, key).write_bytes(b"forged")
    with pytest.raises(BlobCorrupt):
        blobs.locate(key)
    file_of(folder, key).unlink()
    with pytest.raises(BlobGone):
        blobs.locate(key)
    with pytest.raises(BlobGone):
        blobs.locate("../../etc/passwd")


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


async def test_a_folder_is_no_blob(folder):
    key = sha256(b"x").hexdigest()
    file_of(folder, key).mkdir(parents=True)

    with pytest.raises(BlobGone):
        await FileBlobs(folder).get(key)


async def test_nothing_half_written_stays(folder, monkeypatch):
    blobs = FileBlobs(folder)

    def fail(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("noetl.adapters.blobs.files.os.fsync", fail)
    (folder / sha256(b"x").hexdigest()[:2]).mkdir(parents=True)
    with pytest.raises(Exception, match="No space left") as caught:
        await blobs.put(b"x")

    assert caught.value.kind == "store.full"
    assert [path for path in folder.rglob("*") if path.is_file()] == []


async def test_files_belong_to_their_user_alone(folder):
    key = await FileBlobs(folder).put(b"x")

    assert file_of(folder, key).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
