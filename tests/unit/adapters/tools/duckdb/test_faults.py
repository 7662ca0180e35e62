"""What DuckDB says becomes a kind that playbooks match on, without the data in it."""

from __future__ import annotations

import pytest

from noetl.adapters.tools.duckdb.errors import Fault, explain

CASES = [
    ("Parser", 'syntax error at or near "selec"', "duckdb.syntax", "selec"),
    ("Parser", "syntax error at or near \"'hunter2'\"", "duckdb.syntax", "near a text"),
    ("Binder", "no function matches", "duckdb.binder", "no function"),
    ("Catalog", "x is not a table", "duckdb.catalog", "x is not"),
    ("Conversion", "Could not convert string 'hunter2' to INT32", "duckdb.data", "'…'"),
    ("OutOfRange", "Overflow of INT64 (42 + 1)!", "duckdb.data", "INT64 …!"),
    ("TypeMismatch", "INT32 with value 4200 is too large", "duckdb.data", "value … is"),
    ("InvalidInput", 'Malformed JSON.  Input: "hunter2"', "duckdb.data", "'…'"),
    ("InvalidInput", 'Input: "{\'a\': "hunter2"}"', "duckdb.data", "Input: '…'"),
    ("InvalidInput", 'no end of "hunter2', "duckdb.data", "no end of '…'"),
    ("InvalidInput", "CSV Error\nOriginal Line: hunter2", "duckdb.data", "CSV Error"),
    ("Constraint", 'Duplicate key "id: hunter2"', "duckdb.constraint", '"id: …"'),
    ("Constraint", 'key "a: "hunter2" b"', "duckdb.constraint", 'key "a: …"'),
    ("Constraint", 'duplicate key "hunter2"', "duckdb.constraint", 'key "…"'),
    ("Constraint", "NOT NULL failed: t.a", "duckdb.constraint", "t.a"),
    ("IO", 'No files found that match "a.csv"', "duckdb.io", "a.csv"),
    ("NotImplemented", "no such thing", "duckdb.unsupported", "no such"),
    ("Internal", "assertion", "duckdb.internal", "assertion"),
    ("Unheard", "of", "duckdb.error", "of"),
    ("OutOfMemory", "failed to allocate", "duckdb.out_of_memory", "7 MiB"),
    ("Transaction", "cannot commit", "duckdb.transaction", "commit"),
    ("Permission", "read-only mode", "duckdb.forbidden", "read-only"),
    (
        "Permission",
        'Cannot access file "/etc/passwd" - file system operations are disabled',
        "duckdb.external_access",
        "'/etc/passwd' is outside of the allowed folders",
    ),
    (
        "InvalidInput",
        'Cannot change configuration option ""threads"" - it has been locked',
        "duckdb.forbidden",
        "locked (threads)",
    ),
]


@pytest.mark.spec("S-65")
@pytest.mark.parametrize(("type_", "said", "kind", "part"), CASES)
def test_kind_and_message(type_: str, said: str, kind: str, part: str) -> None:
    error = explain(Fault(type_, said), "7 MiB")

    assert (error.kind, error.retryable) == (kind, False)
    assert part in error.message
    assert "hunter2" not in error.message


@pytest.mark.parametrize(
    ("type_", "said", "kind"),
    [
        ("IO", 'Could not set lock on file "x.db"', "duckdb.locked"),
        ("Transaction", "Transaction conflict: cannot update", "duckdb.conflict"),
    ],
)
def test_what_is_worth_another_try(type_: str, said: str, kind: str) -> None:
    error = explain(Fault(type_, said), "")

    assert (error.kind, error.retryable) == (kind, True)


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("MISSING_ENTRY", "duckdb.undefined"),
        ("ENTRY_ALREADY_EXISTS", "duckdb.duplicate"),
        (None, "duckdb.catalog"),
    ],
)
def test_a_name_that_is_missing_or_taken(subtype: str | None, kind: str) -> None:
    assert explain(Fault("Catalog", "t", subtype), "").kind == kind


def test_the_message_says_where() -> None:
    place = {"statement": 2, "line": 3, "position": 8}

    error = explain(Fault("Parser", "wrong", details=place), "")

    assert error.message == "wrong (statement 2, line 3, position 8)"
    assert error.details == place


def test_an_input_is_named() -> None:
    error = explain(Fault("IO", "not a database", label="attach.x"), "")

    assert error.message == "attach.x: not a database"
