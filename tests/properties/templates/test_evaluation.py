"""Whatever the template and the scope: a JSON value, or a TemplateError."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import TemplateError
from noetl.templates import (
    FILTERS,
    METHODS,
    TESTS,
    Budget,
    Undefined,
    compile_guard,
    compile_template,
    compile_value,
)

KINDS = {f"template.{k}" for k in ("error", "undefined", "budget", "forbidden")}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from("abckn"), inner, max_size=4),
    ),
    max_leaves=12,
)
scopes = st.fixed_dictionaries({"x": values, "y": values})

methods = sorted({name for catalog in METHODS.values() for name in catalog})
atoms = st.sampled_from(
    [
        "x",
        "y",
        "x.a",
        "y['b']",
        "x[0]",
        "z",
        "z.a.b",
        "0",
        "1",
        "-1",
        "2.5",
        "'a'",
        "'ab'",
        "''",
        "none",
        "true",
        "false",
        "[]",
        "{}",
    ]
)


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    args = st.lists(inner, max_size=2).map(", ".join)
    operators = [
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "~",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "and",
        "or",
    ]
    return st.one_of(
        st.tuples(inner, st.sampled_from(operators), inner).map(
            lambda p: f"({p[0]} {p[1]} {p[2]})"
        ),
        st.tuples(inner, st.sampled_from(sorted(FILTERS)), args).map(
            lambda p: f"({p[0]} | {p[1]}({p[2]}))"
        ),
        st.tuples(inner, st.sampled_from(sorted(FILTERS))).map(
            lambda p: f"({p[0]} | {p[1]})"
        ),
        st.tuples(
            inner, st.sampled_from(sorted(filter(str.isidentifier, TESTS))), args
        ).map(lambda p: f"({p[0]} is {p[1]}({p[2]}))"),
        st.tuples(inner, st.sampled_from(methods), args).map(
            lambda p: f"({p[0]}).{p[1]}({p[2]})"
        ),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]})[{p[1]}:]"),
        st.tuples(inner, inner).map(lambda p: f"[{p[0]}, {p[1]}]"),
        st.tuples(inner, inner).map(lambda p: f"{{'k': {p[0]}, {p[1]}: 1}}"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        inner.map(lambda e: f"(not {e})"),
        inner.map(lambda e: f"range({e})"),
    )


expressions = st.recursive(atoms, grow, max_leaves=8)


@pytest.mark.spec("S-32", "S-34")
@settings(max_examples=250, deadline=None)
@given(expressions, scopes)
def test_only_template_errors_leave(expression: str, scope: dict[str, Any]) -> None:
    before = copy.deepcopy(scope)
    for source in ("{{ " + expression + " }}", "t{{ " + expression + " }}"):
        try:
            template = compile_template(source)
        except TemplateError as error:
            assert error.kind in KINDS  # noqa: PT017
            continue
        for evaluate in (template.render, template.evaluate, template.holds):
            budget = Budget()
            try:
                result = evaluate(scope, budget)
            except TemplateError as error:
                assert error.kind in KINDS  # noqa: PT017
                assert error.message  # noqa: PT017
            else:
                if not isinstance(result, Undefined):
                    json.dumps(result, allow_nan=False)
            assert 0 <= budget.steps <= 200_000
    assert scope == before


@pytest.mark.spec("S-32", "TPL-01")
@settings(max_examples=300, deadline=None)
@given(
    st.text(
        st.sampled_from("{}%#'\"ab.|()[]-+*~,:= \n\\\té\ud800\x00019_"), max_size=40
    )
)
def test_any_text_is_a_template_or_an_error(text: str) -> None:
    for source in (text, "{{" + text + "}}", "{%" + text + "%}"):
        for compile_it in (compile_template, compile_guard, compile_value):
            try:
                compile_it(source).render({"a": 1, "b": [1]})  # type: ignore[attr-defined]
            except TemplateError as error:
                assert error.kind in KINDS  # noqa: PT017


@pytest.mark.spec("S-34")
@settings(max_examples=100, deadline=None)
@given(values)
def test_data_passes_through_unchanged(value: Any) -> None:
    result = compile_template("{{ x }}").render({"x": value})

    assert result is value
    assert compile_value({"k": ["{{ x }}"]}).render({"x": value}) == {"k": [value]}


@pytest.mark.spec("S-33")
@settings(max_examples=100, deadline=None)
@given(values)
def test_json_survives_text(value: Any) -> None:
    text = compile_template("{{ x | tojson }}").render({"x": value})

    assert json.loads(text) == value
    assert compile_template("{{ t | fromjson }}").render({"t": text}) == value
