"""if, for and set, with Jinja2's rules for what a name means where."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import compile_template

SCOPE: dict[str, Any] = {
    "ctx": {"rows": [1, 2, 3], "map": {"a": 1, "b": 2}, "pairs": [["x", 1], ["y", 2]]},
    "name": "outer",
}


@pytest.mark.spec("TPL-01", "S-33")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{% if ctx.rows %}yes{% endif %}", "yes", id="if"),
        pytest.param("{% if not ctx.rows %}a{% else %}b{% endif %}", "b", id="else"),
        pytest.param(
            "{% if 0 %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %}",
            "c",
            id="elif",
        ),
        pytest.param("{% for x in ctx.rows %}{{ x }},{% endfor %}", "1,2,3,", id="for"),
        pytest.param("{% for k in ctx.map %}{{ k }}{% endfor %}", "ab", id="keys"),
        pytest.param("{% for c in 'xyz' %}{{ c }}.{% endfor %}", "x.y.z.", id="text"),
        pytest.param(
            "{% for k, v in ctx.map.items() %}{{ k }}={{ v }};{% endfor %}",
            "a=1;b=2;",
            id="pairs of a mapping",
        ),
        pytest.param(
            "{% for (a, (b, c)) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
            "123",
            id="nested unpacking",
        ),
        pytest.param(
            "{% for x in ctx.rows if x != 2 %}{{ x }}{% if not loop.last %},{% endif %}"
            "{% endfor %}",
            "1,3",
            id="a filter, and loop counts what is left",
        ),
        pytest.param(
            "{% for x in [] %}a{% else %}none{% endfor %}", "none", id="empty"
        ),
        pytest.param(
            "{% for x in ctx.rows if x > 5 %}a{% else %}none{% endfor %}",
            "none",
            id="nothing left",
        ),
        pytest.param(
            "{% for x in 'ab' %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}"
            "{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }} "
            "{% endfor %}",
            "10TrueFalse221 21FalseTrue210 ",
            id="where the loop is",
        ),
        pytest.param(
            "{% for x in 'ab' %}{{ loop.previtem | default('-') }}"
            "{{ loop.nextitem | default('-') }}{% endfor %}",
            "-ba-",
            id="neighbours",
        ),
        pytest.param(
            "{% for a in 'xy' %}{% for b in 'pq' %}{{ loop.index }}{% endfor %}"
            "{{ loop.index }} {% endfor %}",
            "121 122 ",
            id="an inner loop has its own loop",
        ),
        pytest.param("{% set x = 1 %}{% set x = x + 1 %}{{ x }}", "2", id="set"),
        pytest.param("{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12", id="set two"),
        pytest.param("{{ name }}{% set name = 'in' %}{{ name }}", "outerin", id="hide"),
        pytest.param(
            "{% set x = 0 %}{% for i in ctx.rows %}{% set x = x + i %}{{ x }}"
            "{% endfor %}{{ x }}",
            "1230",
            id="a turn's assignments end with it",
        ),
        pytest.param(
            "{% for name in 'ab' %}{{ name }}{% endfor %}{{ name }}",
            "abouter",
            id="so does the loop's own name",
        ),
        pytest.param(
            "{% if 1 %}{% set x = 5 %}{% endif %}{{ x }}", "5", id="if is no scope"
        ),
        pytest.param(
            "{% if 0 %}{% set name = 5 %}{% endif %}{{ name }}", "outer", id="not taken"
        ),
        pytest.param(
            "{% for x in [] %}{% else %}{% set name = 5 %}{% endfor %}{{ name }}",
            "outer",
            id="else of a loop is a scope",
        ),
        pytest.param("{%- if 1 -%}  a  {%- endif -%}", "a", id="white space control"),
        pytest.param("{% print 1 + 1 %}", "2", id="print"),
        pytest.param(
            "{% for g in [{'c': 1}, {'c': 1}] | groupby('c') %}{{ g.grouper }}:"
            "{{ g.list | length }}{% endfor %}",
            "1:2",
            id="groups by name",
        ),
        pytest.param(
            "{% for c, rows in [{'c': 1}, {'c': 1}] | groupby('c') %}{{ c }}:"
            "{{ rows | length }}{% endfor %}",
            "1:2",
            id="groups unpacked",
        ),
    ],
)
def test_statements(source: str, expected: str) -> None:
    template = compile_template(source)

    assert template.render(SCOPE) == expected
    assert template.statements
    assert not template.native


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    "source",
    [
        "{% for a, b in [1] %}{% endfor %}",
        "{% for a, b in [[1]] %}{% endfor %}",
        "{% set a, b = [1, 2, 3] %}",
    ],
)
def test_unpacking_needs_as_many_items_as_names(source: str) -> None:
    with pytest.raises(TemplateError, match="cannot unpack") as caught:
        compile_template(source).render({})

    assert caught.value.kind == "template.error"


@pytest.mark.spec("S-29")
@pytest.mark.parametrize(
    ("source", "native", "statements"),
    [
        ("{{ a }}", True, False),
        (" {{ a }}\n", True, False),
        ("{{ a }} b", False, False),
        ("{% if a %}{% endif %}", False, True),
        ("{% raw %}{{ a }}{% endraw %}", False, False),
        ("{{ a }}{% set b = 1 %}", False, True),
        ("{% print a %}", False, True),
        ("plain", False, False),
    ],
)
def test_what_a_template_is(source: str, native: bool, statements: bool) -> None:
    template = compile_template(source)

    assert (template.native, template.statements) == (native, statements)
    assert template.source == source
