"""Values: JSON to the server, and the server's to JSON, without a server."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.adapters.tools.postgres.placeholders import bind
from noetl.adapters.tools.postgres.script import as_array, quote_name, quote_text
from noetl.adapters.tools.postgres.values import (
    date_text,
    interval_text,
    parse_json,
    shortest,
    timestamp_text,
    timestamptz_text,
    to_json,
    unique,
)
from noetl.errors import ToolError

EPOCH = dt.datetime.fromisoformat("2000-01-01")


class Named(NamedTuple):
    name: str
    kind: str = "scalar"
    schema: str = "pg_catalog"


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize(
    ("value", "type_", "bound", "cast"),
    [
        pytest.param(None, Named("int4"), None, None, id="null"),
        pytest.param(7, Named("int4"), 7, None, id="an integer"),
        pytest.param(7.0, Named("int8"), 7, None, id="a whole float"),
        pytest.param(7.5, Named("int8"), "7.5", "int8", id="no whole number"),
        pytest.param(2**31, Named("int4"), "2147483648", "int4", id="out of range"),
        pytest.param("7", Named("int4"), "7", "int4", id="a text for an integer"),
        pytest.param(True, Named("int4"), "true", "int4", id="true is no integer"),
        pytest.param(1, Named("bool"), "1", "bool", id="an integer for a boolean"),
        pytest.param(True, Named("bool"), True, None, id="a boolean"),
        pytest.param(7, Named("float8"), 7.0, None, id="an integer for a float"),
        pytest.param(10**400, Named("float8"), str(10**400), "float8", id="too large"),
        pytest.param(1.1, Named("numeric"), Decimal("1.1"), None, id="a decimal"),
        pytest.param(7, Named("text"), "7", None, id="a number for a text"),
        pytest.param({"a": 1}, Named("text"), '{"a":1}', None, id="JSON for a text"),
        pytest.param({"a": 1}, Named("jsonb"), '{"a":1}', None, id="a mapping"),
        pytest.param([1], Named("json"), "[1]", None, id="a list for json"),
        pytest.param('{"a":1}', Named("jsonb"), '{"a":1}', None, id="a document"),
        pytest.param("x", Named("date"), "x", "date", id="a date is the server's"),
        pytest.param("ok", Named("mood", "scalar", "s"), "ok", None, id="an enum"),
        pytest.param(
            [1, 2], Named("vector", "scalar", "public"), "[1,2]", None, id="a vector"
        ),
    ],
)
def test_a_value_becomes_what_its_place_asks_for(
    value: Any, type_: Named, bound: Any, cast: str | None
) -> None:
    found, target = bind(value, type_)

    assert (found, type(found)) == (bound, type(bound))
    assert target == (None if cast is None else f'"pg_catalog"."{cast}"')


@pytest.mark.parametrize(
    ("value", "type_", "bound"),
    [
        pytest.param([1, None], Named("int4[]", "array"), '{"1",NULL}', id="a list"),
        pytest.param(
            [[1, 2], [3, 4]],
            Named("int4[]", "array"),
            '{{"1","2"},{"3","4"}}',
            id="lists of lists",
        ),
        pytest.param(
            [{"a": 1}, [1], "2"],
            Named("jsonb[]", "array"),
            '{"{\\"a\\":1}","[1]","2"}',
            id="of JSON",
        ),
        pytest.param("{1,2}", Named("int4[]", "array"), "{1,2}", id="a literal"),
    ],
)
def test_a_list_becomes_an_array(value: Any, type_: Named, bound: str) -> None:
    cast = type_.name.removesuffix("[]")
    assert bind(value, type_) == (bound, f'"pg_catalog"."{cast}"[]')


def test_names_and_texts_are_quoted() -> None:
    assert quote_name('a"b') == '"a""b"'
    assert quote_text("it's") == "'it''s'"
    assert quote_text("a\\'b") == " E'a\\\\''b'"
    assert as_array(['a"b\\c', "", "NULL"]) == '{"a\\"b\\\\c","","NULL"}'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Decimal("1.10"), 1.1, id="exact as a float"),
        pytest.param(Decimal("3.00"), 3, id="whole"),
        pytest.param(Decimal(2**63 - 1), 2**63 - 1, id="the largest integer"),
        pytest.param(Decimal(2**63), str(2**63), id="larger than any integer"),
        pytest.param(Decimal("1E+30"), "1" + "0" * 30, id="a large exponent"),
        pytest.param(
            Decimal("12345678901234567.89"), "12345678901234567.89", id="money"
        ),
        pytest.param(Decimal("0.1"), 0.1, id="a tenth"),
        pytest.param(Decimal("1e-400"), f"{Decimal('1e-400'):f}", id="tiny"),
        pytest.param(Decimal("1e400"), f"{Decimal('1e400'):f}", id="huge"),
        pytest.param(Decimal("NaN"), "NaN", id="NaN"),
        pytest.param(Decimal("-Infinity"), "-Infinity", id="infinite"),
        pytest.param(float("nan"), "NaN", id="a float NaN"),
        pytest.param(float("inf"), "Infinity", id="an infinite float"),
        pytest.param(b"\x00\xff", "\\x00ff", id="bytes"),
        pytest.param((1, (2, "x")), [1, [2, "x"]], id="an anonymous row"),
    ],
)
def test_a_value_loses_nothing_in_json(value: Any, expected: Any) -> None:
    found = to_json(value)

    assert (found, type(found)) == (expected, type(expected))
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_keeps_its_value(value: Decimal) -> None:
    assert Decimal(str(to_json(value))) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_short_float_means_the_same(value: float) -> None:
    import struct

    data = struct.pack("!f", value)
    assert struct.pack("!f", shortest(data)) == data
    assert len(repr(shortest(data))) <= len(repr(value))


def test_json_with_a_number_beyond_floats_keeps_its_text() -> None:
    assert parse_json(b'{"a": [1e999, 2]}') == {"a": ["1e999", 2]}
    with pytest.raises(ToolError, match="nested too deeply"):
        parse_json(b"[" * 100_000 + b"]" * 100_000)


@given(st.dates())
def test_dates_are_those_of_the_calendar(day: dt.date) -> None:
    days = day.toordinal() - EPOCH.toordinal()
    assert date_text((days,)) == day.isoformat()


@given(st.datetimes())
def test_timestamps_are_iso_texts(moment: dt.datetime) -> None:
    microseconds = (moment - EPOCH) // dt.timedelta(microseconds=1)
    text = timestamp_text((microseconds,))
    assert dt.datetime.fromisoformat(text) == moment
    assert timestamptz_text((microseconds,)) == text + "+00:00"


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((14, 3, 14_706_700_000), "P1Y2M3DT4H5M6.7S"),
        ((0, 0, 0), "PT0S"),
        ((0, 0, -500_000), "PT-0.5S"),
        ((-1, 2, -3_600_000_000), "P-1M2DT-1H"),
        ((0, -400, 0), "P-400D"),
        ((2**31 - 1, 2**31 - 1, 2**63 - 1), "infinity"),
    ],
)
def test_intervals(parts: tuple[int, int, int], text: str) -> None:
    assert interval_text(parts) == text


def test_a_repeated_column_gets_a_name_of_its_own() -> None:
    assert unique(["a", "b", "a", "a_2", "a"]) == ["a", "b", "a_3", "a_2", "a_4"]
