"""Rows of files: the same as the whole file has, wherever its parts are cut."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from pathlib import Path
from random import Random
from time import process_time

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
    wide = {f"c{n}": "y" * 1200 for n in range(200)}
    text = json.dumps(wide) + "\n" + json.dumps({"c0": "x" * 3_000_000}) + "\n1\n"

    page = ResultRows().of_file("k", write(tmp_path, text), "ndjson", 0, 200)

    assert len(page.columns) == 64
    assert page.rows[0][0] == {"$cut": 1200, "head": "y" * 256}
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


def test_a_row_that_is_too_long_is_cut_and_the_next_one_begins_after_it(
    rows: ResultRows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line end within its quotes is not its end, wherever it is cut."""
    monkeypatch.setattr(result_rows, "MAX_ROW_BYTES", 50)
    long = '"' + "line\n" * 30 + '""end""\n"'
    path = write(tmp_path, f"a,b\n1,{long}\n2,x\n{long},3\n4,y\n")

    page = rows.of_file("k", path, "csv", 0, 10)
    second = rows.of_file("k", path, "csv", 3, 1)

    assert [row[0] for row in page.rows[::3]] == ["1", "4"]
    assert [page.rows[1], page.rows[3]] == [["2", "x"], ["4", "y"]]
    assert (page.total, second.rows) == (4, [["4", "y"]])


def test_lines_within_quotes_take_linear_time(tmp_path: Path) -> None:
    path = write(tmp_path, 'a\n"' + "\n" * 400_000)
    began = process_time()

    page = ResultRows().of_file("k", path, "csv", 0, 200)

    assert len(page.rows) == 1
    assert process_time() - began < 2


def test_a_search_in_quotes_stops_earlier(tmp_path: Path) -> None:
    path = write(tmp_path, "a\n" + '"' * 40_000_000 + "\n1\n")
    began = process_time()

    page = ResultRows().of_file("k", path, "csv", 1, 1)

    assert (page.complete, page.rows, page.total) == (False, [], None)
    assert process_time() - began < 3


@pytest.mark.parametrize("hint", ["ndjson", "list"])
def test_rows_are_decoded_one_at_a_time(tmp_path: Path, hint: str) -> None:
    row = "[" + ",".join(["{}"] * 60_000) + "]"
    texts = [row] * 6
    path = write(tmp_path, "\n".join(texts))
    text = f"[{','.join(texts)}]".encode()
    tracemalloc.start()
    try:
        if hint == "list":
            page = rows_of_list(text, 0, 200)
        else:
            page = ResultRows().of_file("k", path, "ndjson", 0, 200)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(page.rows) == 6
    assert peak < 15 * 2**20, f"{peak / 2**20:.0f} MiB for {len(text):,} bytes"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000])
def test_a_row_that_is_too_deep_is_shown_as_text(tmp_path: Path, text: str) -> None:
    page = ResultRows().of_file("k", write(tmp_path, text + "\n7\n"), "ndjson", 0, 9)

    assert page.columns == ["value"]
    assert [row[0] for row in page.rows][1] == 7
    assert page.rows[0][0]["head"] == text[:256]
    with pytest.raises(RequestRefused, match="not a list"):
        rows_of_list(b"[" * 100_000, 0, 10)


def test_the_same_bytes_are_lines_and_csv(tmp_path: Path) -> None:
    rows, path = ResultRows(), write(tmp_path, '"a\nb",1\n2,3\n')

    assert rows.of_file("k", path, "csv", 0, 9).rows == [["2", "3"]]
    assert rows.of_file("k", path, "ndjson", 0, 9).total == 3


def test_elements_of_a_list_are_those_of_json() -> None:
    random = Random(3)

    def make(depth: int) -> JSON:
        match random.randrange(6 if depth else 3):
            case 0:
                return "".join(random.choices('a"\\,[]{}\n é', k=random.randrange(6)))
            case 1 | 2:
                return random.choice([None, True, 1, -2.5, "x,"])
            case 3 | 4:
                return [make(depth - 1) for _ in range(random.randrange(4))]
            case _:
                return {f"[{n},": make(depth - 1) for n in range(random.randrange(4))}

    for indent in (None, 1):
        for values in [[make(3) for _ in range(n)] for n in range(40)]:
            text = json.dumps(values, indent=indent).encode()
            assert [json.loads(each) for each in result_rows._elements(text)] == values
            assert rows_of_list(text, 3, 2).total == len(values)
