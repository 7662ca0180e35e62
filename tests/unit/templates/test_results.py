"""What a template gives: one expression keeps its type, anything else is text."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import compile_template, is_template
from noetl.templates.errors import translate

SCOPE: dict[str, Any] = {
    "workload": {
        "n": 3,
        "ok": True,
        "nothing": None,
        "rows": [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": []}],
        "items": [10, 20],
        "name": "Ada",
        "looks_like": "{{ 7 * 7 }} {% raw %}",
    },
    "ctx": {"order": {"id": 7}},
}


def render(source: str, **names: Any) -> Any:
    return compile_template(source).render({**SCOPE, **names})


@pytest.mark.spec("S-33")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ workload.n }}", 3, id="a number stays a number"),
        pytest.param("{{ workload.ok }}", True, id="a boolean stays a boolean"),
        pytest.param("{{ workload.nothing }}", None, id="null stays null"),
        pytest.param("{{ workload.rows }}", SCOPE["workload"]["rows"], id="a list"),
        pytest.param("{{ ctx.order }}", {"id": 7}, id="a mapping"),
        pytest.param("{{ 1.5 }}", 1.5, id="a fraction"),
        pytest.param("{{ 'a' }}", "a", id="text"),
        pytest.param("{{ (1, 2) }}", [1, 2], id="a tuple becomes a list"),
        pytest.param("{{ 1, 2 }}", [1, 2], id="a bare tuple becomes a list"),
        pytest.param("{{ {'a': [1, {'b': 2}]} }}", {"a": [1, {"b": 2}]}, id="literal"),
        pytest.param("  {{ workload.n }}\n", 3, id="white space of a block scalar"),
        pytest.param("\n{{ workload.n }}", 3, id="a line break before it"),
        pytest.param("{#- note -#}{{ workload.n }}", 3, id="a comment beside it"),
        pytest.param("{{- workload.n -}}", 3, id="white space control"),
        pytest.param("\t{{ workload.n }}", "\t3", id="a tab is text"),
        pytest.param("{{ workload.n }}{{ workload.n }}", "33", id="two are text"),
        pytest.param("n={{ workload.n }}", "n=3", id="text around makes text"),
        pytest.param("a{{ workload.nothing }}b", "ab", id="null in text is empty"),
        pytest.param("{{ true }}!", "True!", id="booleans print as in Jinja2"),
        pytest.param("{{ [1, 'ä', none] }}!", '[1, "ä", null]!', id="lists as JSON"),
        pytest.param("{{ {'a': true} }}!", '{"a": true}!', id="mappings as JSON"),
        pytest.param("{{ 1.0 }}!", "1.0!", id="fractions as in Jinja2"),
        pytest.param("x {{ 1 }}\n", "x 1\n", id="a trailing line break is kept"),
        pytest.param("{# nothing #}", "", id="only a comment"),
        pytest.param("plain", "plain", id="text without delimiters is itself"),
        pytest.param("", "", id="empty text"),
    ],
)
def test_result(source: str, expected: Any) -> None:
    result = render(source)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.spec("S-33")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ workload.items }}", [10, 20], id="the key, not the method"),
        pytest.param("{{ workload['items'] }}", [10, 20], id="the same in brackets"),
        pytest.param(
            "{{ ctx.items() }}", [["order", {"id": 7}]], id="called: a method"
        ),
        pytest.param("{{ workload.items()[5][0] }}", "name", id="called, beside a key"),
        pytest.param("{{ workload.rows[0].id }}", 1, id="an item of a list"),
        pytest.param("{{ workload.rows[-1].id }}", 2, id="the last item"),
        pytest.param("{{ workload.rows.0.id }}", 1, id="an item with a dot"),
        pytest.param("{{ workload.rows[0]['tags'][1] }}", "b", id="mixed access"),
        pytest.param("{{ workload['na' ~ 'me'] }}", "Ada", id="a computed key"),
        pytest.param("{{ workload.name[0] }}", "A", id="a character"),
        pytest.param("{{ workload.name[:2] }}", "Ad", id="a slice of text"),
        pytest.param("{{ workload.items[::-1] }}", [20, 10], id="a slice of a list"),
        pytest.param("{{ {200: 'ok'}[200] }}", "ok", id="a table with number keys"),
    ],
)
def test_access(source: str, expected: Any) -> None:
    assert render(source) == expected


@pytest.mark.spec("S-34")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ workload.looks_like }}", "{{ 7 * 7 }} {% raw %}", id="native"),
        pytest.param(
            ">{{ workload.looks_like }}<", ">{{ 7 * 7 }} {% raw %}<", id="in text"
        ),
        pytest.param("{% raw %}{{ x }}{% endraw %}", "{{ x }}", id="raw escapes"),
        pytest.param("{{ '{{' }} x }}", "{{ x }}", id="braces as text"),
        pytest.param("{{ '<b>&' }}!", "<b>&!", id="nothing is escaped for HTML"),
    ],
)
def test_output_is_never_rendered_again(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.spec("TPL-01", "S-34")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ a }}", True),
        ("{% if a %}{% endif %}", True),
        ("{# a #}", True),
        ("{ a }", False),
        ("plain", False),
        ("", False),
    ],
)
def test_text_without_delimiters_stays_text(text: str, expected: bool) -> None:
    assert is_template(text) is expected


@pytest.mark.spec("S-34")
def test_results_do_not_change_the_template() -> None:
    template = compile_template("{{ [1, {'a': []}] }}")

    first = template.render({})
    first[1]["a"].append(1)
    first.append(2)

    assert template.render({}) == [1, {"a": []}]


@pytest.mark.spec("S-34")
@pytest.mark.parametrize(
    "source",
    [
        "{{ workload.rows | sort(attribute='id', reverse=true) }}",
        "{{ workload.rows + [1] }}",
        "{{ workload.rows * 2 }}",
        "{{ workload | combine({'n': 4, 'rows': 1}) }}",
        "{{ workload.rows | batch(1, 'x') }}",
        "{{ workload.rows | slice(1, 'x') }}",
        "{{ workload.rows | groupby('id') }}",
        "{{ workload.items | sum(start=[]) if false else workload.items | reverse }}",
        "{% set workload = 1 %}{% for ctx in [1] %}{% endfor %}{{ workload }}",
    ],
)
def test_templates_change_nothing(source: str) -> None:
    before = copy.deepcopy(SCOPE)

    render(source)

    assert before == SCOPE


@pytest.mark.spec("S-32", "S-33")
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param("{{ 1 / 0 }}", "division by zero", id="division by zero"),
        pytest.param("{{ 1 // 0 }}", "division by zero", id="floor division by zero"),
        pytest.param("{{ 1 % 0 }}", "division by zero", id="rest of division by zero"),
        pytest.param("{{ 'a' + 1 }}", "+ does not work with text and a number", id="+"),
        pytest.param("{{ [] - 1 }}", "- does not work with a list and", id="-"),
        pytest.param("{{ {} * 2 }}", "* does not work with a mapping", id="*"),
        pytest.param("{{ 1 < 'a' }}", "< does not work with a number and text", id="<"),
        pytest.param("{{ none < 1 }}", "< does not work with null", id="null in order"),
        pytest.param("{{ 1 in 1 }}", "in needs a list", id="in a number"),
        pytest.param("{{ 1 in 'a' }}", "a number cannot be part of text", id="in text"),
        pytest.param("{{ -'a' }}", "a sign does not work with text", id="sign"),
        pytest.param("{{ 1e308 * 10 }}", "not a JSON number", id="infinity"),
        pytest.param("{{ 1e308 - -1e308 }}", "not a JSON number", id="infinity by -"),
        pytest.param("{{ 'nan' | float }}", "not a JSON number", id="not a number"),
        pytest.param("{{ '1e999' | float }}", "not a JSON number", id="infinite text"),
        pytest.param("{{ {1: 2} }}", "keys of a mapping in a result", id="number key"),
        pytest.param("{{ {[]: 2} }}", "a list cannot be a key", id="list as key"),
        pytest.param("{{ 'abc'[::0] }}", "step of zero", id="slice without step"),
        pytest.param(
            "{{ 'abc'['a':] }}", "whole numbers, found text", id="slice by text"
        ),
        pytest.param("{{ (5).upper() }}", "a number and has no method", id="method"),
        pytest.param("{{ [].upper() }}", "its methods: count, index", id="list method"),
        pytest.param("{{ ctx() }}", "ctx is a mapping, not a function", id="call"),
        pytest.param("{% for x in 5 %}{% endfor %}", "cannot be iterated", id="loop"),
        pytest.param("{{ [1, 'a'] | sort }}", "kinds differ", id="mixed sort"),
        pytest.param("{{ 'a' | fromjson }}", "not JSON at line 1 column 1", id="json"),
        pytest.param("{{ 'é!' | b64decode }}", "not base64", id="base64"),
        pytest.param("{{ 'soon' | timestamp }}", "expected a moment", id="moment"),
        pytest.param("{{ range('a') }}", "range takes one to three", id="range"),
    ],
)
def test_other_errors_are_sentences(source: str, sentence: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(source)

    assert caught.value.kind == "template.error"
    assert sentence in caught.value.message


@pytest.mark.spec("S-32")
def test_messages_do_not_quote_python() -> None:
    for error in (ValueError("hunter2"), KeyError("hunter2"), OverflowError("hunter2")):
        assert "hunter2" not in translate(error, "here").message
    assert translate(RecursionError(), "here").kind == "template.budget"
    assert translate(MemoryError(), "here").kind == "template.budget"


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    "source",
    [
        "{{ [1].index(secret) }}",
        "{{ 'a'.index(secret) }}",
        "{{ secret | timestamp }}",
        "{{ secret | parse_datetime('%Y') }}",
        "{{ secret | fromjson }}",
        "{{ secret + 1 }}",
        "{{ secret | format(1) }}",
        "{{ secret | b64decode }}",
        "{{ 1 | round(method=secret) }}",
        "{{ ctx.get(secret).x }}",
        "{{ ctx[secret] }}",
        "{{ [1][secret].x }}",
    ],
)
def test_messages_do_not_quote_values(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source).render({"secret": "hunter2!", "ctx": {}})

    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"
