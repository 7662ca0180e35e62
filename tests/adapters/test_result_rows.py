"""Rows of files: the same as the whole file has, wherever its parts are cut."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from random import Random

import pytest

from noetl.service.errors import RequestRefused
from noetl.service.executions import result_rows
from noetl.service.executions.result_rows import ResultRows, RowPage, rows_of_list
from noetl.types import JSON


@pytest.fixture(params=[7, 64, 1 << 20], ids=lambda size: f"parts of {size}")
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ResultRows:
    monkeypatch.setattr(result_rows, "PART", request.param)
    return ResultRows()


def write(folder: Path, text: str) -> str:
    file = folder / "file"
    file.write_bytes(text.encode())
    return str(file)


def test_every_page_of_lines_is_that_of_the_file(
    rows: ResultRows, tmp_path: Path
) -> None:
    values = [{"n": n, "text": "x" * (n % 13)} for n in range(57)]
    path = write(tmp_path, "".join(json.dumps(each) + "\n" for each in values))

    for offset in (0, 1, 20, 55, 56, 57, 99, 3):
        page = rows.of_file("k", path, "ndjson", offset, 10)
        shown = values[offset : offset + 10]
        assert page.rows == [[each["n"], each["text"]] for each in shown]
        assert page.columns == (["n", "text"] if shown else [])
        assert page.complete
        if offset >= 57:
            assert page.total == 57


def test_every_page_of_csv_is_that_of_the_file(
    rows: ResultRows, tmp_path: Path
) -> None:
    """Cells hold line ends, quotes and commas."""
    random = Random(7)
    table = [
        ["z" + "".join(random.choices('a",\n é', k=n % 9)), str(n), "last"]
        for n in range(40)
    ]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["first", "n", "end"], *table])
    path = write(tmp_path, text.getvalue())

    for offset in (0, 1, 17, 39, 40, 5):
        page = rows.of_file("k", path, "csv", offset, 6)
        assert page.columns == ["first", "n", "end"]
        assert page.rows == table[offset : offset + 6]
    assert page.total == 40


@pytest.mark.parametrize(
    ("text", "expected", "total"),
    [
        pytest.param("", [], 0, id="nothing"),
        pytest.param("1\n2", [[1], [2]], 2, id="no end of the last line"),
        pytest.param('{"a": 1}\n[2, 3]\nbad\n', None, 3, id="mixed and broken"),
    ],
)
def test_odd_lines_are_rows_too(
    rows: ResultRows, tmp_path: Path, text: str, expected: list[JSON] | None, total: int
) -> None:
    page = rows.of_file("k", write(tmp_path, text), "ndjson", 0, 10)
    beyond = rows.of_file("k", write(tmp_path, text), "ndjson", 50, 10)

    assert beyond.total == total
    assert beyond.rows == []
    if expected is not None:
        assert page.rows == expected
    else:
        assert page.columns == ["a", "0", "1", "value"]
        assert page.rows[2] == [None, None, None, "bad"]


def test_a_search_stops_and_goes_on_with_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_rows, "PART", 10)
    monkeypatch.setattr(result_rows, "MAX_SCAN_BYTES", 40)
    rows, path = ResultRows(), write(tmp_path, "123456789\n" * 50)
    pages: list[RowPage] = []
    while not pages or not pages[-1].complete:
        pages.append(rows.of_file("k", path, "ndjson", 45, 2))

    assert len(pages) > 5
    assert all(page.rows == [] for page in pages[:-1])
    assert pages[-1].rows == [[123456789]] * 2


def test_rows_are_bounded_in_every_direction(tmp_path: Path) -> None:
    wide = {f"c{n}": "y" * 5000 for n in range(200)}
    text = json.dumps(wide) + "\n" + json.dumps({"c0": "x" * 3_000_000}) + "\n1\n"

    page = ResultRows().of_file("k", write(tmp_path, text), "ndjson", 0, 200)

    assert len(page.columns) == 64
    assert page.rows[0][0] == {"$cut": 5000, "head": "y" * 256}
    assert page.total in (3, None)
    assert len(json.dumps(page.rows)) < 100_000
    assert page.rows[2][-1] is None


def test_a_list_is_read_as_rows() -> None:
    text = json.dumps([{"a": 1}, {"b": [1, 2]}, None]).encode()

    page = rows_of_list(text, 1, 5)

    assert (page.columns, page.total) == (["b", "value"], 3)
    assert page.rows == [[[1, 2], None], [None, None]]


@pytest.mark.parametrize("text", [b'{"a": 1}', b'"text"', b"nonsense", b"[1, ]"])
def test_other_values_have_no_rows(text: bytes) -> None:
    with pytest.raises(RequestRefused, match="not a list"):
        rows_of_list(text, 0, 10)


def test_a_list_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_rows, "MAX_LIST_BYTES", 3)

    with pytest.raises(RequestRefused, match="too large to show as rows"):
        rows_of_list(b"[1, 2]", 0, 10)
