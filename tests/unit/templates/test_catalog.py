"""Every filter, test and method, with what it gives."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import (
    FILTERS,
    GLOBALS,
    METHODS,
    TESTS,
    Entry,
    compile_template,
)
from noetl.templates.reference import reference_markdown

ROWS = [
    {"n": 3, "c": "b", "o": {"k": 1}},
    {"n": 1, "c": "A", "o": {"k": 2}},
    {"n": 2, "c": "a", "o": {"k": 3}},
]
R0, R1, R2 = ROWS
SCOPE: dict[str, Any] = {"rows": ROWS, "ctx": {"a": 1}}


@pytest.mark.spec("TPL-01")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("gone.x | default(1)", 1),
        ("none | default(1)", None),
        ("'' | default(1, true)", 1),
        ("0 | d(7, boolean=true)", 7),
        ("'42' | int", 42),
        ("'42.9' | int", 42),
        ("'x' | int", 0),
        ("'x' | int(-1)", -1),
        ("'ff' | int(base=16)", 255),
        ("none | int", 0),
        ("[] | int(5)", 5),
        ("3.9 | int", 3),
        ("true | int", 1),
        ("'1.5' | float", 1.5),
        ("'x' | float(2.5)", 2.5),
        ("3 | float", 3.0),
        ("42 | string", "42"),
        ("none | string", ""),
        ("[1, 'a'] | string", '[1, "a"]'),
        ("'abc' | length", 3),
        ("rows | count", 3),
        ("{} | length", 0),
        ("[1, 2] | join", "12"),
        ("[1, none, true] | join('-')", "1--True"),
        ("rows | join(',', attribute='n')", "3,1,2"),
        ("rows | map(attribute='n')", [3, 1, 2]),
        ("rows | map(attribute='o.k')", [1, 2, 3]),
        ("[[1], [2]] | map(attribute=0)", [1, 2]),
        ("[[1], [2]] | map(attribute='0')", [1, 2]),
        ("['a'] | map('upper')", ["A"]),
        ("['a-b'] | map('replace', '-', '+')", ["a+b"]),
        ("none | map('upper')", []),
        ("[0, 1, '', 'a'] | select", [1, "a"]),
        ("[1, 2, 3] | select('odd')", [1, 3]),
        ("[1, 2, 3] | select('gt', 1)", [2, 3]),
        ("[1, 2, 3] | reject('in', [2])", [1, 3]),
        ("[0, 1] | reject", [0]),
        ("rows | selectattr('n', '>', 1)", [R0, R2]),
        ("rows | selectattr('o.k', 'divisibleby', 2)", [R1]),
        ("rows | rejectattr('n', 'eq', 3)", [R1, R2]),
        ("[{'a': 0}, {'a': 1}] | selectattr('a')", [{"a": 1}]),
        ("[3, 1, 2] | sort", [1, 2, 3]),
        ("['b', 'A', 'c'] | sort", ["A", "b", "c"]),
        ("['b', 'A', 'a'] | sort(case_sensitive=true)", ["A", "a", "b"]),
        ("rows | sort(attribute='n', reverse=true)", [R0, R2, R1]),
        ("rows | sort(attribute='c,n')", [R1, R2, R0]),
        ("['a', 'A', 'b'] | unique", ["a", "b"]),
        ("['a', 'A'] | unique(case_sensitive=true)", ["a", "A"]),
        ("[1, true, 1.0, 2] | unique", [1, 2]),
        ("rows | unique(attribute='c') | map(attribute='n')", [3, 1]),
        ("[1, 2] | first", 1),
        ("'ab' | last", "b"),
        ("{'a': 1, 'b': 2} | last", "b"),
        ("[3, 1] | min", 1),
        ("['b', 'A'] | max", "b"),
        ("rows | max(attribute='n')", R0),
        ("[1, 2.5] | sum", 3.5),
        ("rows | sum(attribute='n')", 6),
        ("[[1], [2]] | sum(start=[])", [1, 2]),
        ("[] | sum", 0),
        ("2.55 | round(1)", 2.5),
        ("2.1 | round(method='ceil')", 3.0),
        ("2.9 | round(0, 'floor')", 2.0),
        ("1234 | round(-2)", 1200),
        ("-3 | abs", 3),
        ("'AbC' | lower", "abc"),
        ("'AbC' | upper", "ABC"),
        ("'foo bar-baz' | title", "Foo Bar-Baz"),
        ("'fOO bar' | capitalize", "Foo bar"),
        ("' a ' | trim", "a"),
        ("'xax' | trim('x')", "a"),
        ("'aaa' | replace('a', 'b', 2)", "bba"),
        ("123 | replace(2, 'x')", "1x3"),
        ("'a b  c' | split", ["a", "b", "c"]),
        ("'a,b,c' | split(',', 1)", ["a", "b,c"]),
        ("{'b': 1, 'a': [true, none]} | tojson", '{"b": 1, "a": [true, null]}'),
        ("{'b': 1, 'a': 2} | tojson(sort_keys=true)", '{"a": 2, "b": 1}'),
        ("[1] | tojson(indent=2)", "[\n  1\n]"),
        ("'<ä>&' | tojson", '"<ä>&"'),
        ("'[1, {\"a\": null}]' | fromjson", [1, {"a": None}]),
        ("'\"\\\\u00e4\"' | fromjson", "ä"),
        ("{'a': 1} | list", ["a"]),
        ("rows | groupby('n') | map('first')", [1, 2, 3]),
        ("rows | groupby('c')", [["A", [R1, R2]], ["b", [R0]]]),
        ("[{'a': 1}, {}] | groupby('a', default=0)", [[0, [{}]], [1, [{"a": 1}]]]),
        ("(rows | groupby('n'))[0].grouper", 1),
        ("(rows | groupby('n'))[0]['list']", [R1]),
        ("{'b': 1, 'A': 2} | dictsort", [["A", 2], ["b", 1]]),
        ("{'b': 1, 'a': 2} | dictsort(by='value')", [["b", 1], ["a", 2]]),
        ("{'a': 1, 'b': 2} | dictsort(reverse=true)", [["b", 2], ["a", 1]]),
        ("{'a': 1} | items", [["a", 1]]),
        ("[1, 2, 3] | batch(2)", [[1, 2], [3]]),
        ("[1, 2, 3] | batch(2, 'x')", [[1, 2], [3, "x"]]),
        ("[1, 2, 3] | slice(2)", [[1, 2], [3]]),
        ("[1, 2, 3] | slice(2, 'x')", [[1, 2], [3, "x"]]),
        ("[1, 2] | reverse", [2, 1]),
        ("'ab' | reverse", "ba"),
        ("{'a': 1, 'b': 2} | reverse", ["b", "a"]),
        ("'foo bar baz qux' | truncate(9)", "foo..."),
        ("'foo bar baz qux' | truncate(9, true)", "foo ba..."),
        ("'foo bar baz qux' | truncate(11)", "foo bar baz qux"),
        ("'foo bar baz qux' | truncate(11, false, '…', 0)", "foo bar…"),
        ("'a\\n\\nb' | indent(2)", "a\n\n  b"),
        ("'a\\n\\nb' | indent('> ', true, true)", "> a\n> \n> b"),
        ("'%s %d %.2f %x %%' | format('a', 2, 1.5, 255)", "a 2 1.50 ff %"),
        ("'%(k)5s|%(n)-4d|' | format(k='a', n=2)", "    a|2   |"),
        ("'%s' | format(none)", ""),
        ("'one two, three' | wordcount", 3),
        ("'Zürich' | b64encode", "WsO8cmljaA=="),
        ("'WsO8cmljaA==' | b64decode", "Zürich"),
        (
            "'a' | sha256",
            "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
        ),
        ("'a b/ü&' | urlencode", "a%20b/%C3%BC%26"),
        ("{'q': 'a b', 'n': 1, 's': '/'} | urlencode", "q=a+b&n=1&s=%2F"),
        ("[['a', 1], ['b', none]] | urlencode", "a=1&b="),
        ("'2026-01-02T03:04:05Z' | timestamp", 1767323045.0),
        ("'2026-01-02T05:04:05+02:00' | timestamp", 1767323045.0),
        ("'2026-01-02' | timestamp", 1767312000.0),
        ("1767323045 | timestamp", 1767323045.0),
        ("1767323045.5 | datetime", "2026-01-02T03:04:05.500000Z"),
        ("'2026-01-02T03:04:05+02:00' | datetime", "2026-01-02T03:04:05+02:00"),
        ("0 | datetime('%d.%m.%Y %H:%M')", "01.01.1970 00:00"),
        ("'2.1.2026 3:04' | parse_datetime('%d.%m.%Y %H:%M')", "2026-01-02T03:04:00Z"),
        (
            "'2026-01-02 +0200' | parse_datetime('%Y-%m-%d %z')",
            "2026-01-02T00:00:00+02:00",
        ),
        (
            "'2026-01-31T00:00:00Z' | date_add(days=1, hours=-1, minutes=2, seconds=3)",
            "2026-01-31T23:02:03Z",
        ),
        (
            "{'a': {'x': 1}, 'b': 1} | combine({'a': {'y': 2}, 'b': 2})",
            {"a": {"x": 1, "y": 2}, "b": 2},
        ),
        ("{'a': {'x': 1}} | combine({'a': {}}, recursive=false)", {"a": {}}),
    ],
)
def test_filters(expression: str, expected: Any) -> None:
    result = compile_template("{{ " + expression + " }}").render(SCOPE)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.spec("TPL-01")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ctx.a is defined", True),
        ("ctx.b is defined", False),
        ("ctx.b is undefined", True),
        ("none is none", True),
        ("0 is none", False),
        ("true is boolean", True),
        ("1 is boolean", False),
        ("true is true", True),
        ("1 is true", False),
        ("false is false", True),
        ("0 is false", False),
        ("1 is integer", True),
        ("true is integer", False),
        ("1.0 is integer", False),
        ("1.0 is float", True),
        ("1 is number", True),
        ("'1' is number", False),
        ("'a' is string", True),
        ("{} is mapping", True),
        ("[] is mapping", False),
        ("[] is sequence", True),
        ("'a' is sequence", True),
        ("1 is sequence", False),
        ("{} is iterable", True),
        ("1 is iterable", False),
        ("3 is odd", True),
        ("4 is even", True),
        ("9 is divisibleby 3", True),
        ("9 is divisibleby(2)", False),
        ("'ab' is lower", True),
        ("'Ab' is upper", False),
        ("1 is in [1]", True),
        ("'k' is in {'k': 1}", True),
        ("1 is eq 1", True),
        ("1 is equalto 2", False),
        ("1 is ne 2", True),
        ("1 is lt 2", True),
        ("2 is lessthan 2", False),
        ("2 is le 2", True),
        ("2 is gt 1", True),
        ("2 is greaterthan 2", False),
        ("2 is ge 2", True),
        ("true is sameas true", True),
        ("1 is sameas true", False),
        ("1 is not eq 2", True),
        ("[1, 2] | select('==', 2)", [2]),
        ("[1, 2] | select('!=', 2)", [1]),
        ("[1, 2] | select('<', 2)", [1]),
        ("[1, 2] | select('<=', 1)", [1]),
        ("[1, 2] | select('>', 1)", [2]),
        ("[1, 2] | select('>=', 2)", [2]),
    ],
)
def test_tests(expression: str, expected: Any) -> None:
    assert compile_template("{{ " + expression + " }}").render(SCOPE) == expected


@pytest.mark.spec("TPL-01")
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'aB'.upper()", "AB"),
        ("'aB'.lower()", "ab"),
        ("' a '.strip()", "a"),
        ("'xax'.strip('x')", "a"),
        ("'xax'.lstrip('x')", "ax"),
        ("'xax'.rstrip('x')", "xa"),
        ("'a b'.split()", ["a", "b"]),
        ("'a,b,c'.split(',', maxsplit=1)", ["a", "b,c"]),
        ("'a,b,c'.rsplit(',', 1)", ["a,b", "c"]),
        ("'a\\nb\\r\\nc'.splitlines()", ["a", "b", "c"]),
        ("'a\\nb'.splitlines(true)", ["a\n", "b"]),
        ("'aaa'.replace('a', 'b')", "bbb"),
        ("'aaa'.replace('a', 'b', 1)", "baa"),
        ("'abc'.startswith('ab')", True),
        ("'abc'.startswith(['x', 'a'])", True),
        ("'abc'.endswith('bc')", True),
        ("'foo bar'.title()", "Foo Bar"),
        ("'foo'.capitalize()", "Foo"),
        ("','.join(['a', 'b'])", "a,b"),
        ("'abc'.find('c')", 2),
        ("'abc'.find('x')", -1),
        ("'banana'.count('a')", 3),
        ("'banana'.index('n')", 2),
        ("'12'.isdigit()", True),
        ("'a1'.isalpha()", False),
        ("'a1'.isalnum()", True),
        ("'AB'.isupper()", True),
        ("'aB'.islower()", False),
        ("'aB'.swapcase()", "Ab"),
        ("'ß'.casefold()", "ss"),
        ("'abc'.removeprefix('a')", "bc"),
        ("'abc'.removesuffix('c')", "ab"),
        ("'k=v=w'.partition('=')", ["k", "=", "v=w"]),
        ("'k=v=w'.rpartition('=')", ["k=v", "=", "w"]),
        ("ctx.get('a')", 1),
        ("ctx.get('b')", None),
        ("ctx.get('b', 2)", 2),
        ("ctx.items()", [["a", 1]]),
        ("ctx.keys()", ["a"]),
        ("ctx.values()", [1]),
        ("[1, 2].index(2)", 1),
        ("[1, 2, 1].count(1)", 2),
    ],
)
def test_methods(expression: str, expected: Any) -> None:
    result = compile_template("{{ " + expression + " }}").render(SCOPE)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    "expression",
    [
        "1 | length",
        "none | list",
        "1 | round('a')",
        "1 | round(999)",
        "1 | round(0, 'up')",
        "'a' | abs",
        "[1] | batch(0)",
        "[1] | batch('a')",
        "[1] | slice(-1)",
        "[[1]] | unique",
        "[1, 'a'] | max",
        "['a'] | sum",
        "[1] | items",
        "[1] | dictsort",
        "{} | dictsort(by='size')",
        "{} | combine([])",
        "'abc' | truncate(1)",
        "'abc' | truncate(9, leeway=-1)",
        "'a' | indent(none)",
        "'%s' | format",
        "'%s' | format(1, 2)",
        "'%s' | format(1, a=2)",
        "'%(x)s' | format(a=2)",
        "'%q' | format(1)",
        "'%d' | format('a')",
        "'%' | format(1)",
        "'%*d' | format(1, 2)",
        "1 | fromjson",
        "'NaN' | fromjson",
        "'1e999' | fromjson",
        "'[1' | fromjson",
        "'\"\\\\ud800\"' | fromjson",
        "1 | b64encode",
        "'/w==' | b64decode",
        "[1] | sha256",
        "[[1]] | urlencode",
        "[1] | urlencode",
        "1 | tojson(indent=99)",
        "true | timestamp",
        "1e300 | datetime",
        "0 | datetime('%c')",
        "0 | datetime('%')",
        "0 | datetime('%Y' * 99)",
        "'x' | parse_datetime('%Y')",
        "'1 1' | parse_datetime('%d %d')",
        "0 | date_add(days=1e300)",
        "0 | date_add(days='a')",
        "[1] | map",
        "[1] | map(1)",
        "[1] | map(attribute=[])",
        "[1] | map(attribute='a', other=1)",
        "[1] | select(1)",
        "[1] | map('replace', 1)",
        "'a' is odd",
        "1 is divisibleby 0",
        "'a'.split('')",
        "'a'.join([1])",
        "'a'.join('ab') and 1.0.x",
        "'a'.index('b')",
        "[1].index(2)",
        "'a'.startswith(1)",
        "'a'.replace(1, 2)",
        "'a'.upper(1)",
        "{}.get()",
        "{}.get([])",
    ],
)
def test_misuse_is_an_error(expression: str) -> None:
    source = "{{ " + expression + " }}"
    with pytest.raises(TemplateError) as caught:
        compile_template(source).render(SCOPE)

    assert caught.value.kind in ("template.error", "template.undefined")
    assert caught.value.message


def entries() -> list[Entry]:
    catalogs = (FILTERS, TESTS, GLOBALS, *METHODS.values())
    return [entry for catalog in catalogs for entry in catalog.values()]


@pytest.mark.spec("TPL-01")
@pytest.mark.parametrize("entry", entries(), ids=lambda e: f"{e.sort} {e.name}")
def test_every_entry_is_documented(entry: Entry) -> None:
    assert entry.summary.endswith(".")
    assert entry.signature.startswith(entry.name)
    compile_template(entry.example).render({"ctx": {}})


@pytest.mark.spec("TPL-01")
def test_reference_page() -> None:
    page = reference_markdown()

    assert "| `replace(old, new, count=none)` |" in page
    assert "`default(default_value='', boolean=false)`; also `d`" in page
    assert "| `{{ [3, 1, 2] \\| sort }}` | `[1, 2, 3]` |" in page
    for title in ("Filters", "Tests", "Methods of a text", "Functions"):
        assert f"## {title}\n" in page
    for entry in entries():
        assert f"`{entry.name}" in page
