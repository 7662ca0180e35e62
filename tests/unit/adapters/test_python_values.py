"""Values that Python code returns, as JSON: one rule for each type."""

from __future__ import annotations

import json
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy
import pytest

from noetl.adapters.processes.noetl_child.values import NotJson, encode

pytestmark = pytest.mark.spec("PIPE-15")

ROME = timezone(timedelta(hours=2))
NOON = datetime(2026, 3, 1, 12, 0, 0, 500_000)  # noqa: DTZ001
Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Order:
    day: date
    lines: list[Any] = field(default_factory=list)
    total: Decimal = Decimal("1.20")


class Colour(Enum):
    RED = "red"
    WHEN = date(2026, 3, 1)


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    YES = "yes"


class NaT(datetime):
    def isoformat(self, *_: Any) -> str:
        return "NaT"


class Timestamp(datetime):
    """Like a timestamp of pandas, which has nanoseconds."""

    def isoformat(self, *_: Any) -> str:
        return super().isoformat() + "123"


def json_of(value: Any) -> Any:
    return json.loads(encode(value, 10_000))


CONVERTED = {
    "datetime": (NOON, "2026-03-01T12:00:00.5"),
    "datetime of a whole second": (NOON.replace(microsecond=0), "2026-03-01T12:00:00"),
    "datetime in UTC": (NOON.replace(tzinfo=UTC), "2026-03-01T12:00:00.5+00:00"),
    "datetime of a zone": (NOON.replace(tzinfo=ROME), "2026-03-01T12:00:00.5+02:00"),
    "date": (date(2026, 3, 1), "2026-03-01"),
    "time": (time(12, 5, 0, 1), "12:05:00.000001"),
    "timedelta": (timedelta(days=1, hours=2, seconds=3.5), "P1DT2H3.5S"),
    "timedelta of days": (timedelta(days=2), "P2D"),
    "timedelta below zero": (timedelta(minutes=-1, seconds=-30), "PT-1M-30S"),
    "timedelta of nothing": (timedelta(), "PT0S"),
    "Decimal that is exact": (Decimal("1.20"), 1.2),
    "Decimal that is whole": (Decimal("12E2"), 1200),
    "Decimal of many digits": (
        Decimal("0.12345678901234567890"),
        "0.12345678901234567890",
    ),
    "Decimal beyond 64 bits": (Decimal(2**63), str(2**63)),
    "UUID": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "set": ({3, 1, 2}, [1, 2, 3]),
    "set of mixed types": ({"b", 2, "a", None}, [2, "a", "b", None]),
    "frozenset of sets": (frozenset({frozenset({2, 1})}), [[1, 2]]),
    "set of tuples": ({(2, "b"), (1, "a")}, [[1, "a"], [2, "b"]]),
    "tuple": ((1, (2,)), [1, [2]]),
    "namedtuple": (Point(1, date(2026, 3, 1)), [1, "2026-03-01"]),
    "Enum": (Colour.RED, "red"),
    "Enum of dates": (Colour.WHEN, "2026-03-01"),
    "IntEnum": (Level.HIGH, 3),
    "StrEnum": (Word.YES, "yes"),
    "dataclass": (
        Order(date(2026, 3, 1), [{"at": time(1)}]),
        {"day": "2026-03-01", "lines": [{"at": "01:00:00"}], "total": 1.2},
    ),
    "mapping of values": (
        OrderedDict(a=[date(2026, 3, 1), 1], b={"c": UUID(int=1)}, d=1),
        {"a": ["2026-03-01", 1], "b": {"c": str(UUID(int=1))}, "d": 1},
    ),
    "numpy.int64": (numpy.int64(5), 5),
    "numpy.float32": (numpy.float32(0.5), 0.5),
    "numpy.float64": (numpy.float64(0.1), 0.1),
    "numpy.bool": (numpy.bool_(True), True),
    "numpy.str": (numpy.str_("a"), "a"),
    "numpy.datetime64": (
        numpy.datetime64("2026-03-01T12:00:00.500"),
        "2026-03-01T12:00:00.5",
    ),
    "numpy.datetime64 of a day": (numpy.datetime64("2026-03-01"), "2026-03-01"),
    "numpy.datetime64 of no time": (numpy.datetime64("NaT"), None),
    "numpy.timedelta64": (numpy.timedelta64(90, "s"), "PT1M30S"),
    "numpy.timedelta64 of no time": (numpy.timedelta64("NaT"), None),
    "pandas.Timestamp": (
        Timestamp(2026, 3, 1, 0, 0, 0, 5),
        "2026-03-01T00:00:00.000005123",
    ),
    "pandas.NaT": (NaT(1, 1, 1), None),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_a_value_becomes_json_by_the_rule_of_its_type(name: str) -> None:
    value, expected = CONVERTED[name]
    assert json_of({"value": [value]}) == {"value": [expected]}
    assert json_of(value) == expected


def numbers() -> Any:
    yield 1


class Model:
    def model_dump(self) -> dict[str, int]:
        return {}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (
        lambda: b"a",
        "result.a[0] is a bytes; return value.decode(), or base64.",
    ),
    "generator": (numbers, "is a generator; return list(value)"),
    "range": (lambda: range(3), "is a range; return list(value)"),
    "keys": (lambda: {}.keys(), "is a dict_keys; return list(value)"),
    "deque": (lambda: deque([1]), "is a deque; return list(value)"),
    "complex": (lambda: 1j, "is a complex; return [value.real, value.imag]"),
    "numpy array": (lambda: numpy.zeros(2), "is a ndarray; return value.tolist()"),
    "path": (lambda: PurePosixPath("a"), "is a PurePosixPath; return str(value)"),
    "model": (Model, "is a Model; return value.model_dump()"),
    "object": (object, "is an object; return text, numbers, lists or mappings of it"),
    "proxy": (lambda: MappingProxyType({}), "is a mappingproxy; return text, numbers"),
    "NaN": (lambda: float("nan"), "is nan, which JSON cannot represent; use None"),
    "Decimal NaN": (lambda: Decimal("NaN"), "is nan, which JSON cannot represent"),
    "numpy NaN": (lambda: numpy.float32("inf"), "is inf, which JSON cannot represent"),
    "key": (lambda: {date(2026, 3, 1): 1}, "which is not text; use str(key)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_value_is_named_with_the_cure(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(NotJson) as caught:
        encode({"a": [make()]}, 10_000)
    assert str(caught.value).startswith("result.a[0] ")
    assert said in str(caught.value)


def test_a_dataclass_that_contains_itself_is_refused() -> None:
    order = Order(date(2026, 3, 1))
    order.lines.append(order)
    with pytest.raises(NotJson, match="contains itself"):
        encode(order, 10_000)


def test_the_returned_value_stays_as_it_was() -> None:
    value = {"a": [date(2026, 3, 1)], "b": {1, 2}}
    encode(value, 10_000)
    assert value == {"a": [date(2026, 3, 1)], "b": {1, 2}}
