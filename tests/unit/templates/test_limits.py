"""Hostile templates: refused, in bounded steps and memory."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import (
    Budget,
    Template,
    compile_guard,
    compile_template,
    compile_value,
)

ROWS = [{"a": number, "b": "x" * 10} for number in range(20_000)]
SCOPE: dict[str, Any] = {
    "ctx": {"rows": ROWS, "long": "ab " * 100_000, "big": 2**4000, "s": "x" * 1000}
}
MEMORY = 64 * 1024 * 1024


def repeat(statement: str, times: int = 40) -> str:
    return statement * times


def forever(statement: str) -> str:
    """More turns than any budget."""
    inner = f"{{% for b in range(9999) %}}{statement}{{% endfor %}}"
    return f"{{% for a in range(9999) %}}{inner}{{% endfor %}}"


DOUBLED = "{% set x = [1] %}" + repeat("{% set x = [x, x] %}")
TWICE = "{% set x = [1] %}{% set y = [1] %}" + repeat(
    "{% set x = [x, x] %}{% set y = [y, y] %}"
)
MANY_NAMES = "".join(f"{{% set a{number} = 1 %}}" for number in range(400))
LONG = "{% set x = 'a' * 262144 %}{% set y = 'a' * 262143 ~ 'b' %}"

HOSTILE = [
    pytest.param("{{ 'a' * 1000000000 }}", id="repeated text"),
    pytest.param("{{ 1000000000 * 'a' }}", id="repeated from the left"),
    pytest.param("{{ [0] * 300000000 }}", id="repeated list"),
    pytest.param(forever("{% for c in range(9999) %}{% endfor %}"), id="three loops"),
    pytest.param(forever("{{ a * b }}"), id="two loops with output"),
    pytest.param(forever("{% set z = ctx.rows | length %}"), id="two loops, setting"),
    pytest.param("{% set x = 'ab' %}" + repeat("{% set x = x ~ x %}"), id="x ~ x"),
    pytest.param("{% set x = 'ab' %}" + repeat("{% set x = x + x %}"), id="x + x"),
    pytest.param("{% set x = [1] %}" + repeat("{% set x = x + x %}"), id="lists + "),
    pytest.param(DOUBLED + "{{ x }}", id="[x, x] printed"),
    pytest.param(DOUBLED + "{{ x | tojson }}", id="[x, x] dumped"),
    pytest.param(DOUBLED + "{{ x | string }}", id="[x, x] as text"),
    pytest.param(DOUBLED + "{{ [x] | join }}", id="[x, x] joined"),
    pytest.param(TWICE + "{{ x == y }}", id="[x, x] compared"),
    pytest.param(TWICE + "{{ x != y }}", id="[x, x] compared for difference"),
    pytest.param(TWICE + "{{ x < y }}", id="[x, x] put in order"),
    pytest.param(TWICE + "{{ x in [y] }}", id="[x, x] sought"),
    pytest.param(TWICE + "{{ 1 if x is eq y }}", id="[x, x] tested"),
    pytest.param(TWICE + "{{ [y].index(x) }}", id="[x, x] indexed"),
    pytest.param(TWICE + "{{ [y].count(x) }}", id="[x, x] counted"),
    pytest.param(TWICE + "{{ [x, y] | sort }}", id="[x, x] sorted"),
    pytest.param(TWICE + "{{ [x, y] | min }}", id="[x, x] minimum"),
    pytest.param(TWICE + "{{ [{'k': x}, {'k': y}] | groupby('k') }}", id="grouped"),
    pytest.param(
        "{% set x = {} %}" + repeat("{% set x = {'a': x, 'b': x} %}") + "{{ x }}",
        id="mappings doubled",
    ),
    pytest.param(
        "{% set x = {ctx.long: 1} %}" + repeat("{% set x = [x, x] %}", 8) + "{{ x }}",
        id="long keys doubled",
    ),
    pytest.param("{{ [{ctx.long: 1}] * 9999 }}", id="long keys in a result"),
    pytest.param(
        "{% set x = {} %}"
        + repeat("{% set x = {'a': x, 'b': x} %}")
        + "{{ x | combine(x) }}",
        id="mappings merged",
    ),
    pytest.param(
        "{% set x = [1] %}" + repeat("{% set x = [x] %}", 300) + "{{ x == x }}",
        id="deep nesting",
    ),
    pytest.param("{{ [ctx.rows] * 200000 }}", id="a result that shares its parts"),
    pytest.param("{{ [['a' * 200000] * 1000] * 1000 }}", id="shared long text"),
    pytest.param(
        "{{ ('a' * 1000) | replace('a', 'b' * 999) | replace('b', 'c' * 1000) }}",
        id="replace filter",
    ),
    pytest.param("{{ ('a' * 1000).replace('a', 'b' * 999) }}", id="replace method"),
    pytest.param("{{ ('a' * 9999) | replace('', 'b' * 99) }}", id="replace nothing"),
    pytest.param("{{ range(9999) | join('x' * 10000) }}", id="join filter"),
    pytest.param("{{ ('x' * 9999).join(('a ' * 9999).split()) }}", id="join method"),
    pytest.param("{{ [1] | batch(1000000000, 'x') }}", id="batch"),
    pytest.param("{{ [1] | slice(1000000000) }}", id="slice"),
    pytest.param("{{ ('a\\n' * 9999) | indent(100000) }}", id="indent"),
    pytest.param("{{ '%1000000000d' | format(1) }}", id="format width"),
    pytest.param("{{ '%.1000000000f' | format(1.0) }}", id="format precision"),
    pytest.param("{{ ('%(a)999s' * 9000) | format(a=1) }}", id="format many"),
    pytest.param(forever("{% if ctx.big * b // 7 %}{% endif %}"), id="large integers"),
    pytest.param(forever("{% set z = ctx.big | string %}"), id="their digits"),
    pytest.param(LONG + forever("{% if x == y %}{% endif %}"), id="long texts equal"),
    pytest.param(LONG + forever("{% if x < y %}{% endif %}"), id="long texts in order"),
    pytest.param(LONG + forever("{% if y in x %}{% endif %}"), id="text in text"),
    pytest.param(LONG + "{{ y in [x] * 10000 }}", id="long text in a list"),
    pytest.param(LONG + forever("{% set z = x.find(y) %}"), id="find"),
    pytest.param(LONG + forever("{% set z = x.strip() %}"), id="strip"),
    pytest.param(LONG + forever("{% set z = x.strip(y) %}"), id="strip many"),
    pytest.param(LONG + forever("{% set z = x | trim(y) %}"), id="trim many"),
    pytest.param(
        "{% set x = 'b' * 131000 %}{{ x.strip('a' * 131000 ~ 'b') }}",
        id="a hundred thousand characters stripped of as many",
    ),
    pytest.param(
        "{% for a in range(9999) %}{% if a"
        + " + a" * 30
        + " %}{% endif %}{% endfor %}",
        id="a turn pays for its body",
    ),
    pytest.param(LONG + forever("{% set z = x.isalpha() %}"), id="questions"),
    pytest.param(LONG + forever("{% set z = x is lower %}"), id="tests on text"),
    pytest.param(LONG + forever("{% set z = x | title %}"), id="title"),
    pytest.param(LONG + forever("{% set z = x | sha256 %}"), id="sha256"),
    pytest.param(forever("{% set z = ctx.long.split() %}"), id="split"),
    pytest.param(forever("{% set z = ctx.long | list %}"), id="list of characters"),
    pytest.param(forever("{% set z = ctx.rows | tojson %}"), id="tojson"),
    pytest.param("{{ ctx.rows | tojson(8) }}", id="tojson, indented"),
    pytest.param(forever("{% set z = ctx.rows[:99] | tojson(8) %}"), id="in a loop"),
    pytest.param(forever("{% set z = ctx.rows | sort(attribute='a') %}"), id="sort"),
    pytest.param(forever("{% set z = ctx.rows | map(attribute='a') %}"), id="map"),
    pytest.param("{{ ctx.rows | map('map', 'map', 'upper') }}", id="map of maps"),
    pytest.param(forever("{% set z = ctx.rows | selectattr('a') %}"), id="select"),
    pytest.param(forever("{% set z = ctx.rows | groupby('a') %}"), id="groupby"),
    pytest.param(forever("{% set z = ctx.rows[1:] %}"), id="slices of lists"),
    pytest.param(
        forever("{% set z = '2026-01-01' | parse_datetime('%Y-%m-%d') %}"), id="dates"
    ),
    pytest.param(
        "{% for a in ctx.rows if " + "*".join(["2"] * 50) + " %}{% endfor %}",
        id="a costly filter of a loop",
    ),
    pytest.param("{{ ('[' * 99999) | fromjson }}", id="deep JSON"),
    pytest.param("{% for c in ctx.long %}{% endfor %}", id="a loop over long text"),
    pytest.param("{% for a in range(9999) %}{{ ctx.s }}{% endfor %}", id="long output"),
    pytest.param("{{ ctx.rows }}{{ ctx.rows }}", id="large values in text"),
    pytest.param("{{ range(10001) }}", id="a long range"),
    pytest.param("{{ range(99999999999999999999) }}", id="an endless range"),
    pytest.param(MANY_NAMES + forever(""), id="many names"),
]


@pytest.mark.spec("S-32", "S-70")
@pytest.mark.parametrize("source", HOSTILE)
def test_hostile_templates_are_refused(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(source).render(SCOPE)

    assert caught.value.kind == "template.budget"


@pytest.mark.spec("S-70")
@pytest.mark.parametrize(
    "source",
    [
        DOUBLED + "{{ x | tojson }}",
        TWICE + "{{ x == y }}",
        "{{ ctx.long.split() | length }}",
        "{{ ('[' ~ '[],' * 80000 ~ '1]') | fromjson | length }}",
        "{{ (ctx.rows | map(attribute='b') | list) * 9 }}",
        "{% set x = 'ä' * 262144 %}" + "{% set x = x.upper() %}" * 50,
        "{{ ('\\x01' * 262000) | tojson | length }}",
        "{% for r in ctx.rows %}{% set y = r | tojson %}{% endfor %}",
    ],
)
def test_memory_is_bounded(source: str) -> None:
    template = Template(source)
    tracemalloc.start()
    try:
        with contextlib.suppress(TemplateError):
            template.render(SCOPE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < MEMORY


@pytest.mark.spec("S-70")
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        pytest.param("a" * 16_385, "too long: 16,385 bytes, at most 16,384", id="text"),
        pytest.param("{{ 'ä" + "a" * 16_380 + "' }}", "too long", id="bytes count"),
        pytest.param("{{ a }}" * 200_000, "too long", id="a megabyte"),
        pytest.param(
            "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}", "too deep", id="("
        ),
        pytest.param("{{ " + "[" * 33 + "]" * 33 + " }}", "too deep", id="33 brackets"),
        pytest.param("{{ " + "{'a':" * 99 + "1" + "}" * 99 + " }}", "too deep", id="{"),
        pytest.param("{{ " + " and ".join("a" * 2_000) + " }}", "too deep", id="and"),
        pytest.param("{{ " + " and ".join("a" * 50_000) + " }}", "too long", id="ands"),
        pytest.param("{{ " + "+".join("1" * 2_000) + " }}", "too deep", id="+"),
        pytest.param("{{ " + " and ".join("1" * 61) + " }}", "too deep", id="61 terms"),
        pytest.param("{% if 1 %}" * 33 + "{% endif %}" * 33, "too deep", id="33 ifs"),
        pytest.param("{{ " + "not " * 2_000 + "a }}", "too deep", id="not"),
        pytest.param("{{ " + "-" * 2_000 + "1 }}", "too deep", id="signs"),
        pytest.param(
            "{{ " + "(-" * 30 + "---1" + ")" * 30 + " }}", "too deep", id="-("
        ),
        pytest.param("{{ " + "1 if a else " * 999 + "1 }}", "too deep", id="else"),
        pytest.param("{{ a" + ".b" * 999 + " }}", "too deep", id="keys"),
        pytest.param("{{ a" + "[0]" * 999 + " }}", "too deep", id="items"),
        pytest.param("{{ a" + " | d" * 999 + " }}", "too deep", id="filters"),
        pytest.param("{{ a" + ".get(1)" * 500 + " }}", "too deep", id="calls"),
        pytest.param("{% if a %}" * 500, "too deep", id="ifs without end"),
        pytest.param(
            "{% if a %}" * 500 + "{% endif %}" * 500, "too deep", id="nested ifs"
        ),
        pytest.param(
            "{{a}}" * 1_990 + "{{a.b.c.d.e.f.g.h.i.j.k}}",
            "2,000 parts",
            id="expressions",
        ),
        pytest.param("{{ " + "~".join("1" * 2_001) + " }}", "2,000 parts", id="~"),
        pytest.param("{{ [" + "1," * 2_001 + "] }}", "2,000 parts", id="a long list"),
        pytest.param("{{ " + "," * 8_000 + " }}", "words and signs", id="signs only"),
    ],
)
def test_oversized_templates(source: str, sentence: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source)

    assert caught.value.kind == "template.budget"
    assert sentence in caught.value.message


@pytest.mark.spec("S-70")
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("a" * 16_384, id="16 KiB"),
        pytest.param("{{ " + "(" * 32 + "1" + ")" * 32 + " }}", id="32 brackets"),
        pytest.param("{{ " + "[" * 32 + "]" * 32 + " }}", id="32 lists"),
        pytest.param("{{ " + " and ".join("1" * 59) + " }}", id="59 terms"),
        pytest.param("{{ " + " ~ ".join("1" * 1_900) + " }}", id="1,900 parts of text"),
        pytest.param("{{ ctx.s }}" * 200, id="200 expressions"),
        pytest.param("{% if 1 %}" * 30 + "{% endif %}" * 30, id="30 nested ifs"),
        pytest.param("{% for a in range(9999) %}{{ a }}{% endfor %}", id="9,999 turns"),
        pytest.param("{{ ctx.rows }}", id="a large value passes through"),
        pytest.param("{{ ctx.long }}", id="a long text passes through"),
        pytest.param("{{ ctx.rows | default([]) }}", id="behind a default too"),
        pytest.param("{{ ctx.rows | length }}", id="counting costs nothing"),
        pytest.param("{{ ctx.rows | map(attribute='a') | sum }}", id="20,000 rows"),
        pytest.param("{{ ctx.rows | tojson | length if false else 1 }}", id="unused"),
        pytest.param("{{ ctx.big }}", id="an integer of 4,000 bits"),
    ],
)
def test_what_just_fits(source: str) -> None:
    compile_template(source).render(SCOPE)


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{ ctx.big * ctx.big }}", id="times"),
        pytest.param("{{ ctx.max + ctx.max }}", id="plus"),
        pytest.param("{{ -ctx.max - ctx.max }}", id="minus"),
        pytest.param("{{ ('f' * 1200) | int(base=16) }}", id="from text"),
        pytest.param("{{ ('1' * 1290) | fromjson }}", id="from JSON"),
    ],
)
def test_integers_have_4096_bits(source: str) -> None:
    scope = {"ctx": {"big": 2**4000, "max": 2**4096 - 1}}
    with pytest.raises(TemplateError, match="not a JSON number") as caught:
        compile_template(source).render(scope)

    assert caught.value.kind == "template.error"


@pytest.mark.spec("S-70")
def test_one_budget_for_several_evaluations() -> None:
    template = compile_template("{{ range(100) | length }}")
    budget = Budget(steps=1_000)

    for _ in range(3):
        template.render({}, budget)
    assert 0 < budget.steps < 700
    budget.steps = 50
    with pytest.raises(TemplateError, match="step budget"):
        template.render({}, budget)
    assert budget.steps == 0


@pytest.mark.spec("S-70")
def test_output_is_capped_by_the_budget() -> None:
    with pytest.raises(TemplateError, match="text exceeds"):
        compile_template("{{ 'abc' }}def").render({}, Budget(output=5))


@pytest.mark.spec("S-32")
def test_a_deep_stack_does_not_crash() -> None:
    """Called from code that is itself deep, a template fails in its own way."""

    def descend(levels: int) -> None:
        if levels:
            descend(levels - 1)
            return
        for source in sources:
            try:
                compile_value([[[Template(source).source]]]).render({})
            except TemplateError as error:
                assert error.kind == "template.budget"  # noqa: PT017

    sources = [
        "{{ " + "[" * 30 + "]" * 30 + " }}",
        "{{ " + " and ".join("1" * 55) + " }}",
        "{% if 1 %}" * 30 + "{% endif %}" * 30,
    ]
    for levels in range(500, 930, 10):
        descend(levels)


@pytest.mark.spec("S-70")
def test_sorting_costs_more_than_walking() -> None:
    budget = Budget()
    scope = {"many": list(range(10_000))}

    compile_template("{{ many | sort | length }}").render(scope, budget)

    assert budget.steps < 200_000 - 50_000


class Colliding(int):
    """A number that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Colliding.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.mark.spec("S-70")
def test_colliding_hashes_do_not_make_unique_quadratic() -> None:
    same_hash = 2**61 - 1
    scope = {"many": [Colliding(same_hash * n) for n in range(1, 500)]}

    assert compile_template("{{ many | unique | length }}").render(scope) == 499
    assert Colliding.compared < 1_000


@pytest.mark.spec("S-30")
def test_guards_have_a_budget_too() -> None:
    with pytest.raises(TemplateError) as caught:
        compile_guard("{{ ctx.rows * 99 }}").holds(SCOPE)

    assert caught.value.kind == "template.budget"


@pytest.mark.spec("VAL-22", "S-32")
def test_each_list_made_text_is_charged_for_itself() -> None:
    """Found by fuzzing: 30,000 empty lists, each cheap, took an eighth of a second."""
    few = compile_template("{{ ([[]] * 3) | join(',') }}")
    assert few.render({}) == "[],[],[]"
    many = compile_template("{{ ([[]] * 30000) | join(',') }}")
    with pytest.raises(TemplateError) as caught:
        many.render({})
    assert caught.value.kind == "template.budget"
