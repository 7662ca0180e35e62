"""Templates mean what they mean in Jinja2, except where the documentation says so."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import jinja2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.templates import compile_template
from noetl.templates.parser import _scan, parse, tokenize

SCOPE: dict[str, Any] = {
    "n": 3,
    "z": 0,
    "f": 2.5,
    "yes": True,
    "s": "Ab cd-e",
    "t": "7",
    "empty": "",
    "l": [3, 1, 2],
    "words": ["b", "A", "c"],
    "d": {"k": 1, "b": "x", "items": 5},
    "rows": [{"n": 2, "c": "x"}, {"n": 1, "c": "Y"}, {"n": 2, "c": "y"}],
}

STOCK = jinja2.Environment(keep_trailing_newline=True)
STRICT = jinja2.Environment(undefined=jinja2.StrictUndefined)


def plain(value: Any) -> Any:
    """A result of Jinja2 as the JSON value that it would be."""
    if isinstance(value, jinja2.Undefined):
        raise jinja2.UndefinedError
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | range | Iterator):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isinf(value):
        raise OverflowError
    return value


def stock(expression: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # Python, about 1[0]
        compiled = STRICT.compile_expression(expression, undefined_to_none=False)
    return plain(compiled(**SCOPE))


def ours(expression: str) -> Any:
    return compile_template("{{ " + expression + " }}").render(SCOPE)


def outcome(evaluate: Any, expression: str) -> tuple[str, Any]:
    try:
        return "value", evaluate(expression)
    except (TemplateError, jinja2.TemplateError, ArithmeticError, TypeError):
        return "error", None
    except (ValueError, AssertionError, LookupError):
        return "error", None


# Numbers, texts and lists are generated apart, because text of lists differs.
numbers = st.sampled_from(["n", "z", "f", "1", "2", "0", "-3", "1.5", "l[0]", "d.k"])
texts = st.sampled_from(["s", "t", "empty", "'a'", "'B c'", "words[1]", "d['b']"])
lists = st.sampled_from(["l", "words", "[]", "[1, 2]", "rows", "range(4) | list"])
booleans = st.sampled_from(["yes", "true", "false", "n > 1", "s == 'a'"])


def numeric(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        inner.map(lambda e: f"(-{e})"),
        inner.map(lambda e: f"({e} | abs)"),
        inner.map(lambda e: f"({e} | int)"),
        inner.map(lambda e: f"({e} | round(1))"),
        inner.map(lambda e: f"({e} | float)"),
        pair.map(lambda p: f"([{p[0]}, {p[1]}] | max)"),
        pair.map(lambda p: f"([{p[0]}, {p[1]}] | sum)"),
        pair.map(lambda p: f"({p[0]} if {p[1]} else 1)"),
        pair.map(lambda p: f"({p[0]} or {p[1]})"),
        pair.map(lambda p: f"({p[0]} and {p[1]})"),
        texts.map(lambda e: f"({e} | length)"),
        lists.map(lambda e: f"({e} | length)"),
        texts.map(lambda e: f"{e}.count('a')"),
    )


def textual(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    simple = ["upper", "lower", "title", "capitalize", "trim", "reverse", "string"]
    methods = ["upper()", "lower()", "strip()", "title()", "swapcase()", "casefold()"]
    return st.one_of(
        st.tuples(inner, inner).map(lambda p: f"({p[0]} ~ {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} + {p[1]})"),
        st.tuples(inner, numbers).map(lambda p: f"({p[0]} ~ {p[1]})"),
        st.tuples(inner, st.sampled_from(simple)).map(lambda p: f"({p[0]} | {p[1]})"),
        st.tuples(inner, st.sampled_from(methods)).map(lambda p: f"{p[0]}.{p[1]}"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} | replace({p[1]}, 'q'))"),
        inner.map(lambda e: f"({e} | truncate(4, true, '.', 0))"),
        inner.map(lambda e: f"({e} | indent(2, true))"),
        inner.map(lambda e: f"({e} | urlencode)"),
        inner.map(lambda e: f"('%s|%5s' | format({e}, {e}))"),
        inner.map(lambda e: f"{e}[1:]"),
        inner.map(lambda e: f"{e}[0]"),
        inner.map(lambda e: f"({e} | first)"),
        inner.map(lambda e: f"({e}.split(' ') | join('/'))"),
        st.tuples(lists, inner).map(lambda p: f"(l | join({p[1]}))"),
    )


def logical(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    number, text = numeric(numbers), textual(texts)
    orders = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    tests = [
        "odd",
        "even",
        "number",
        "string",
        "mapping",
        "sequence",
        "none",
        "boolean",
        "integer",
        "float",
    ]
    return st.one_of(
        st.tuples(number, orders, number).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(text, orders, text).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(numbers, orders, numbers, orders, numbers).map(" ".join),
        st.tuples(text, text).map(lambda p: f"({p[0]} in {p[1]})"),
        st.tuples(numbers, lists).map(lambda p: f"({p[0]} not in ({p[1]}))"),
        st.tuples(numbers, st.sampled_from(tests)).map(lambda p: f"({p[0]} is {p[1]})"),
        st.tuples(texts, st.sampled_from(tests[2:])).map(
            lambda p: f"({p[0]} is not {p[1]})"
        ),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} and not {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} or {p[1]})"),
    )


def sequential(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    steps = [
        "sort",
        "reverse | list",
        "unique | list",
        "list",
        "batch(2, 0) | list",
        "slice(2) | list",
        "select | list",
        "map('default', 1) | list",
        "map(attribute='n') | list",
        "selectattr('n', '>', 1) | list",
        "rejectattr('n') | list",
        "sort(attribute='c,n', reverse=true)",
        "groupby('n') | map('first') | list",
        "first",
        "last",
        "min",
        "max",
        "sum",
    ]
    return st.one_of(
        st.tuples(inner, st.sampled_from(steps)).map(lambda p: f"({p[0]} | {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"(({p[0]}) + ({p[1]}))"),
        inner.map(lambda e: f"({e})[1:]"),
        inner.map(lambda e: f"({e})[::-1]"),
        inner.map(lambda e: f"(({e}) * 2)"),
        inner.map(lambda e: f"[{e}, 1]"),
    )


expressions = st.one_of(
    st.recursive(numbers, numeric, max_leaves=6),
    st.recursive(texts, textual, max_leaves=5),
    st.recursive(booleans, logical, max_leaves=4),
    st.recursive(lists, sequential, max_leaves=4),
)


@pytest.mark.spec("TPL-01")
@settings(max_examples=600, deadline=None)
@given(expressions)
@example("(-n) % 2")
@example("1 < n < 5 > z")
@example("n if false")
@example("'%5.1f|%-6s|' | format(f, s)")
@example("l | sort(reverse=true) | join(', ')")
@example("d | dictsort | list")
def test_expressions_agree(expression: str) -> None:
    expected = outcome(stock, expression)
    found = outcome(ours, expression)

    assert found == expected
    assert type(found[1]) is type(expected[1])


@pytest.mark.spec("TPL-01", "S-33")
@pytest.mark.parametrize(
    "source",
    [
        "a {{ n }} b {{ s | upper }}\n",
        "{% for x in l %}{{ loop.index }}{{ x }}{{ ',' if not loop.last }}{% endfor %}",
        "{% for x in l if x > 1 %}{{ loop.length }}{{ x }}{% else %}-{% endfor %}",
        "{% for x in [] %}x{% else %}none{% endfor %}",
        "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
        "{% if n > 5 %}a{% elif n > 2 %}b{% else %}c{% endif %}",
        "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}",
        "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
        "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
        "  {%- if yes -%}  x  {%- endif -%}  ",
        "{% raw %}{{ n }}{% endraw %}{# gone #}!",
        "{{ '{{' }}{{ n }}{{ '}}' }}",
        "line\r\nend {{ n }}\r\n",
        "{% for a in l %}{% for b in l %}{{ loop.index }}{% endfor %}{% endfor %}",
        "{% if false %}{% set s = 1 %}{% endif %}{{ s }}",
        "{% for s in l %}{{ s }}{% endfor %}{{ s }}",
        "{% for x in words %}{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}",
        "{% for g in rows | groupby('n') %}{{ g[0] }}{{ g.list[0].c }}{% endfor %}",
        "{{ yes }} {{ f }} {{ 10 / 4 }} {{ 10 // 4 }} {{ 7 % 3 }}",
        "{{ 'a' 'b' }}{{ \"q'q\" }}{{ 'tab\\there' }}!",
        "{%- set x = 'y' -%} {{- x -}} !",
        "{% print n, s %}",
    ],
)
def test_texts_agree(source: str) -> None:
    assert compile_template(source).evaluate(SCOPE) == STOCK.from_string(source).render(
        SCOPE
    )


pieces = st.sampled_from(
    [
        "{{",
        "}}",
        "a",
        "b1",
        "_c",
        "ctx",
        ".",
        ",",
        ":",
        "|",
        "~",
        "+",
        "-",
        "*",
        "/",
        "//",
        "**",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "'x'",
        '"y"',
        "'é'",
        "'\\\\n'",
        "1",
        "23",
        "0",
        "007",
        "1.5",
        "2.e",
        "1e5",
        "0x1f",
        "1_000",
        "in",
        "not",
        "and",
        "or",
        "if",
        "else",
        "is",
        "text",
        "é",
        "\n",
        "\t",
        "=",
        ";",
        "!",
        "{{-",
        "-}}",
        "{{+",
        "{#",
        "#}",
        "{%",
        "%}",
        "{{{",
        "}}}",
        "true",
        "none",
        "\r\n",
    ]
) | st.just(" ")


@pytest.mark.spec("TPL-01")
@settings(max_examples=600, deadline=None)
@given(st.lists(pieces, max_size=24).map("".join))
@example("{{ a.b['c'].d(1, x=2.5) | e('f') is g }} text {{ {'a': [1, (2, 3)]} }}\n")
@example("{{ a.1.5 }}")
@example("one\n{{ a\n + 'b\nc' }}\n{{ d }}")
@example("{{ '}}' }}")
@example("{{ {'a': {}}}}")
@example("{{ 1.real }}")
def test_the_quick_scanner_agrees_with_jinja2(source: str) -> None:
    """Where it does not fall back, it finds the tokens that Jinja2 finds."""
    quick = _scan(source) if not any(c in source for c in ("{%", "{#", "\r")) else None
    if quick is None or "{{-" in source or "{{+" in source or "-}}" in source:
        return

    lexer = STOCK.lexer
    assert [tuple(token) for token in quick] == [
        tuple(token) for token in lexer.wrap(lexer.tokeniter(source, None))
    ]


@pytest.mark.spec("TPL-01")
@settings(max_examples=400, deadline=None)
@given(st.lists(pieces, max_size=16).map(lambda p: "{{ " + " ".join(p) + " }}"))
@example("{{ outcome.status == 'error' and outcome.http.status in [429, 500] }}")
@example("{{ a if b else c if d else e }}")
@example("{{ not a is b and -c ** 2 }}")
def test_the_parser_builds_the_same_tree(source: str) -> None:
    try:
        expected = repr(STOCK.parse(source))
    except jinja2.TemplateSyntaxError:
        expected = None

    try:
        found = repr(parse(source)[0])
    except TemplateError:
        found = None

    assert found == expected


@pytest.mark.spec("TPL-01")
def test_plain_expressions_do_not_need_jinja2s_lexer() -> None:
    class NoLexer(type(STOCK.lexer)):  # type: ignore[misc]
        def tokeniter(self, *_: Any) -> Any:
            raise AssertionError("fell back")

    lexer = NoLexer(STOCK)
    for source in (
        "{{ outcome.status == 'error' and outcome.http.status in [429, 500] }}",
        "https://{{ ctx.host }}/{{ ctx.order['id'] | default(1.5) }}?q=ä\n",
        "{{ {'a': {'b': [1, 2]}} }}",
    ):
        assert tokenize(source, lexer)
