"""Tests of ``is``."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import errors, operators
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import TESTS
from noetl.templates.undefined import Undefined
from noetl.templates.values import text_of
from noetl.types import JSON


@TESTS.add("defined", example="{{ ctx.x is defined }}", lenient=True)
def defined(run: Evaluation, value: JSON) -> bool:
    """The name, key or item exists."""
    return not undefined(run, value)


@TESTS.add("undefined", example="{{ ctx.x is undefined }}", lenient=True)
def undefined(run: Evaluation, value: JSON) -> bool:
    """The name, key or item does not exist."""
    if isinstance(value, Undefined):
        run.handled(value)
        return True
    return False


@TESTS.add("none", example="{{ none is none }}")
def none(run: Evaluation, value: JSON) -> bool:
    """It is null."""
    return value is None


@TESTS.add("boolean", example="{{ true is boolean }}")
def boolean(run: Evaluation, value: JSON) -> bool:
    """It is true or false."""
    return value is True or value is False


@TESTS.add("true", example="{{ true is true }}")
def true(run: Evaluation, value: JSON) -> bool:
    """It is true itself, not something truthy."""
    return value is True


@TESTS.add("false", example="{{ 0 is false }}")
def false(run: Evaluation, value: JSON) -> bool:
    """It is false itself, not something falsy."""
    return value is False


@TESTS.add("integer", example="{{ 3 is integer }}")
def integer(run: Evaluation, value: JSON) -> bool:
    """It is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


@TESTS.add("float", example="{{ 3.0 is float }}")
def floating(run: Evaluation, value: JSON) -> bool:
    """It is a number with a fraction, even if that is zero."""
    return isinstance(value, float)


@TESTS.add("number", example="{{ 3 is number }}")
def number(run: Evaluation, value: JSON) -> bool:
    """It is a number; true and false count as well, as in Jinja2."""
    return isinstance(value, int | float)


@TESTS.add("string", example="{{ 'a' is string }}")
def string(run: Evaluation, value: JSON) -> bool:
    """It is text."""
    return isinstance(value, str)


@TESTS.add("mapping", example="{{ {} is mapping }}")
def mapping(run: Evaluation, value: JSON) -> bool:
    """It is a mapping."""
    return isinstance(value, dict)


@TESTS.add("sequence", example="{{ [] is sequence }}")
def sequence(run: Evaluation, value: JSON) -> bool:
    """It has a length: a list, a text or a mapping."""
    return isinstance(value, list | str | dict | Undefined)


@TESTS.add("iterable", example="{{ 'ab' is iterable }}")
def iterable(run: Evaluation, value: JSON) -> bool:
    """It can be looped over: a list, a text or a mapping."""
    return isinstance(value, list | str | dict | Undefined)


@TESTS.add("odd", example="{{ 3 is odd }}")
def odd(run: Evaluation, value: JSON) -> bool:
    """It is an odd number."""
    return bool(_modulo(run, value, 2) == 1)


@TESTS.add("even", example="{{ 4 is even }}")
def even(run: Evaluation, value: JSON) -> bool:
    """It is an even number."""
    return bool(_modulo(run, value, 2) == 0)


@TESTS.add("divisibleby", example="{{ 9 is divisibleby 3 }}")
def divisibleby(run: Evaluation, value: JSON, num: JSON) -> bool:
    """It can be divided by the number without a remainder."""
    return bool(_modulo(run, value, num) == 0)


def _modulo(run: Evaluation, value: JSON, by: JSON) -> JSON:
    for given in (value, by):
        if isinstance(given, Undefined):
            raise given.error()
        if not isinstance(given, int | float):
            raise errors.wrong(f"expected a number, found {errors.kind_of(given)}")
    return operators.ARITHMETIC["Mod"](run, value, by)


@TESTS.add("lower", example="{{ 'ab' is lower }}")
def lower(run: Evaluation, value: JSON) -> bool:
    """It is text without upper case letters."""
    return _text(run, value).islower()


@TESTS.add("upper", example="{{ 'AB' is upper }}")
def upper(run: Evaluation, value: JSON) -> bool:
    """It is text without lower case letters."""
    return _text(run, value).isupper()


def _text(run: Evaluation, value: JSON) -> str:
    text = text_of(run, value)
    run.charge(len(text) // 8)  # character by character
    return text


@TESTS.add("sameas", example="{{ true is sameas true }}")
def sameas(run: Evaluation, value: JSON, other: JSON) -> bool:
    """It is the identical value, not an equal one."""
    return value is other


def _compare(names: tuple[str, ...], sign: str, summary: str, example: str) -> None:
    function: Callable[..., bool] = operators.COMPARISONS[sign]

    def test(run: Evaluation, value: JSON, other: JSON) -> bool:
        return function(run, value, other)

    test.__doc__ = summary
    TESTS.add(*names, example=example)(test)


_compare(("in",), "in", "The list, mapping or text contains it.", "{{ 1 is in [1] }}")
_compare(("eq", "==", "equalto"), "eq", "Equal.", "{{ 1 is eq 1 }}")
_compare(("ne", "!="), "ne", "Not equal.", "{{ 1 is ne 2 }}")
_compare(("lt", "<", "lessthan"), "lt", "Less.", "{{ 1 is lt 2 }}")
_compare(("le", "<="), "lteq", "Less or equal.", "{{ 1 is le 1 }}")
_compare(("gt", ">", "greaterthan"), "gt", "Greater.", "{{ 2 is gt 1 }}")
_compare(("ge", ">="), "gteq", "Greater or equal.", "{{ 2 is ge 2 }}")
