"""``range``: bounded inside a template, lazy as a whole one."""

from __future__ import annotations

import pytest

from noetl.errors import TemplateError
from noetl.templates import compile_template


@pytest.mark.spec("S-71")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ range(5) }}", range(5), id="stop"),
        pytest.param("{{ range(2, 5) }}", range(2, 5), id="start and stop"),
        pytest.param("{{ range(9, 0, -3) }}", range(9, 0, -3), id="with a step"),
        pytest.param("{{ range(n) }}", range(7), id="a bound from the scope"),
        pytest.param("{{ range(n * 2) | list }}", range(14), id="with list"),
        pytest.param("{{ range(1000000) }}", range(1_000_000), id="the largest"),
        pytest.param("{{ range(0) }}", range(0), id="none at all"),
        pytest.param("{{ range(3) | length }}", None, id="something else"),
        pytest.param("{{ [range(3)] }}", None, id="inside a list"),
        pytest.param("{{ range }}", None, id="not called"),
        pytest.param("a{{ range(3) }}", None, id="with text"),
        pytest.param("{{ n }}", None, id="a name"),
    ],
)
def test_a_whole_range_is_lazy(source: str, expected: range | None) -> None:
    assert compile_template(source).whole_range({"n": 7}) == expected


@pytest.mark.spec("S-71", "S-70", "S-31")
@pytest.mark.parametrize(
    ("source", "kind"),
    [
        pytest.param("{{ range(99999999999999999999) }}", "template.budget", id="huge"),
        pytest.param("{{ range(gone) }}", "template.undefined", id="undefined"),
        pytest.param("{{ range('5') }}", "template.error", id="text"),
        pytest.param("{{ range(true) }}", "template.error", id="a boolean"),
        pytest.param("{{ range(1, 2, 0) }}", "template.error", id="no step"),
        pytest.param("{{ range() }}", "template.error", id="nothing"),
        pytest.param("{{ range(1, 2, 3, 4) }}", "template.error", id="too much"),
        pytest.param("{{ range(1 / 0) }}", "template.error", id="a failing bound"),
    ],
)
def test_a_whole_range_fails_in_its_own_way(source: str, kind: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_template(source).whole_range({})

    assert caught.value.kind == kind


@pytest.mark.spec("S-71")
def test_inside_a_template_it_is_a_list() -> None:
    assert compile_template("{{ range(1, 7, 2) }}").render({}) == [1, 3, 5]
    assert compile_template("{{ range(10000) | length }}").render({}) == 10_000
    with pytest.raises(TemplateError, match=r"more than 10,000") as caught:
        compile_template("{{ range(10001) | length }}").render({})

    assert caught.value.kind == "template.budget"
