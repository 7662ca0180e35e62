"""Inputs: access is chainable, using an undefined value is an error with its path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import compile_template

SCOPE: dict[str, Any] = {
    "ctx": {"orders": {"id": 1}, "nothing": None, "list": [1], "name": "x", "a": {}}
}


@pytest.mark.spec("S-31")
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("{{ ctx.gone }}", id="as a whole result"),
        pytest.param("a{{ ctx.gone }}", id="in text"),
        pytest.param("{{ ctx.gone + 1 }}", id="in arithmetic"),
        pytest.param("{{ 1 + ctx.gone }}", id="on the right of it"),
        pytest.param("{{ -ctx.gone }}", id="behind a sign"),
        pytest.param("{{ ctx.gone ~ 'a' }}", id="joined to text"),
        pytest.param("{{ ctx.gone == 1 }}", id="compared"),
        pytest.param("{{ 1 == ctx.gone }}", id="compared from the left"),
        pytest.param("{{ 1 != ctx.gone }}", id="compared for difference"),
        pytest.param("{{ ctx.gone < 1 }}", id="put in order"),
        pytest.param("{{ 1 < ctx.gone }}", id="put in order from the left"),
        pytest.param("{{ ctx.gone in [1] }}", id="sought"),
        pytest.param("{{ 1 in ctx.gone }}", id="sought in"),
        pytest.param("{{ ctx.gone is none }}", id="tested"),
        pytest.param("{{ 1 is eq ctx.gone }}", id="an argument of a test"),
        pytest.param("{{ 1 if ctx.gone else 2 }}", id="as a condition"),
        pytest.param("{{ not ctx.gone }}", id="negated"),
        pytest.param("{{ ctx.gone and 1 }}", id="before and"),
        pytest.param("{{ ctx.gone or 1 }}", id="before or"),
        pytest.param("{{ ctx.gone | upper }}", id="filtered"),
        pytest.param("{{ 'a' | replace('a', ctx.gone) }}", id="an argument"),
        pytest.param("{{ [1] | join(d=ctx.gone) }}", id="a named argument"),
        pytest.param("{{ ctx.gone.upper() }}", id="asked for a method"),
        pytest.param("{{ 'a'.replace('a', ctx.gone) }}", id="an argument of a method"),
        pytest.param("{{ ctx[ctx.gone] }}", id="as a key"),
        pytest.param("{{ ctx.list[ctx.gone:] }}", id="as a bound"),
        pytest.param("{{ range(ctx.gone) }}", id="in range"),
        pytest.param("{{ {ctx.gone: 1} }}", id="as a key of a literal"),
        pytest.param("{{ [1, [ctx.gone]] }}", id="in a list that is the result"),
        pytest.param("{{ {'a': ctx.gone} }}", id="in a mapping that is the result"),
        pytest.param("{{ [ctx.gone] | join }}", id="in a list that is joined"),
        pytest.param("{{ [ctx.gone] | tojson }}", id="in a list that is dumped"),
        pytest.param("{{ [ctx.gone] }}!", id="in a list that is printed"),
        pytest.param("{{ [ctx.gone] == [1] }}", id="in a list that is compared"),
        pytest.param("{{ [ctx.gone] | unique }}", id="in a list without repetition"),
        pytest.param("{% for x in ctx.gone %}{% endfor %}", id="iterated"),
        pytest.param("{% if ctx.gone %}{% endif %}", id="in an if statement"),
        pytest.param("{% set x = ctx.gone %}{{ x }}", id="set, then used"),
    ],
)
def test_using_undefined(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source).render(SCOPE)

    assert caught.value.kind == "template.undefined"
    assert caught.value.message == "ctx.gone is undefined: ctx has no key 'gone'"


@pytest.mark.spec("S-31")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ ctx.gone | default(1) }}", 1, id="default"),
        pytest.param("{{ ctx.gone | d(1) }}", 1, id="its short name"),
        pytest.param("{{ gone.a[0].b | default(1) }}", 1, id="at any depth"),
        pytest.param("{{ ctx.nothing.a | default(1) }}", 1, id="behind null"),
        pytest.param("{{ ctx.nothing | default(1) }}", None, id="null is defined"),
        pytest.param("{{ ctx.nothing | default(1, true) }}", 1, id="unless asked"),
        pytest.param("{{ gone.a | default(1, true) }}", 1, id="truth, and undefined"),
        pytest.param(
            "{{ gone | default(lost) | default(2) }}", 2, id="a chain of them"
        ),
        pytest.param("{{ ctx.gone is defined }}", False, id="is defined"),
        pytest.param("{{ gone.a.b is undefined }}", True, id="is undefined"),
        pytest.param("{{ ctx.name is defined and ctx.name }}", "x", id="protected"),
        pytest.param("{{ 1 if true else ctx.gone }}", 1, id="the branch not taken"),
        pytest.param("{{ false and ctx.gone }}", False, id="not reached"),
        pytest.param("{% set x = ctx.gone %}ok", "ok", id="set, never used"),
        pytest.param(
            "{{ [ctx.gone, ctx.name] | select('defined') | first }}",
            "x",
            id="the first that is defined",
        ),
        pytest.param("{{ [] | first | default(0) }}", 0, id="no first item"),
        pytest.param("{{ [] | max | default(0) }}", 0, id="no largest item"),
        pytest.param(
            "{{ [{'a': 1}, {}] | map(attribute='a', default=0) }}", [1, 0], id="mapped"
        ),
    ],
)
def test_providing_for_undefined(source: str, expected: Any) -> None:
    assert compile_template(source).render(SCOPE) == expected


@pytest.mark.spec("S-31")
@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        pytest.param(
            "{{ ctx.order.id }}",
            "ctx.order.id is undefined: ctx has no key 'order'",
            "did you mean 'orders'?",
            id="the full path, the broken link, the nearest key",
        ),
        pytest.param(
            "{{ ctxx.a }}",
            "ctxx.a is undefined: unknown name 'ctxx'",
            "did you mean 'ctx'?",
            id="a name",
        ),
        pytest.param(
            "{{ ctx['order']['id'] }}",
            "ctx['order']['id'] is undefined: ctx has no key 'order'",
            "did you mean 'orders'?",
            id="as it was written",
        ),
        pytest.param(
            "{{ ctx.nothing.a.b }}",
            "ctx.nothing.a.b is undefined: ctx.nothing is null, it has no 'a'",
            None,
            id="null",
        ),
        pytest.param(
            "{{ ctx.list[3].x }}",
            "ctx.list[3].x is undefined: ctx.list has 1 items, no item 3",
            None,
            id="an item",
        ),
        pytest.param(
            "{{ ctx.name.first }}",
            "ctx.name.first is undefined: ctx.name is text, it has no 'first'",
            None,
            id="text has no keys",
        ),
        pytest.param(
            "{{ ctx.items }}",
            "ctx.items is undefined: ctx has no key 'items'",
            None,
            id="a method that is not called is no value",
        ),
        pytest.param(
            "{{ ctx.a.get('x').y }}",
            "ctx.a.get().y is undefined: ctx.a.get() is null, it has no 'y'",
            None,
            id="behind a call",
        ),
        pytest.param(
            "{{ 1 if false }}",
            "the if without else is undefined: the condition is false and there is no "
            "else",
            None,
            id="an if without else",
        ),
        pytest.param(
            "{{ [] | first }}",
            "the first item is undefined: the list is empty",
            None,
            id="an empty list",
        ),
    ],
)
def test_the_message_names_the_path(
    source: str, message: str, hint: str | None
) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source).render(SCOPE)

    assert caught.value.kind == "template.undefined"
    assert (caught.value.message, caught.value.hint) == (message, hint)


class FallThrough(dict[str, Any]):
    """Flat names: what the engine passes as a scope."""

    def __missing__(self, name: str) -> Any:
        for layer in ("args", "ctx", "iter", "workload"):
            if name in self.get(layer, {}):
                return self[layer][name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()


@pytest.mark.spec("C-34", "TPL-08")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ a }}", "args", id="args first"),
        pytest.param("{{ c }}", "ctx", id="then ctx"),
        pytest.param("{{ w }}", "workload", id="then workload"),
        pytest.param("{{ ctx.a }}", "ctx", id="a namespace wins"),
        pytest.param(
            "{{ z | default('none') }}", "none", id="and then it is undefined"
        ),
    ],
)
def test_flat_names_fall_through(source: str, expected: str) -> None:
    scope = FallThrough(
        args={"a": "args"},
        ctx={"a": "ctx", "c": "ctx"},
        workload={"a": "workload", "c": "workload", "w": "workload"},
    )

    assert compile_template(source).render(scope) == expected


@pytest.mark.spec("VAL-22")
@pytest.mark.parametrize(
    "source", ["{{.Host}}", "{{ .Values.a }}", "{{- .a }}", "{{ $x }}"]
)
def test_a_template_of_go_is_recognized(source: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source)

    assert "a template of Go" in (caught.value.hint or "")
