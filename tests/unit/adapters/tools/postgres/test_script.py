"""SQL text: where a statement ends, what is a placeholder, what an error points at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.adapters.tools.postgres.placeholders import check, keys_of, values_of, write
from noetl.adapters.tools.postgres.script import scan, split
from noetl.errors import ToolError

ONE = [
    pytest.param("SELECT 1", id="a bare one"),
    pytest.param("SELECT 'a;b'", id="in a string"),
    pytest.param("SELECT 'it''s; me'", id="after a doubled quote"),
    pytest.param(r"SELECT E'\'; x'", id="after an escaped quote"),
    pytest.param(r"SELECT E'\\' || '; x'", id="after an escaped backslash"),
    pytest.param(r"SELECT '\' || ';'", id="a backslash escapes nothing in '…'"),
    pytest.param("SELECT U&'d\\0061;' UESCAPE '!'", id="in a unicode string"),
    pytest.param("SELECT B'1', X'1F', N'a;'", id="in a national string"),
    pytest.param('SELECT "a;""b"', id="in a quoted name"),
    pytest.param("SELECT $$a;b$$", id="in dollar quotes"),
    pytest.param("SELECT $t$ $$;$x$; $t$", id="in tagged dollar quotes"),
    pytest.param("SELECT 1 -- a; b 'c", id="in a comment"),
    pytest.param("SELECT /* a; /* b; */ c; */ 1", id="in nested comments"),
    pytest.param("SELECT a$b$c, d$b$", id="a dollar within a name quotes nothing"),
    pytest.param(
        "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM a; DELETE FROM b)",
        id="in parentheses",
    ),
    pytest.param(
        "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC\n"
        "SELECT CASE WHEN true THEN 1 END; SELECT 2; END",
        id="in the body of a function",
    ),
    pytest.param("SELECT 'never ends; ", id="in a quote that never ends"),
    pytest.param("SELECT /* never ends; ", id="in a comment that never ends"),
    pytest.param("SELECT $x$ never ends; $y$", id="in a dollar quote that never ends"),
    pytest.param("SELECT E'\\", id="a backslash at the very end"),
]


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize("sql", ONE)
def test_a_semicolon_inside_a_statement_does_not_end_it(sql: str) -> None:
    (statement,) = split(sql)
    assert statement.text == sql.partition(" -- ")[0]


def test_statements_know_their_number_line_and_verb() -> None:
    sql = (
        "-- first\nSELECT 1;\n;;\n /* x */ WITH a AS (SELECT 2) INSERT INTO t;\nCOMMIT"
    )

    found = [(each.number, each.line, each.verb) for each in split(sql)]

    assert found == [(1, 2, "SELECT"), (2, 4, "INSERT"), (3, 5, "COMMIT")]


@pytest.mark.parametrize("sql", ["", " ; ;", "-- only a comment", "/* ; */ ;"])
def test_comments_alone_are_refused_as_a_statement(sql: str) -> None:
    assert split(sql) == []


PIECES = [str(case.values[0]) for case in ONE if "never ends" not in str(case.id)][:-1]
NASTY = st.text(alphabet="';\"$-/*\\:aE1[]() \n", max_size=40)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6))
def test_a_script_falls_apart_where_it_was_joined(pieces: list[str]) -> None:
    found = [each.text for each in split("\n;".join(pieces))]
    assert found == [piece.partition(" -- ")[0] for piece in pieces]


@given(NASTY)
def test_tokens_are_the_text_in_order(sql: str) -> None:
    end = 0
    for token in scan(sql):
        assert token.start >= end
        assert token.text == sql[token.start : token.end]
        end = token.end
    assert end <= len(sql)


@given(NASTY)
def test_rewriting_leads_back_to_the_author_s_text(sql: str) -> None:
    for statement in split(sql):
        written = write(statement, dict.fromkeys(range(1, 50), "int4"))
        for each in statement.placeholders:
            mark = statement.text[each.start : each.end]
            assert mark[0] in "$:"
        places = [written.origin(at) for at in range(len(written.sql))]
        assert places == sorted(places)
        assert all(0 <= place <= len(statement.text) for place in places)


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize(
    ("sql", "keys", "sent"),
    [
        pytest.param("f($2, $1, $2)", [2, 1], "f($1, $2, $1)", id="numbers"),
        pytest.param("a=:a AND b=:b_1", ["a", "b_1"], "a=$1 AND b=$2", id="names"),
        pytest.param(":a::int", ["a"], "$1::int", id="a cast"),
        pytest.param("a::b", [], "a::b", id="a cast is no name"),
        pytest.param("f(a := 1, b := :b)", ["b"], "f(a := 1, b := $1)", id="named"),
        pytest.param("':a' \":b\" $$:c$$ --:d", [], None, id="quotes and comments"),
        pytest.param("E'\\':a' || :b", ["b"], "E'\\':a' || $1", id="escaped quotes"),
        pytest.param("x[1:n] y[a:b] z[(1):b]", [], None, id="slices"),
        pytest.param(
            "x[:a] + y[1: :b]", ["a", "b"], "x[$1] + y[1: $2]", id="subscripts"
        ),
        pytest.param("x[1:2] = :a", ["a"], "x[1:2] = $1", id="after a slice"),
        pytest.param("'12:30:00'::time", [], None, id="a time"),
        pytest.param("a->>'b' ? 'c:d'", [], None, id="an operator"),
    ],
)
def test_placeholders(sql: str, keys: list[int | str], sent: str | None) -> None:
    (statement,) = split("SELECT " + sql)

    assert keys_of(statement) == keys
    expected = sql.partition("--")[0].rstrip() if sent is None else sent
    assert write(statement, {}).sql == "SELECT " + expected


def test_a_value_that_the_server_reads_is_cast_where_it_stands() -> None:
    (statement,) = split("SELECT :a, :b, :a")

    written = write(statement, {1: '"pg_catalog"."date"'})

    cast = 'CAST($1::text AS "pg_catalog"."date")'
    assert written.sql == f"SELECT {cast}, $2, {cast}"
    at = written.sql.index("$2")
    assert statement.text[written.origin(at) :].startswith(":b")


def test_statements_take_their_own_of_the_common_values() -> None:
    first, second = split("SELECT $3; SELECT $1, $2")

    assert values_of(first, ["a", "b", "c"]) == ["c"]
    assert values_of(second, ["a", "b", "c"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        pytest.param(
            "SELECT 1;\nSELECT\n$2",
            ["a"],
            "line 3: no value for $2: params has 1 values",
            id="a list too short",
        ),
        pytest.param(
            "SELECT $1",
            ["a", "b"],
            "params has 2 values, but $2 is not used",
            id="a list too long",
        ),
        pytest.param(
            "SELECT :a",
            {"b": 1, "c": 2},
            "line 1: no value for :a: params has b, c",
            id="a name unknown",
        ),
        pytest.param(
            "SELECT :a",
            None,
            "line 1: no value for :a: params is missing (expected a mapping)",
            id="no params",
        ),
        pytest.param(
            "SELECT :a",
            [1],
            "line 1: no value for :a: params is a list, not a mapping",
            id="a list for names",
        ),
        pytest.param(
            "SELECT $1",
            {"a": 1},
            "line 1: no value for $1: params is a mapping, not a list",
            id="names for a list",
        ),
        pytest.param(
            "SELECT $0", [], "line 1: no value for $0: params has 0 values", id="$0"
        ),
    ],
)
def test_missing_values_are_named(sql: str, params: object, message: str) -> None:
    with pytest.raises(ToolError) as raised:
        check(split(sql), params)

    assert (raised.value.kind, raised.value.message) == ("tool.contract", message)


def test_a_mapping_may_hold_more_than_is_used() -> None:
    check(split("SELECT :a"), {"a": 1, "b": 2})
