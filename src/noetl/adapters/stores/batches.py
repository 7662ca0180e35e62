"""Batches of events: rows of the log, compressed and chained by hashes.

A row holds events that were committed together: their JSON, one event a line, with the
id of the execution replaced by a byte, compressed by Zstandard with the dictionary of
the store. ``scripts/read_log.py`` reads a store by this description alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

import zstandard

from noetl.engine.event_codec import unpack
from noetl.engine.events import Event
from noetl.errors import StoreError
from noetl.ports import Damage

DICTIONARY = 1
"""Number of the dictionary for new batches. Stores keep those of their older rows."""
LEVEL, SMALL_LEVEL, SMALL = 1, 5, 4 * 1024
"""Levels of compression, the second for texts up to the third: there it takes 3 µs more
for a sixth less, and nothing less of larger ones."""
MAX_EVENTS = 1_000
MAX_BYTES = 256 * 1024
"""Events and bytes after which the events of one commit go on in another row, so that
a part of a log is read without the rest."""
MAX_UNPACKED = 64 * 1024 * 1024
"""Bytes that a row may unfold to when it is read."""

_ID, _PLAIN_ID = b"\x01", b"\x02"
"""Bytes, in no JSON, for the id of the execution and for its digits without dashes."""

FIRST = b""
"""Hash that precedes the first batch of an execution."""
HASH_BYTES = 16


class Batch(NamedTuple):
    """The last columns of a row: number of events, number of the dictionary, body.

    Stores of older versions have a row for each event, plain and without a dictionary.
    """

    events: int
    dictionary: int | None
    body: bytes


class Row(NamedTuple):
    """A stored row; ``last_seq`` is the position of its last event."""

    last_seq: int
    hash: bytes
    events: int
    dictionary: int | None
    body: bytes

    @property
    def first_seq(self) -> int:
        return self.last_seq - self.events + 1


def read_dictionary(number: int) -> bytes:
    """Return a dictionary as stores keep it. Its bytes never change."""
    return files(__package__).joinpath(f"dictionary_{number}.bin").read_bytes()


class _OfThread(threading.local):
    """Compressor and decompressors of one thread: used by two threads at a time, they
    return wrong bytes."""

    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.decompressors: dict[int, zstandard.ZstdDecompressor] = {}


_of_thread = _OfThread()


def _compressor(level: int) -> zstandard.ZstdCompressor:
    found = _of_thread.compressors.get(level)
    if found is None:
        dictionary = _dictionary(DICTIONARY)
        dictionary.precompute_compress(level=level)
        found = _of_thread.compressors[level] = zstandard.ZstdCompressor(
            level=level, dict_data=dictionary, write_dict_id=False
        )
    return found


def _decompressor(number: int) -> zstandard.ZstdDecompressor:
    found = _of_thread.decompressors.get(number)
    if found is None:
        found = zstandard.ZstdDecompressor(dict_data=_dictionary(number))
        _of_thread.decompressors[number] = found
    return found


def _dictionary(number: int) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(read_dictionary(number))


def pack_batches(bodies: Sequence[bytes], execution_id: str) -> list[Batch]:
    """Compress the events of one commit: into one batch unless they are many.

    Raises ``StoreError`` (``store.encoding``) for an event that no reader would take.
    """
    name = execution_id.encode()
    plain = name.replace(b"-", b"")
    found = []
    for part in _parts(bodies):
        text = b"\n".join(part)
        if len(text) > MAX_UNPACKED:
            message = f"an event of {len(text)} bytes is too large for the log"
            raise StoreError(f"execution {execution_id}: {message}", "store.encoding")
        text = text.replace(name, _ID).replace(plain, _PLAIN_ID)
        compressor = _compressor(SMALL_LEVEL if len(text) <= SMALL else LEVEL)
        found.append(Batch(len(part), DICTIONARY, compressor.compress(text)))
    return found


def _parts(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    if len(bodies) <= MAX_EVENTS and sum(map(len, bodies)) <= MAX_BYTES:
        if bodies:
            yield bodies
        return
    part: list[bytes] = []
    size = 0
    for body in bodies:
        if part and (len(part) == MAX_EVENTS or size + len(body) > MAX_BYTES):
            yield part
            part, size = [], 0
        part.append(body)
        size += len(body)
    yield part


def unpack_rows(
    rows: Iterable[Row], execution_id: str, after: int, limit: int | None
) -> list[Event]:
    """Decode at most ``limit`` events after a position.

    The first row holds the event after it. Raises ``StoreError``: ``store.corrupt``,
    or ``log.hash_mismatch`` for a gap.
    """
    events: list[Event] = []
    seq = after
    for row in rows:
        if not _is_sound(row):
            raise _unsound(execution_id, row)
        skipped = seq + 1 - row.first_seq
        if skipped < 0 or (skipped and events):
            raise missing_event(execution_id, seq + 1)
        lines = unpack_lines(row, execution_id)[skipped:]
        if limit is not None:
            lines = lines[: after + limit - seq]
        try:
            events += [
                unpack(line, execution_id, number)
                for number, line in enumerate(lines, seq + 1)
            ]
        except (ValueError, TypeError) as error:
            raise _corrupt(execution_id, row, error) from error
        seq += len(lines)
        if seq - after == limit:
            break
    return events


def unpack_lines(row: Row, execution_id: str) -> list[bytes]:
    """Return the events of a row as JSON. Raises ``StoreError``."""
    try:
        if row.dictionary is not None:
            return _unpack(row, execution_id.encode()).split(b"\n")
        _check_count(row, 1)
        return [_bytes(row.body)]
    except (ValueError, TypeError, OSError, zstandard.ZstdError) as error:
        raise _corrupt(execution_id, row, error) from error


def _check_count(row: Row, found: int) -> None:
    if found != row.events:
        raise ValueError(f"{found} events instead of {row.events}")


def _unpack(row: Row, name: bytes) -> bytes:
    """Return the text of a row. Its lines and its ids are counted before there is
    memory for them: some kilobytes may hold 64 MB of either."""
    text, plain = _decompress(row), name.replace(b"-", b"")
    _check_count(row, text.count(b"\n") + 1)
    ids = text.count(_ID) * len(name) + text.count(_PLAIN_ID) * len(plain)
    if len(text) + ids > MAX_UNPACKED:
        raise ValueError("the batch is too large")
    return text.replace(_PLAIN_ID, plain).replace(_ID, name)


def _is_sound(row: Row) -> bool:
    """Return whether the columns can be of a row: a file may be edited by hand."""
    return isinstance(row.events, int) and 0 < row.events <= MAX_EVENTS


def _unsound(execution_id: str, row: Row) -> StoreError:
    message = f"{execution_id}: the row that ends with event {row.last_seq} is damaged"
    return StoreError(message, "store.corrupt")


def _decompress(row: Row) -> bytes:
    body = _bytes(row.body)
    if not 0 <= zstandard.frame_content_size(body) <= MAX_UNPACKED:
        raise ValueError("the size of the batch is unknown or too large")
    unpack = _decompressor(_known(row.dictionary)).decompress
    return unpack(body, allow_extra_data=False)


def _known(number: int | None) -> int:
    if number != DICTIONARY:
        raise ValueError(f"there is no dictionary {number}")
    return DICTIONARY


def _bytes(body: bytes) -> bytes:
    if not isinstance(body, bytes):  # a row that was edited by hand may hold text
        raise TypeError("the body is not binary")
    return body


def link(previous: bytes, batch: Batch | Row) -> bytes:
    """Return the hash of a row, given the hash of the row before it."""
    if batch.dictionary is None:
        return sha256(previous + batch.body).digest()
    head = b"%d %d " % (batch.events, batch.dictionary)
    return sha256(previous + head + batch.body).digest()[:HASH_BYTES]


def chain(batches: Iterable[Batch], after: int, previous: bytes) -> list[Row]:
    """Return the rows of batches that follow a position and its hash."""
    rows = []
    for batch in batches:
        after += batch.events
        previous = link(previous, batch)
        rows.append(Row(after, previous, *batch))
    return rows


def first_damage(
    rows: Iterable[Row], last_seq: int, last_hash: bytes, execution_id: str
) -> Damage | None:
    """Check the rows of a log in order, up to the recorded position."""
    check = Check(last_seq, last_hash, execution_id)
    check.take(rows)
    return check.end()


class Check:
    """Checks the rows of a log in order, some at a time, up to the recorded position.

    ``seq`` is the position up to which they are whole; ``damage`` the first damage.
    """

    def __init__(self, last_seq: int, last_hash: bytes, execution_id: str) -> None:
        self.last_seq = last_seq
        self.seq = 0
        self.damage: Damage | None = None
        self._last_hash = last_hash
        self._execution_id = execution_id
        self._previous = FIRST

    def take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.damage = self._look_at(row)
            if self.damage is not None:
                return
            self.seq, self._previous = row.last_seq, row.hash

    def end(self) -> Damage | None:
        """Return the first damage of the rows, or that of the record."""
        seq, last_seq = self.seq, self.last_seq
        if self.damage is not None:
            return self.damage
        if seq < last_seq:
            return Damage(seq + 1, f"event {seq + 1} is missing, of {last_seq}")
        if self._previous != self._last_hash:
            return Damage(last_seq, f"event {last_seq} is not the one on record")
        return None

    def _look_at(self, row: Row) -> Damage | None:
        expected = self.seq + 1
        if not _is_sound(row):
            return Damage(expected, str(_unsound(self._execution_id, row)))
        first = row.first_seq
        if first != expected:
            return Damage(expected, f"event {expected} is missing")
        if row.last_seq > self.last_seq:
            after = self.last_seq + 1
            return Damage(after, f"event {after} comes after the last on record")
        is_whole = isinstance(row.body, bytes) and isinstance(
            row.dictionary, int | None
        )
        if not is_whole or link(self._previous, row) != row.hash:
            return Damage(first, f"{_named(first, row.last_seq)} not what was recorded")
        try:
            unpack_lines(row, self._execution_id)
        except StoreError as error:
            return Damage(first, str(error), error.kind)
        return None


def _named(first: int, last: int) -> str:
    if first == last:
        return f"event {first} is"
    return f"one of the events {first} to {last} is"


def missing_event(execution_id: str, seq: int) -> StoreError:
    message = f"execution {execution_id}: event {seq} is missing"
    return StoreError(message, "log.hash_mismatch")


def _corrupt(execution_id: str, row: Row, error: Exception) -> StoreError:
    which = _named(row.first_seq, row.last_seq)
    message = f"{execution_id}: {which} damaged, and cannot be decoded: {error}"
    return StoreError(message, "store.corrupt")
