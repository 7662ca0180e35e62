"""Conditions: what is true, and how undefined values behave in them."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.templates import Undefined, compile_guard, compile_template

SCOPE: dict[str, Any] = {
    "outcome": {"status": "error", "http": None, "error": {"kind": "timeout"}},
    "ctx": {"n": 5, "nothing": None, "list": [1, 2], "name": "x"},
}


@pytest.mark.spec("S-29")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(True, True, id="true"),
        pytest.param(False, False, id="false"),
        pytest.param(1, True, id="a number"),
        pytest.param(0, False, id="zero"),
        pytest.param([], False, id="an empty list"),
        pytest.param([0], True, id="a list"),
        pytest.param({}, False, id="an empty mapping"),
        pytest.param(None, False, id="null"),
        pytest.param("", False, id="empty text"),
        pytest.param("false", False, id="text false"),
        pytest.param(" False\n", False, id="trimmed, any case"),
        pytest.param("NO", False, id="text no"),
        pytest.param("off", False, id="text off"),
        pytest.param("0", False, id="text 0"),
        pytest.param("none", False, id="text none"),
        pytest.param("null", False, id="text null"),
        pytest.param("yes", True, id="text yes"),
        pytest.param("0.0", True, id="other text"),
        pytest.param(" " * 100, False, id="white space only"),
        pytest.param(" " * 100 + "no", False, id="no behind white space"),
    ],
)
def test_truth(value: Any, expected: bool) -> None:
    assert compile_guard("{{ x }}").holds({"x": value}) is expected


@pytest.mark.spec("S-30")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("{{ nowhere }}", False, id="undefined is false"),
        pytest.param("{{ not nowhere }}", True, id="and its negation true"),
        pytest.param("{{ nowhere.a.b[0].c }}", False, id="access is chainable"),
        pytest.param("{{ outcome.http.status }}", False, id="access on null"),
        pytest.param("{{ outcome.http.status >= 500 }}", False, id="undefined >="),
        pytest.param("{{ 500 <= outcome.http.status }}", False, id="on the right"),
        pytest.param("{{ outcome.http.status < 500 }}", False, id="and the opposite"),
        pytest.param("{{ ctx.nothing > 1 }}", False, id="null >"),
        pytest.param("{{ 1 > ctx.nothing }}", False, id="null on the right"),
        pytest.param("{{ ctx.nothing <= ctx.nothing }}", False, id="null with null"),
        pytest.param("{{ nowhere in [1] }}", False, id="undefined in"),
        pytest.param("{{ nowhere not in [1] }}", True, id="not in is its negation"),
        pytest.param("{{ 1 in nowhere }}", False, id="in undefined"),
        pytest.param("{{ 1 not in nowhere }}", True, id="not in undefined"),
        pytest.param("{{ none in [none] }}", False, id="null is in nothing"),
        pytest.param("{{ none in ctx.list }}", False, id="null in a list"),
        pytest.param("{{ 1 in ctx.nothing }}", False, id="in null"),
        pytest.param("{{ nowhere + 1 }}", False, id="arithmetic gives undefined"),
        pytest.param("{{ nowhere + 1 > 0 }}", False, id="so comparing it is false"),
        pytest.param("{{ -nowhere is defined }}", False, id="a sign too"),
        pytest.param("{{ 2 * nowhere - 1 is defined }}", False, id="on either side"),
        pytest.param("{{ nowhere ~ 'a' == 'a' }}", True, id="~ takes it as empty"),
        pytest.param("{{ nowhere == elsewhere }}", True, id="equal to undefined"),
        pytest.param("{{ nowhere == none }}", False, id="not equal to null"),
        pytest.param("{{ nowhere != 1 }}", True, id="different from values"),
        pytest.param("{{ nowhere == [] }}", False, id="not equal to empty"),
        pytest.param("{{ nowhere | length == 0 }}", True, id="its length is 0"),
        pytest.param("{{ nowhere | list == [] }}", True, id="it has no items"),
        pytest.param("{{ nowhere | upper == '' }}", True, id="as text it is empty"),
        pytest.param("{{ nowhere | default(1) == 1 }}", True, id="default"),
        pytest.param("{{ nowhere.a.b | default(1) == 1 }}", True, id="deep default"),
        pytest.param("{{ nowhere.upper() == 'X' }}", False, id="methods are chainable"),
        pytest.param("{{ ctx.nothing.strip() }}", False, id="methods of null too"),
        pytest.param("{{ nowhere.get('a').b }}", False, id="access behind a method"),
        pytest.param("{{ nowhere | first | default(2) == 2 }}", True, id="no first"),
        pytest.param("{{ nowhere is none }}", False, id="it is not null"),
        pytest.param("{{ nowhere is mapping }}", False, id="nor a mapping"),
        pytest.param("{{ [nowhere] }}", True, id="a list of one"),
        pytest.param("{{ ctx.list[9] }}", False, id="an item that is not there"),
        pytest.param("{{ ctx[nowhere] }}", False, id="an undefined key"),
        pytest.param("{{ ctx.list[nowhere:] }}", False, id="an undefined bound"),
        pytest.param(
            "{{ ctx.n == 5 and outcome.error.kind == 'timeout' }}", True, id="&"
        ),
        pytest.param("{{ 1 if nowhere }}", False, id="an if without else"),
        pytest.param("{{ 1 < nowhere < 3 }}", False, id="a chain of comparisons"),
        pytest.param("{{ 1 < ctx.n < 9 }}", True, id="a chain that holds"),
    ],
)
def test_undefined_in_conditions(source: str, expected: bool) -> None:
    assert compile_guard(source).holds(SCOPE) is expected


@pytest.mark.spec("S-30", "S-32")
@pytest.mark.parametrize(
    ("source", "kind"),
    [
        pytest.param("{{ 1 < 'a' }}", "template.error", id="unlike kinds"),
        pytest.param("{{ 1 in 2 }}", "template.error", id="in a number"),
        pytest.param("{{ 'a' + 1 }}", "template.error", id="text plus number"),
        pytest.param("{{ ctx.n / 0 }}", "template.error", id="division by zero"),
        pytest.param("{{ now() > 1 }}", "template.undefined", id="there is no now()"),
        pytest.param("{{ random() }}", "template.undefined", id="nor random()"),
        pytest.param("{{ nowhere | int > 1 }}", "template.undefined", id="no number"),
    ],
)
def test_other_errors_are_raised(source: str, kind: str) -> None:
    with pytest.raises(TemplateError) as caught:
        compile_guard(source).holds(SCOPE)

    assert caught.value.kind == kind


@pytest.mark.spec("S-32")
def test_a_clock_is_offered_where_one_is_sought() -> None:
    with pytest.raises(TemplateError) as caught:
        compile_guard("{{ now() > 1 }}").holds({})

    assert "execution.started_at" in (caught.value.hint or "")


@pytest.mark.spec("S-29")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(True, True, id="a YAML true"),
        pytest.param(False, False, id="a YAML false"),
        pytest.param("{{ 1 }}", True, id="one expression"),
        pytest.param("\n\t {{ 1 }} \r\n", True, id="white space around it"),
    ],
)
def test_accepted_conditions(source: str | bool, expected: bool) -> None:
    assert compile_guard(source).holds({}) is expected


@pytest.mark.spec("S-29", "TPL-01")
@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("ctx.n == 5", "text without delimiters", id="no delimiters"),
        pytest.param("", "text without delimiters", id="empty"),
        pytest.param("not {{ ctx.n }}", "text around the expression", id="text before"),
        pytest.param("{{ ctx.n }} == 5", "text around the expression", id="text after"),
        pytest.param("{{ 1 }}{{ 2 }}", "several expressions", id="two expressions"),
        pytest.param("{{ 1 }} and {{ 2 }}", "several expressions", id="joined by text"),
        pytest.param("{% if ctx.n %}1{% endif %}", "statements", id="statements"),
        pytest.param("{# note #}", "text around", id="a comment only"),
    ],
)
def test_refused_conditions(source: str, found: str) -> None:
    with pytest.raises(TemplateError, match="exactly one") as caught:
        compile_guard(source)

    assert caught.value.kind == "template.error"
    assert found in caught.value.message


@pytest.mark.spec("S-30", "S-26")
def test_a_whole_result_can_be_undefined_or_null() -> None:
    assert isinstance(compile_template("{{ ctx.gone }}").evaluate(SCOPE), Undefined)
    assert compile_template("{{ ctx.nothing }}").evaluate(SCOPE) is None
    assert compile_template("{{ [ctx.gone] }}").evaluate(SCOPE) == [None]
    assert compile_template("a{{ ctx.gone }}b").evaluate(SCOPE) == "ab"
