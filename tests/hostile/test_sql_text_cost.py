"""SQL is read by one tokenizer, in time that grows with the text and no faster."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time

import pytest

from noetl.adapters.tools.duckdb import tool as duck
from noetl.adapters.tools.postgres import script as pg
from noetl.adapters.tools.postgres.script import split

MIB = 1024 * 1024
PARTS = [
    "/**/",
    "/*",
    "--\n",
    "-- x",
    "(",
    "'a;",
    "''",
    "$a$",
    "$",
    "e'\\'",
    '"',
    ";\n",
]
PARTS += ["SELECT ", "$1", ":a", "/* ; */", "x.y(", "\n"]
CHECKS: list[Callable[[str], object]] = [duck.may_write, pg.may_write]
READERS: list[Callable[[str], object]] = [duck.is_read_only, pg.is_read_only, split]


@pytest.mark.parametrize("check", CHECKS, ids=["duckdb", "postgres"])
@pytest.mark.parametrize("part", PARTS)
def test_whether_it_may_write_is_decided_at_once(
    check: Callable[[str], object], part: str
) -> None:
    for size in (duck.INSPECTED, MIB):
        began = process_time()
        check(part * (size // len(part)) + "!")
        assert process_time() - began < 0.1


@pytest.mark.parametrize("read", READERS, ids=["duckdb", "postgres", "split"])
@pytest.mark.parametrize("part", PARTS)
def test_four_times_the_text_takes_not_much_more_than_four_times_as_long(
    read: Callable[[str], object], part: str
) -> None:
    def seconds(size: int) -> float:
        text = part * (size // len(part)) + "!"
        began = process_time()
        read(text)
        return process_time() - began

    short = min(seconds(16_000) for _ in range(8))
    assert min(seconds(64_000) for _ in range(8)) < 10 * short + 0.05


def test_any_text_is_read_without_an_exception() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        text = "".join(chance.choice(PARTS) for _ in range(chance.randrange(12)))
        for read in READERS:
            read(text)


def test_a_placeholder_with_a_very_large_number_is_one_without_a_value() -> None:
    [statement] = split("SELECT $" + "9" * 5_000)
    assert len(statement.placeholders) == 1
    assert statement.placeholders[0].key == int("9" * 18)
