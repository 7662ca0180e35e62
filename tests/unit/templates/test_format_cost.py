"""Formats of dates cost what it takes to read them."""

from __future__ import annotations

from time import thread_time

import pytest

from noetl.errors import TemplateError
from noetl.templates import Budget, compile_template
from noetl.templates.limits import STEPS

EVER_NEW = [
    "('2026' ~ i) | parse_datetime('%Y' ~ i)",
    "('2026-01-02 03:04:05' ~ i) | parse_datetime('%Y-%m-%d %H:%M:%S' ~ i)",
    "('202601' ~ (i % 6)) | parse_datetime('%Y%m' ~ (i % 6))",
]


@pytest.mark.parametrize("expression", EVER_NEW)
def test_ever_new_formats_exceed_the_budget_before_they_take_long(
    expression: str,
) -> None:
    template = compile_template(
        f"{{% for i in range(9999) %}}{{% set x = {expression} %}}{{% endfor %}}"
    )
    began = thread_time()
    with pytest.raises(TemplateError, match="budget"):
        template.render({})
    assert thread_time() - began < 0.15  # 30 ms where nothing else runs


def test_a_template_costs_the_same_each_time() -> None:
    template = compile_template("{{ '2026' | parse_datetime('%Y') }}")
    costs = []
    for _ in range(3):
        budget = Budget()
        template.render({}, budget)
        costs.append(STEPS - budget.steps)
    assert len(set(costs)) == 1


def test_many_dates_of_one_format_can_be_read() -> None:
    source = "{% for i in range(1000) %}{{ '2026' | parse_datetime('%Y') }}{% endfor %}"
    assert len(str(compile_template(source).render({}))) == 20_000
