"""Results that are written row by row: bounded, masked, checked, whole or gone."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from memory_blobs import MemoryBlobs

from noetl.engine.secrets.handles import Secrets
from noetl.errors import StoreError, ToolError
from noetl.ports import Blob
from noetl.runtime.worker.result_writer import BUFFER_BYTES, CallDrafts

SECRET = "hush-hush-secret"


@pytest.fixture
def blobs(tmp_path: Path) -> MemoryBlobs:
    return MemoryBlobs(str(tmp_path))


async def stored(blobs: MemoryBlobs, rows: list[Any], secrets: Secrets) -> Any:
    draft = CallDrafts(blobs, secrets).open()
    await draft.add(rows[:2])
    await draft.add(rows[2:])
    kept = await draft.keep()
    draft.drop()
    return json.loads(await blobs.get(kept.key))


@pytest.mark.spec("S-48")
@pytest.mark.parametrize("rows", [[], [{"a": 1}], [{"a": "ü\n"}, [1], None, "x"]])
async def test_rows_become_a_list(blobs: MemoryBlobs, rows: list[Any]) -> None:
    assert await stored(blobs, rows, Secrets()) == rows


@pytest.mark.spec("S-48")
async def test_each_row_is_a_line_of_its_own(blobs: MemoryBlobs) -> None:
    draft = CallDrafts(blobs, Secrets()).open()
    await draft.add([{"a": 1}, {"a": 2}])
    body = await blobs.get((await draft.keep()).key)

    assert body == b'[\n{"a":1},\n{"a":2}\n]'


@pytest.mark.spec("S-48", "RES-02")
async def test_what_is_in_memory_is_bounded(blobs: MemoryBlobs) -> None:
    draft = CallDrafts(blobs, Secrets()).open()
    batch, most = [{"text": "x" * 1000}] * 200, 0
    for _ in range(100):
        await draft.add(batch)
        most = max(most, len(draft._buffer))
    kept = await draft.keep()

    assert kept.size > 20_000_000
    assert most < BUFFER_BYTES + 250_000


@pytest.mark.spec("S-41", "S-48")
async def test_secrets_are_masked_as_in_any_result(
    blobs: MemoryBlobs, tmp_path: Path
) -> None:
    secrets = Secrets({"token": SECRET})
    rows = [{"a": f"it is {SECRET}."}, {"b": [SECRET]}, {"c": 1}]
    lines = tmp_path / "lines"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))

    direct = await stored(blobs, rows, secrets)
    adopted = await CallDrafts(blobs, secrets).adopt(str(lines), "json")

    expected = [{"a": "it is ***."}, {"b": ["***"]}, {"c": 1}]
    assert direct == expected
    assert json.loads(await blobs.get(adopted.key)) == expected


@pytest.mark.spec("S-48", "S-65")
async def test_a_row_that_claims_to_be_a_reference_is_refused(
    blobs: MemoryBlobs, tmp_path: Path
) -> None:
    row = {"column": {"store": "noetl", "key": "0" * 64, "size": 1}}
    lines = tmp_path / "lines"
    lines.write_text(json.dumps(row, separators=(",", ":")) + "\n")
    drafts = CallDrafts(blobs, Secrets())
    draft = drafts.open()

    with pytest.raises(ToolError) as caught:
        await draft.add([row])
    draft.drop()
    assert caught.value.kind == "ref.not_owner"
    with pytest.raises(ToolError) as caught:
        await drafts.adopt(str(lines), "json")
    assert caught.value.kind == "ref.not_owner"
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


async def test_invalid_json_is_refused(blobs: MemoryBlobs) -> None:
    draft = CallDrafts(blobs, Secrets()).open()
    with pytest.raises(ToolError, match="the result is not JSON"):
        await draft.add([{"a": object()}])
    draft.drop()


async def test_what_is_dropped_leaves_nothing(
    blobs: MemoryBlobs, tmp_path: Path
) -> None:
    draft = CallDrafts(blobs, Secrets()).open()
    await draft.add([1])
    draft.drop()
    draft.drop()

    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []
    assert [blob async for blob in blobs.each()] == []


class Away(MemoryBlobs):
    """A store that cannot be reached, or says no."""

    kind = ""

    async def adopt(self, file: str) -> Blob:
        raise StoreError("s3://bucket: the store cannot be reached", self.kind)


@pytest.mark.parametrize(
    ("kind", "retryable"), [("store.unreachable", True), ("store.denied", False)]
)
async def test_a_store_that_fails_is_an_error_of_the_call(
    tmp_path: Path, kind: str, retryable: bool
) -> None:
    blobs = Away(str(tmp_path))
    blobs.kind = kind
    draft = CallDrafts(blobs, Secrets()).open()
    await draft.add([1])

    with pytest.raises(ToolError) as caught:
        await draft.keep()

    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


@pytest.mark.spec("S-48")
async def test_a_file_is_stored_as_it_is(blobs: MemoryBlobs, tmp_path: Path) -> None:
    file = tmp_path / "some.parquet"
    file.write_bytes(b"PAR1")
    kept = await CallDrafts(blobs, Secrets()).adopt(str(file), "parquet")

    assert (kept.size, kept.hint) == (4, "parquet")
    assert await blobs.get(kept.key) == b"PAR1"


@pytest.mark.spec("S-41", "S-48")
async def test_rows_with_handles_of_others_are_masked(blobs: MemoryBlobs) -> None:
    name = "1" * 32
    rows = [{"h": {"secret": name}}, {"n": 1}]

    assert await stored(blobs, rows, Secrets(partial=True)) == [{"h": "***"}, {"n": 1}]


async def test_lines_are_written_when_the_buffer_is_full(
    blobs: MemoryBlobs, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    row = json.dumps({"text": "x" * 1000}) + "\n"
    lines.write_text(row * (BUFFER_BYTES // 500))

    kept = await CallDrafts(blobs, Secrets()).adopt(str(lines), "json")

    assert kept.size > BUFFER_BYTES


async def test_a_stored_value_is_a_file_for_the_call(blobs: MemoryBlobs) -> None:
    drafts, key = CallDrafts(blobs, Secrets()), await blobs.put(b"[1]")

    async with drafts.stored(key) as path:
        assert path
    with pytest.raises(ToolError) as error:
        await AsyncExitStack().enter_async_context(drafts.stored("0" * 64))
    assert error.value.kind == "ref.gone"
