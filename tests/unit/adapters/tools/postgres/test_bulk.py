"""Bulk inputs: what they may say, and rows as COPY reads them."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.adapters.tools.postgres.copy import (
    columns_of,
    encode_rows,
    read_copy_in,
    read_copy_out,
    read_table,
)
from noetl.errors import ToolError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("orders", ("orders",)),
        ("Shop.Orders", ("shop", "orders")),
        ('"Shop"."Or""ders"', ("Shop", 'Or"ders')),
    ],
)
def test_a_table_is_named_as_in_sql(text: str, names: tuple[str, ...]) -> None:
    assert read_table("copy_from", text) == names


@pytest.mark.parametrize("text", ["", "a b", "a;b", "a.b.c", "a.", "(a)", "'a'", 5])
def test_invalid_table_names(text: Any) -> None:
    with pytest.raises(ToolError, match="a name such as"):
        read_table("copy_from", text)


def encoded(given: dict[str, Any], kinds: list[str] | None = None) -> str:
    copy = read_copy_in({"table": "t", **given})
    columns = columns_of(copy) or ["a", "b"]
    kinds = kinds or ["scalar"] * len(columns)
    return b"".join(encode_rows(copy, columns, kinds)).decode()


def test_rows_are_escaped() -> None:
    rows = [["tab\t", "line\n"], ["back\\slash", None], [True, {"a": "\n"}], ["", 1.5]]

    assert encoded({"rows": rows}) == (
        'tab\\t\tline\\n\nback\\\\slash\t\\N\ntrue\t{"a":"\\\\n"}\n\t1.5\n'
    )


def test_a_list_is_an_array_or_json_by_its_column() -> None:
    rows = [{"a": [1, "x"], "b": [1, "x"]}]

    text = encoded({"rows": rows}, ["array", "scalar"])

    assert text == '{"1","x"}\t[1,"x"]\n'


def test_named_columns_take_what_they_know() -> None:
    rows = [{"a": 1, "z": 9}, {"b": 2}]

    assert encoded({"rows": rows, "columns": ["b", "a"]}) == "\\N\t1\n2\t\\N\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1}, {"b": 1}], "rows[1] and rows[0] differ in 'a'"),
        ([[1, 2], [1]], "rows[1] has 1 values, not 2 for a, b"),
        ([[1, 2], 5], "rows[1] must be a mapping"),
    ],
)
def test_a_row_that_does_not_fit_is_named(rows: list[Any], message: str) -> None:
    with pytest.raises(ToolError) as raised:
        encoded({"rows": rows})

    assert message in raised.value.message


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ('id,"full, name"\n1,x', ["id", "full, name"]),
        ("\ufeffid,b\r\n1,2", ["id", "b"]),
        ("", None),
    ],
)
def test_the_first_line_of_csv_names_the_columns(
    header: str, names: list[str] | None
) -> None:
    assert columns_of(read_copy_in({"table": "t", "csv": header}), header) == names


@pytest.mark.parametrize(
    ("read", "given", "message"),
    [
        (read_copy_in, {"table": "t"}, "one of rows, csv, path"),
        (read_copy_in, {"table": "t", "rows": [], "csv": ""}, "one of rows, csv, path"),
        (read_copy_in, {"table": "t", "rows": {}}, "list of mappings"),
        (read_copy_in, {"table": "t", "csv": 5}, "csv must be text"),
        (read_copy_in, {"tabel": "t", "rows": []}, "unknown 'tabel'"),
        (read_copy_in, {"table": "t", "rows": [], "columns": []}, "list of names"),
        (read_copy_in, {"table": "t", "csv": "", "delimiter": ";;"}, "one character"),
        (read_copy_in, {"table": "t", "csv": "", "header": "no"}, "true or false"),
        (read_copy_in, {"table": "t", "csv": "", "null": None}, "null must be text"),
        (read_copy_in, "t", "must be a mapping"),
        (read_copy_out, {}, "either table or query"),
        (read_copy_out, {"table": "t", "query": "x"}, "either table or query"),
        (read_copy_out, {"table": "t", "format": "xml"}, "not csv or rows"),
        (read_copy_out, {"query": "SELECT 1; SELECT 2"}, "one statement"),
        (read_copy_out, {"query": "SELECT $1"}, "format: rows"),
        (read_copy_out, {"query": "SELECT 1", "columns": ["a"]}, "needs table"),
    ],
)
def test_wrong_inputs_are_explained(read: Any, given: Any, message: str) -> None:
    with pytest.raises(ToolError) as raised:
        read(given)

    assert raised.value.kind == "tool.contract"
    assert message in raised.value.message
