"""Which names a template reads, so that a playbook can be checked before it runs."""

from __future__ import annotations

import pytest

from noetl.templates import Reference, compile_template, compile_value


@pytest.mark.spec("C-34", "TPL-03")
@pytest.mark.parametrize(
    ("source", "paths"),
    [
        pytest.param("{{ ctx.order.id }}", ["ctx.order.id"], id="a path"),
        pytest.param("{{ ctx['order'].id }}", ["ctx.order.id"], id="constant keys"),
        pytest.param("{{ ctx.rows[0].id }}", ["ctx.rows"], id="up to an item"),
        pytest.param("{{ ctx[args.key].x }}", ["ctx", "args.key"], id="a computed key"),
        pytest.param("{{ ctx.name.upper() }}", ["ctx.name"], id="methods are not keys"),
        pytest.param("{{ ctx.get('a') }}", ["ctx"], id="nor is get"),
        pytest.param("{{ a + b.c ~ a }}", ["a", "b.c"], id="each once, in order"),
        pytest.param("{{ range(n) }}", ["n"], id="range is no name"),
        pytest.param("{{ now() }}", ["now"], id="other functions are"),
        pytest.param("{{ x | join(y, attribute=z) }}", ["x", "y", "z"], id="arguments"),
        pytest.param("{{ a if b else c }}", ["a", "b", "c"], id="as written"),
        pytest.param("{{ [a, {'k': b, c: d}] }}", ["a", "b", "c", "d"], id="literals"),
        pytest.param("{{ x[a:b] }}", ["x", "a", "b"], id="slices"),
        pytest.param("{{ true and none }}", [], id="constants"),
        pytest.param("{% set a = b %}{{ a.c }}", ["b"], id="set names are not free"),
        pytest.param("{{ a }}{% set a = 1 %}{{ a }}", ["a"], id="before they are set"),
        pytest.param(
            "{% for x in ctx.rows if x.ok %}{{ x.id }}{{ loop }}{{ y }}{% endfor %}",
            ["ctx.rows", "y"],
            id="loop names are not free",
        ),
        pytest.param(
            "{% for x in a %}{% endfor %}{{ x }}{{ loop }}",
            ["a", "x", "loop"],
            id="after",
        ),
        pytest.param(
            "{% for x in a %}{% else %}{{ x }}{% endfor %}", ["a", "x"], id="or in else"
        ),
        pytest.param("plain", [], id="no template"),
    ],
)
def test_paths(source: str, paths: list[str]) -> None:
    assert [str(r) for r in compile_template(source).references] == paths


@pytest.mark.spec("C-34", "S-31")
@pytest.mark.parametrize(
    ("source", "guarded"),
    [
        pytest.param("{{ a.b }}", {"a.b": False}, id="a plain read"),
        pytest.param("{{ a.b | default(1) }}", {"a.b": True}, id="default"),
        pytest.param("{{ a.b | d(c) }}", {"a.b": True, "c": False}, id="its argument"),
        pytest.param("{{ a.b is defined }}", {"a.b": True}, id="is defined"),
        pytest.param("{{ a is not defined }}", {"a": True}, id="is not defined"),
        pytest.param("{{ a is undefined }}", {"a": True}, id="is undefined"),
        pytest.param("{{ a.b is none }}", {"a.b": False}, id="other tests"),
        pytest.param("{{ (a + 1) | default(1) }}", {"a": False}, id="not as it is"),
        pytest.param("{{ a | default(1) + a }}", {"a": False}, id="one plain read"),
        pytest.param("{{ a + (a | default(1)) }}", {"a": False}, id="in any order"),
        pytest.param("{{ a[b] | default(1) }}", {"a": True, "b": False}, id="its key"),
        pytest.param(
            "{{ a.b is defined and a.b > 1 and a.b.c and a.d }}",
            {"a.b": True, "a.b.c": True, "a.d": False},
            id="what is asked about is guarded throughout",
        ),
    ],
)
def test_guarded(source: str, guarded: dict[str, bool]) -> None:
    references = compile_template(source).references

    assert {str(r): r.guarded for r in references} == guarded


@pytest.mark.spec("C-34")
def test_references_of_a_tree() -> None:
    value = compile_value(
        {"a": "{{ ctx.x | default(1) }}", "b": ["{{ ctx.x }}", "{{ args.y }}", 3]}
    )

    assert value.references == (
        Reference(("ctx", "x"), False),
        Reference(("args", "y"), False),
    )
    assert [path for path, _ in value.templates] == [("a",), ("b", 0), ("b", 1)]
