"""Batches of events: how commits are split, read in part, and refused if damaged."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import msgspec
import pytest
import zstandard

from noetl.adapters.stores import batches
from noetl.adapters.stores.batches import (
    DICTIONARY,
    FIRST,
    MAX_BYTES,
    MAX_EVENTS,
    MAX_UNPACKED,
    Batch,
    Row,
    chain,
    first_damage,
    pack_batches,
    read_dictionary,
    unpack_lines,
    unpack_rows,
)
from noetl.errors import StoreError

ID = "0197a2c4-5b6d-7e8f-9a0b-1c2d3e4f5a6b"


def body(n: int, **payload: Any) -> bytes:
    record = {
        "timestamp": "2026-11-15T08:00:00.000000Z",
        "source": "server",
        "name": "step.done",
        "step": "start",
        "step_run_id": f"{ID}-{n}",
        "payload": {"n": n, **payload},
    }
    return msgspec.json.encode(record)


def rows_of(*commits: Sequence[bytes], legacy: int = 0) -> list[Row]:
    """The rows of these commits; before them ``legacy`` rows of an older version."""
    old = [Batch(1, None, body(n)) for n in range(1, legacy + 1)]
    packed = [batch for commit in commits for batch in pack_batches(commit, ID)]
    return chain([*old, *packed], 0, FIRST)


def numbered(first: int, last: int) -> list[bytes]:
    return [body(n) for n in range(first, last + 1)]


def damage_of(rows: list[Row], of: list[Row] | None = None) -> Any:
    recorded = (of or rows)[-1]
    return first_damage(rows, recorded.last_seq, recorded.hash, ID)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (0, []),
        (1, [1]),
        (MAX_EVENTS, [MAX_EVENTS]),
        (MAX_EVENTS + 1, [MAX_EVENTS, 1]),
        (2 * MAX_EVENTS + 500, [MAX_EVENTS, MAX_EVENTS, 500]),
    ],
)
def test_a_commit_goes_on_in_another_row_after_many_events(
    count: int, sizes: list[int]
) -> None:
    assert [each.events for each in pack_batches([b"{}"] * count, ID)] == sizes


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([MAX_BYTES], [1]),
        ([MAX_BYTES, 1], [1, 1]),
        ([MAX_BYTES // 2, MAX_BYTES // 2, 1], [2, 1]),
        ([1, 2 * MAX_BYTES, 1, 1], [1, 1, 2]),
    ],
)
def test_a_commit_goes_on_in_another_row_after_many_bytes(
    lengths: list[int], sizes: list[int]
) -> None:
    bodies = [b"x" * length for length in lengths]

    packed = pack_batches(bodies, ID)
    lines = [unpack_lines(row, ID) for row in chain(packed, 0, FIRST)]

    assert [each.events for each in packed] == sizes
    assert [line for some in lines for line in some] == bodies


def test_an_event_that_no_reader_would_take_is_not_stored(monkeypatch) -> None:
    monkeypatch.setattr(batches, "MAX_UNPACKED", 1_000)

    with pytest.raises(StoreError, match="1001 bytes is too large") as caught:
        pack_batches([b"x" * 1_001], ID)

    assert caught.value.kind == "store.encoding"


def test_ids_of_the_execution_take_a_byte_and_come_back() -> None:
    text = body(1, mine=ID, plain=ID.replace("-", ""), other=ID[:-1] + "c")

    [row] = rows_of([text])

    unpacked = zstandard.ZstdDecompressor(
        zstandard.ZstdCompressionDict(read_dictionary(DICTIONARY))
    ).decompress(row.body)
    assert ID.encode() not in unpacked
    assert unpack_lines(row, ID) == [text]


COMMITS = [numbered(1, 3), numbered(4, 4), numbered(5, 9), numbered(10, 10)]


@pytest.mark.parametrize("legacy", [0, 4])
@pytest.mark.parametrize("limit", [None, *range(1, 12)])
@pytest.mark.parametrize("after", range(11))
def test_any_slice_of_a_log_is_read(after: int, limit: int | None, legacy: int) -> None:
    rows = rows_of(*COMMITS)
    if legacy:
        rows = rows_of(*COMMITS[2:], legacy=legacy)
    needed = [row for row in rows if row.last_seq > after]

    events = unpack_rows(needed, ID, after, limit)

    last = 10 if limit is None else min(10, after + limit)
    assert [event.seq for event in events] == list(range(after + 1, last + 1))
    assert [event.payload["n"] for event in events] == [e.seq for e in events]
    assert {event.execution_id for event in events} <= {ID}


def test_rows_after_the_slice_are_not_looked_at() -> None:
    first, second, *_ = rows_of(*COMMITS)

    events = unpack_rows(iter([first, second._replace(body=b"no")]), ID, 0, 3)

    assert len(events) == 3


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_missing_row_is_named(after: int) -> None:
    rows = rows_of(*COMMITS)
    del rows[1]

    with pytest.raises(StoreError, match=f"{ID}: event 4 is missing") as caught:
        unpack_rows([row for row in rows if row.last_seq > after], ID, after, None)

    assert caught.value.kind == "log.hash_mismatch"


def bomb(size: int, sign: bytes = b"\n") -> bytes:
    dictionary = zstandard.ZstdCompressionDict(read_dictionary(DICTIONARY))
    return zstandard.ZstdCompressor(dict_data=dictionary).compress(sign * size)


def unsized(text: bytes) -> bytes:
    """A frame that does not say how large it is."""
    dictionary = zstandard.ZstdCompressionDict(read_dictionary(DICTIONARY))
    stream = zstandard.ZstdCompressor(dict_data=dictionary).compressobj()
    return stream.compress(text) + stream.flush()


HOSTILE: dict[str, Callable[[Row], Row]] = {
    "text": lambda row: row._replace(body="text"),  # type: ignore[arg-type]
    "nothing": lambda row: row._replace(body=b""),
    "no frame": lambda row: row._replace(body=b"{}"),
    "truncated": lambda row: row._replace(body=row.body[:-1]),
    "cut in the middle": lambda row: row._replace(body=row.body[: len(row.body) // 2]),
    "something after the frame": lambda row: row._replace(body=row.body + b"x"),
    "two frames": lambda row: row._replace(body=row.body * 2),
    "larger than a reader takes": lambda row: row._replace(body=bomb(MAX_UNPACKED + 1)),
    "larger with its ids": lambda row: row._replace(
        events=1, body=bomb(MAX_UNPACKED // 30, b"\1")
    ),
    "larger with plain ids": lambda row: row._replace(
        events=1, body=bomb(MAX_UNPACKED // 30, b"\2")
    ),
    "more events than a row has": lambda row: row._replace(
        events=MAX_EVENTS + 1, body=bomb(MAX_EVENTS)
    ),
    "of unknown size": lambda row: row._replace(body=unsized(body(5))),
    "more events than it says": lambda row: row._replace(events=row.events - 1),
    "fewer events than it says": lambda row: row._replace(events=row.events + 1),
    "no events": lambda row: row._replace(events=0),
    "less than no events": lambda row: row._replace(events=-5),
    "a number that is text": lambda row: row._replace(events="5"),  # type: ignore[arg-type]
    "an unknown dictionary": lambda row: row._replace(dictionary=DICTIONARY + 1),
    "a dictionary that is text": lambda row: row._replace(dictionary="1"),  # type: ignore[arg-type]
    "a plain row": lambda row: row._replace(dictionary=None),
    "not JSON": lambda row: row._replace(body=packed(b"{")),
    "no events of ours": lambda row: row._replace(body=packed(b'{"name":"x"}')),
}


def packed(line: bytes) -> bytes:
    return pack_batches([line] * 5, ID)[0].body


@pytest.mark.parametrize("name", HOSTILE)
def test_a_damaged_row_is_an_error_that_names_the_execution(name: str) -> None:
    rows = rows_of(*COMMITS)
    rows[2] = HOSTILE[name](rows[2])

    with pytest.raises(StoreError, match=ID) as caught:
        unpack_rows(rows, ID, 0, None)

    assert caught.value.kind in ("store.corrupt", "log.hash_mismatch")
    assert len(unpack_rows(rows[:2], ID, 0, None)) == 4


@pytest.mark.parametrize("name", HOSTILE)
def test_the_check_finds_a_damaged_row(name: str) -> None:
    whole = rows_of(*COMMITS)
    rows = [*whole[:2], HOSTILE[name](whole[2]), *whole[3:]]

    damage = damage_of(rows, of=whole)

    assert damage is not None
    assert damage.seq == 5


def test_the_check_finds_a_row_that_cannot_be_read_though_it_is_chained() -> None:
    """Someone who can write the log can also write the hashes."""
    rows = chain([Batch(5, DICTIONARY, bomb(MAX_UNPACKED + 1))], 0, FIRST)

    damage = damage_of(rows)

    assert damage.kind == "store.corrupt"
    assert f"{ID}: one of the events 1 to 5 is damaged" in damage.message


@pytest.mark.parametrize("sign", [b"\n", b"\1", b"\2"])
def test_a_row_takes_no_memory_for_more_than_it_may_have(sign: bytes) -> None:
    """It is refused before there is a list of its lines, or a text with its ids."""
    size = MAX_UNPACKED // 4
    row = Row(5, FIRST, 5, DICTIONARY, bomb(size, sign))
    tracemalloc.start()
    try:
        with pytest.raises(StoreError) as caught:
            unpack_lines(row._replace(events=5 if sign == b"\n" else 1), ID)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert caught.value.kind == "store.corrupt"
    assert peak < 2 * size


def test_the_check_names_the_event_for_every_single_flipped_byte() -> None:
    whole = rows_of(*COMMITS[2:], legacy=4)
    assert damage_of(whole) is None

    for index, row in enumerate(whole):
        for at in range(len(row.body)):
            rows = list(whole)
            rows[index] = row._replace(body=flipped(row.body, at))
            damage = damage_of(rows, of=whole)
            assert damage is not None, (index, at)
            assert damage.seq == row.first_seq
            assert str(row.last_seq) in damage.message
        for at in range(len(row.hash)):
            rows = list(whole)
            rows[index] = row._replace(hash=flipped(row.hash, at))
            damage = damage_of(rows, of=whole)
            assert damage is not None, (index, at)
            assert damage.seq == row.first_seq


def flipped(text: bytes, at: int) -> bytes:
    return text[:at] + bytes([text[at] ^ 0x20]) + text[at + 1 :]


@pytest.mark.parametrize(
    ("change", "seq", "words"),
    [
        (lambda rows: rows[1:], 1, "event 1 is missing"),
        (lambda rows: [*rows[:1], *rows[2:]], 4, "event 4 is missing"),
        (lambda rows: rows[:-1], 10, "event 10 is missing, of 10"),
        (lambda rows: [], 1, "event 1 is missing, of 10"),
        (lambda rows: [*rows, rows[-1]], 11, "event 11 is missing"),
        (
            lambda rows: [*rows, *chain(pack_batches(numbered(11, 12), ID), 10, b"")],
            11,
            "event 11 comes after the last on record",
        ),
        (lambda rows: rows_of(numbered(1, 10)), 10, "event 10 is not the one on"),
    ],
)
def test_the_check_finds_rows_that_are_missing_or_too_many(
    change: Callable[[list[Row]], list[Row]], seq: int, words: str
) -> None:
    whole = rows_of(*COMMITS)

    damage = damage_of(change(whole), of=whole)

    assert damage is not None
    assert (damage.seq, words in damage.message) == (seq, True), damage


def test_the_dictionary_is_the_one_that_rows_were_written_with() -> None:
    """It never changes for rows that exist: a better one gets the next number."""
    digest = sha256(read_dictionary(1)).hexdigest()

    assert digest == DIGEST


DIGEST = "dad20b62787989e8836562944f660d2d2fe24cb17d95686b62ca243a5133a901"


@pytest.mark.spec("EVT-01")
def test_threads_pack_and_read_at_the_same_time() -> None:
    """A store reads in threads of its own, beside the one that commits."""
    lines = [body(n, text=f"{n % 7}-" * 60) for n in range(500)]
    [row] = rows_of(lines)

    def work(_: int) -> int:
        [batch] = pack_batches(lines, ID)
        return (unpack_lines(row, ID) == lines) + (batch.body == row.body)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(400))) == {2}
