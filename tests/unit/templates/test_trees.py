"""Templates inside mappings and lists."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import Budget, LeafError, compile_value

SCOPE: dict[str, Any] = {"ctx": {"n": 3, "rows": [1, 2], "nothing": None}}


@pytest.mark.spec("S-34", "S-33")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("{{ ctx.n }}", 3, id="a text"),
        pytest.param({"a": "{{ ctx.n }}"}, {"a": 3}, id="a mapping"),
        pytest.param(["{{ ctx.n }}", "x"], [3, "x"], id="a list"),
        pytest.param(
            {"a": [{"b": "n={{ ctx.n }}", "c": 1}], "d": None},
            {"a": [{"b": "n=3", "c": 1}], "d": None},
            id="nested",
        ),
        pytest.param({"{{ ctx.n }}": 1}, {"{{ ctx.n }}": 1}, id="keys are literal"),
        pytest.param({"a": "{{ ctx.rows }}"}, {"a": [1, 2]}, id="types are kept"),
        pytest.param([1, None, True, 1.5], [1, None, True, 1.5], id="scalars"),
        pytest.param({}, {}, id="empty"),
        pytest.param("plain", "plain", id="plain text"),
        pytest.param("{ not one }", "{ not one }", id="single braces"),
    ],
)
def test_render(value: Any, expected: Any) -> None:
    before = copy.deepcopy(value)

    assert compile_value(value).render(SCOPE) == expected
    assert value == before


@pytest.mark.spec("S-34")
def test_each_rendering_is_a_new_tree_around_shared_literals() -> None:
    literal = {"deep": [1, 2, 3]}
    value = compile_value({"a": "{{ ctx.n }}", "b": literal, "c": ["{{ ctx.n }}"]})

    first, second = value.render(SCOPE), value.render(SCOPE)

    assert first == second
    assert first is not second
    assert first["c"] is not second["c"]
    assert first["b"] is literal
    assert not value.literal
    assert compile_value(literal).literal


@pytest.mark.spec("S-31", "S-32")
@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        pytest.param({"a": ["x", "{{ ctx.gone }}"]}, ("a", 1), "undefined", id="list"),
        pytest.param({"a": {"b": "{{ 1 / 0 }}"}}, ("a", "b"), "error", id="mapping"),
        pytest.param("{{ gone }}", (), "undefined", id="the whole value"),
    ],
)
def test_failures_have_a_path(value: Any, path: tuple[Any, ...], kind: str) -> None:
    compiled = compile_value(value)
    with pytest.raises(LeafError) as caught:
        compiled.render(SCOPE)

    assert caught.value.path == path
    assert caught.value.kind == f"template.{kind}"
    assert isinstance(caught.value, TemplateError)


@pytest.mark.spec("S-32", "S-70")
def test_failures_to_compile_have_a_path_too() -> None:
    with pytest.raises(LeafError) as caught:
        compile_value({"a": [1, {"b": "{{ 2 ** 3 }}"}]})

    assert caught.value.path == ("a", 1, "b")
    assert caught.value.kind == "template.forbidden"


@pytest.mark.spec("S-70")
def test_nesting_is_bounded() -> None:
    value: Any = "{{ 1 }}"
    for _ in range(5_000):
        value = [value]

    with pytest.raises(TemplateError, match="nest deeper") as caught:
        compile_value(value)

    assert caught.value.kind == "template.budget"


@pytest.mark.spec("S-70")
def test_the_tree_shares_one_budget() -> None:
    value = compile_value(["{{ range(9000) | length }}"] * 30)
    with pytest.raises(TemplateError, match="step budget"):
        value.render({})

    budget = Budget()
    compile_value(["{{ range(100) | length }}"] * 3).render({}, budget)
    assert 199_000 < budget.steps < 200_000 - 300
