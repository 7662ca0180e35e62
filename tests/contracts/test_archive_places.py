"""Files of an archive: in a folder, and in a bucket of an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from s3_peer import SECRET, S3Peer

from noetl.adapters.archive.manifest import decode_manifest
from noetl.adapters.archive.places import Place, open_place
from noetl.errors import StoreError


@pytest.fixture(params=["file", "s3"])
def place(
    request: Any, s3: S3Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    if request.param == "file":
        return open_place(f"file://{tmp_path}/archive")
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return open_place(f"s3://{tmp_path.name.replace('_', '-')}/noetl")


async def test_files_are_stored_listed_copied_and_removed(place, tmp_path):
    (tmp_path / "one").write_bytes(b"first")
    await place.put_file("log/y=2026/one.parquet", str(tmp_path / "one"))
    await place.put("log/y=2026/two.parquet", b"second")
    await place.put("manifests/one.json", b"{}")
    await place.put("manifests/one.json", b"[]")
    await place.remove("log/y=2026/two.parquet")
    await place.remove("log/y=2026/two.parquet")

    assert [each async for each in place.list_files("log")] == [
        "log/y=2026/one.parquet",
    ]
    assert await place.get("manifests/one.json") == b"[]"
    assert await place.size("log/y=2026/one.parquet") == 5
    assert await place.fetch("log/y=2026/one.parquet", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"first"


async def test_a_file_that_is_not_there_is_none(place, tmp_path):
    assert await place.get("manifests/x.json") is None
    assert await place.size("manifests/x.json") is None
    assert not await place.fetch("manifests/x.json", str(tmp_path / "copy"))
    assert [each async for each in place.list_files("manifests")] == []


async def test_a_folder_that_cannot_be_written_is_an_error_with_its_place(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    place = open_place(f"file://{tmp_path}/file")

    with pytest.raises(StoreError, match="file: a/b: Not a dir"):
        await place.put("a/b", b"x")


@pytest.mark.parametrize("place", ["s3"], indirect=True)
async def test_a_store_that_refuses_is_an_error_without_its_credential(place, s3):
    s3.refuses = True
    try:
        with pytest.raises(StoreError) as refused:
            await place.put("a/b", b"x")
    finally:
        s3.refuses = False

    assert refused.value.kind == "store.denied"
    assert SECRET not in str(refused.value)


FILE = {"path": "log/y=2026/m=11/a.parquet", "sha256": "0" * 64, "bytes": 1, "rows": 1}
SUMMARY = {"execution_id": "a", "status": "failed", "playbook": {}, "started_at": ""}
ENTRY = {"summary": SUMMARY, "events": 1, "last_hash": "0" * 32}
MANIFEST = {
    "name": "a",
    "written_at": "",
    "files": {"log": FILE},
    "executions": [ENTRY],
}
HOSTILE = {
    "a file elsewhere": {"files": {"log": {**FILE, "path": "../../etc/passwd"}}},
    "an absolute path": {"files": {"log": {**FILE, "path": "/etc/passwd"}}},
    "a name with a folder": {"name": "../a"},
    "a value elsewhere": {"executions": [{**ENTRY, "values": ["../../../x"]}]},
    "a hash that is none": {"executions": [{**ENTRY, "last_hash": "zz" * 16}]},
    "another version": {"version": 2},
    "no digest": {},
    "no mapping": None,
}


@pytest.mark.parametrize("change", [*HOSTILE])
def test_a_hostile_manifest_is_refused(change):
    changed = HOSTILE[change]
    document = [] if changed is None else {**MANIFEST, **changed}

    with pytest.raises(StoreError, match=r"manifests/a\.json: the manifest"):
        decode_manifest(msgspec.json.encode(document), "manifests/a.json")
