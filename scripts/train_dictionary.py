"""Train a dictionary for the batches of the log on the rows of some logs.

    .venv/bin/python scripts/train_dictionary.py OUT.bin LOG[=ROWS] [LOG[=ROWS] …]

A log is the file ``log.db`` of a home, or the address of a database. At most so many
rows of each are taken, by default 10, as they would be written now. What differs from
execution to execution is replaced by chance: hashes, times, ids of actions, and the
names of the project's own benchmarks. So the dictionary has the forms of events and
none of these values.

A dictionary that is in use never changes: rows are read by it for ever. A better one
gets the next number, in ``adapters/stores/batches.py`` and in a migration of each
store.
"""

import asyncio
import random
import re
import sqlite3
import string
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import zstandard

from noetl.engine.event_codec import pack, unpack

SIZE = 16 * 1024
ROWS = 10
EVENTS = 24
"""Events of a row: those of a large one repeat each other."""

_SQLITE = """
SELECT x.execution_id, (b.key & 0xffffffff) - b.events, b.body, d.body
FROM batch AS b JOIN execution AS x ON x.number = b.key >> 32
  JOIN dictionary AS d ON d.number = b.dictionary ORDER BY b.key
"""
_POSTGRES = """
SELECT x.execution_id, b.last_seq - b.events, b.body, d.body
FROM noetl.batch AS b JOIN noetl.execution AS x ON x.number = b.execution
  JOIN noetl.dictionary AS d ON d.number = b.dictionary
ORDER BY b.execution, b.last_seq
"""
_CHANCE = random.Random(1)
_BASE_32 = string.ascii_lowercase + "234567"


Found = tuple[str, int, bytes, bytes]
"""Id of the execution, position before the row, its body and dictionary."""


def rows_of(log: str) -> list[Found]:
    if "://" in log:
        return asyncio.run(_fetch(log))
    with closing(sqlite3.connect(log)) as db:
        return db.execute(_SQLITE).fetchall()


async def _fetch(address: str) -> list[Found]:
    connection = await asyncpg.connect(address)
    try:
        return [(*row,) for row in await connection.fetch(_POSTGRES)]
    finally:
        await connection.close()


def samples(log: str, most: int) -> Iterator[bytes]:
    """Yield the texts of some rows, as they are compressed."""
    rows = rows_of(log)
    for name, seq, body, dictionary in _CHANCE.sample(rows, min(most, len(rows))):
        data = zstandard.ZstdCompressionDict(dictionary)
        text = zstandard.ZstdDecompressor(dict_data=data).decompress(body)
        plain = name.replace("-", "").encode()
        lines = text.replace(b"\x02", plain).replace(b"\x01", name.encode())
        events = [
            unpack(line, name, number)
            for number, line in enumerate(lines.split(b"\n")[:EVENTS], seq + 1)
        ]
        text = b"\n".join(map(pack, events)).replace(name.encode(), b"\x01")
        yield without_values(text.replace(plain, b"\x02"))


def _digits(alphabet: str, count: int) -> str:
    return "".join(_CHANCE.choices(alphabet, k=count))


def _moment(day: str) -> str:
    return f"{day}.{_CHANCE.randrange(10**6):06}Z"


def _day() -> str:
    chosen = (_CHANCE.randint(1, most) for most in (12, 28, 23, 59, 59))
    month, day, hour, minute, second = chosen
    year = _CHANCE.randint(2026, 2035)
    return f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"


_NAMES = ("start", "fetch", "load", "process", "check", "work", "total", "send")
_PATHS = ("orders", "daily", "report", "import", "sync", "prices")


def without_values(text: bytes) -> bytes:
    """Replace values by others of the same form; equal ones by equal ones."""
    day, made = _day(), dict[str, str]()
    forms = {
        r"\b[0-9a-f]{16,64}\b": lambda old: _digits("0123456789abcdef", len(old)),
        r"\ba1[a-z2-7]{26}\b": lambda _: "a1" + _digits(_BASE_32, 26),
        r"20\d\d-\d\d-\d\dT[\d:]{8}\.\d{6}Z": lambda _: _moment(day),
        r'(?<="duration_ms":)\d[\d.]*': lambda _: f"{_CHANCE.random() * 99:.3f}",
        r'(?<="folder":")[^"]*': lambda _: "/srv/playbooks",
        r'"(work|spread)"': lambda _: f'"{_CHANCE.choice(_NAMES)}"',
        r"bench/(chain|fanout)": lambda _: f"sales/{_CHANCE.choice(_PATHS)}",
        r'"(chain|fanout)"': lambda _: f'"{_CHANCE.choice(_PATHS)}"',
    }
    found = text.decode()
    for form, make in forms.items():
        found = re.sub(
            form,
            lambda match, make=make: made.setdefault(match[0], make(match[0])),
            found,
        )
    return found.encode()


def main(out: str, *logs: str) -> None:
    texts = []
    for each in logs:
        log, _, most = each.partition("=")
        texts += samples(log, int(most or ROWS))
    _CHANCE.shuffle(texts)
    trained = zstandard.train_dictionary(SIZE, texts, level=3)
    Path(out).write_bytes(trained.as_bytes())
    size = sum(map(len, texts))
    print(f"{len(texts)} texts, {size} bytes: {len(trained.as_bytes())} bytes in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
