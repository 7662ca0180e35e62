"""How events of one commit are best encoded: bytes and CPU of six encodings.

python bench/batch_encodings.py

A chain, a parallel loop and small executions run on the embedded host. The batches of
their logs are then encoded in each way: JSON or msgpack, event by event or by columns,
with the id of the execution as it is or replaced by a byte. Each encoding gets a
dictionary of its own, of the same size, trained on half of the batches; bytes and CPU
are those of the other half.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import zstandard

from noetl.adapters.stores.batches import Row, unpack_lines
from noetl.adapters.stores.sqlite.schema import SQL
from noetl.bench import Host, playbooks

CHAIN, FANOUT, BACKLOG = 400, 4_000, 300
ROUNDS = 5
DICTIONARY_SIZE = 16 * 1024
LEVEL = 1


class Sample(NamedTuple):
    """The events of one commit as JSON, and the id of their execution."""

    name: bytes
    lines: Sequence[bytes]


Encode = Callable[[Sample], bytes]


def as_lines(sample: Sample) -> bytes:
    return b"\n".join(sample.lines)


def without_id(sample: Sample) -> bytes:
    plain = sample.name.replace(b"-", b"")
    return as_lines(sample).replace(sample.name, b"\x01").replace(plain, b"\x02")


def as_msgpack(sample: Sample) -> bytes:
    return b"".join(map(msgspec.msgpack.encode, decoded(sample)))


def as_arrays(sample: Sample) -> bytes:
    """Return events without the names of their members, which a schema would give."""
    rows = [list(event.values()) for event in decoded(sample)]
    return msgspec.msgpack.encode(rows)


def by_columns(sample: Sample) -> bytes:
    """Return each member of all events together: equal values are neighbours."""
    events = decoded(sample)
    names = dict.fromkeys(name for event in events for name in event)
    columns = [[event.get(name) for event in events] for name in names]
    return msgspec.json.encode([list(names), columns])


def columns_as_msgpack(sample: Sample) -> bytes:
    rows = [list(event.values()) for event in decoded(sample)]
    return msgspec.msgpack.encode([list(column) for column in zip_longest(*rows)])


ENCODINGS: dict[str, Encode] = {
    "JSON, a line each": as_lines,
    "the same, ids replaced": without_id,
    "msgpack": as_msgpack,
    "msgpack, without names": as_arrays,
    "JSON by columns": by_columns,
    "msgpack by columns": columns_as_msgpack,
}


def decoded(sample: Sample) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in sample.lines]


async def record(folder: Path) -> None:
    """Run the work whose log is encoded."""
    host = Host(folder)
    await host.start(playbooks("python"))
    await host.execute("chain", CHAIN)
    await host.execute("fanout", FANOUT)
    for _ in range(BACKLOG):
        await host.execute("chain", 3)
    await host.close()


def read(path: Path) -> list[Sample]:
    """Return the batches of all logs of a store."""
    db = sqlite3.connect(path)
    found = []
    for number, name in db.execute("SELECT number, execution_id FROM execution"):
        span = (number << 32, (number + 1) << 32)
        for row in db.execute(SQL["rows"], span):
            found.append(Sample(name.encode(), unpack_lines(Row(*row), name)))
    return found


def compressor(texts: Sequence[bytes]) -> zstandard.ZstdCompressor:
    dictionary = zstandard.train_dictionary(DICTIONARY_SIZE, list(texts), level=3)
    dictionary.precompute_compress(level=LEVEL)
    return zstandard.ZstdCompressor(
        level=LEVEL, dict_data=dictionary, write_dict_id=False
    )


def measure(encode: Encode, samples: Sequence[Sample]) -> tuple[int, int, float]:
    """Return bytes before and after compression, and the best CPU time of a round."""
    train, rest = samples[::2], samples[1::2]
    pack = compressor([encode(sample) for sample in train])
    texts = [encode(sample) for sample in rest]
    after = sum(len(pack.compress(text)) for text in texts)
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for text in texts:
            pack.compress(text)
        times.append(time.process_time() - began)
    return sum(map(len, texts)), after, min(times)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(record(Path(folder)))
        samples = read(Path(folder) / "log.db")
    events = sum(len(sample.lines) for sample in samples[1::2])
    count = len(samples[1::2])
    print(f"{count:,} batches of {events:,} events")
    print("| encoding | bytes an event | compressed | a batch | zstd, µs an event |")
    print("|---|---|---|---|---|")
    for name, encode in ENCODINGS.items():
        before, after, seconds = measure(encode, samples)
        print(
            f"| {name} | {before / events:,.0f} | {after / events:,.1f} "
            f"| {after / count:,.0f} | {seconds / events * 1e6:.2f} |"
        )


if __name__ == "__main__":
    main()
