"""Summaries as they are stored: short, and read as they were."""

from __future__ import annotations

import msgspec
import pytest

from noetl.adapters.stores.summaries import (
    decode_summary,
    encode_summary,
    keys_in,
    read_line,
)
from noetl.errors import StoreError
from noetl.ports import Summary

ABOUT = {
    "source": "2" * 64,
    "name": "orders",
    "path": "sales/orders",
    "sha256": "5" * 64,
}
START, END = "2026-11-15T08:00:00.000000Z", "2026-11-15T08:00:01.000000Z"
ID = "019a1e44-71e3-75ae-877d-c3d8b0425526"

SUMMARIES = {
    "running": Summary(ID, "running", ABOUT, START),
    "a short playbook": Summary(ID, "running", {"name": "orders"}, START),
    "finished": Summary(ID, "completed", ABOUT, START, END),
    "everything": Summary(
        ID,
        "failed",
        ABOUT,
        START,
        END,
        {"kind": "k", "message": "m"},
        "parent",
        {"execution_id": "origin", "seq": 3},
        {"key": "k", "limit": 1, "queued": False},
        2,
        1,
        {"team": "a"},
        {"name": "nightly", "slot": None},
    ),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_is_read_as_it_was(name: str) -> None:
    summary = SUMMARIES[name]

    text, key, line = encode_summary(summary)

    assert decode_summary(ID, text, {key or "": line}) == summary


def test_the_line_of_a_playbook_is_stored_once_for_all_executions() -> None:
    first = encode_summary(SUMMARIES["running"])
    second = encode_summary(SUMMARIES["finished"])

    assert first.key == second.key
    assert first.line == second.line
    assert keys_in([first.text, second.text]) == {first.key}
    assert len(second.text) < 160


def test_another_playbook_has_another_key() -> None:
    other = Summary(ID, "running", {**ABOUT, "sha256": "6" * 64}, START)

    assert encode_summary(other).key != encode_summary(SUMMARIES["running"]).key


def test_labels_are_where_the_triggers_of_the_tables_look_for_them() -> None:
    assert '"labels":{"' in encode_summary(SUMMARIES["everything"]).text
    assert '"labels"' not in encode_summary(SUMMARIES["finished"]).text


def test_a_summary_of_an_older_version_is_read() -> None:
    text = msgspec.json.encode(SUMMARIES["everything"]).decode()

    assert decode_summary(ID, text, {}) == SUMMARIES["everything"]
    assert keys_in([text]) == set()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"status":"running"}', "null"])
def test_a_damaged_summary_is_refused(text: str) -> None:
    with pytest.raises(StoreError, match="cannot be decoded"):
        decode_summary(ID, text, {})
    assert keys_in([text]) == set()
    assert read_line(ID, text, {}).status == "quarantined"


@pytest.mark.parametrize("line", [None, "", "[]", "7"])
def test_a_summary_without_the_line_of_its_playbook_is_shown_as_damaged(
    line: str | None,
) -> None:
    text, key, _ = encode_summary(SUMMARIES["finished"])
    assert key is not None
    lines = {} if line is None else {key: line}

    with pytest.raises(StoreError, match=f"the playbook of {ID} is missing"):
        decode_summary(ID, text, lines)
    shown = read_line(ID, text, lines)
    assert (shown.execution_id, shown.status) == (ID, "quarantined")
