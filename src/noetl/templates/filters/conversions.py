"""Defaults, numbers and text."""

from __future__ import annotations

import math

from noetl.templates import faults
from noetl.templates.catalog import FILTERS
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.templates.values import number, text_of
from noetl.types import JSON

_LONGEST_NUMBER = 4_300
_MOST_DIGITS = 300


@FILTERS.add("default", "d", example="{{ ctx.a.b | default(1) }}", lenient=True)
def default(
    run: Evaluation, value: JSON, default_value: JSON = "", boolean: bool = False
) -> JSON:
    """The value if it is defined (and, with true, truthy), else the default."""
    if isinstance(value, Undefined) or (boolean and not value):
        return default_value
    return value


@FILTERS.add("int", example="{{ '42' | int }}")
def to_int(run: Evaluation, value: JSON, default: JSON = 0, base: int = 10) -> JSON:
    """A whole number, or the default where that is impossible."""
    _refuse_undefined(value)
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return default
    run.charge(len(value) // 16 if isinstance(value, str) else 0)
    try:
        return number(int(value, base) if isinstance(value, str) else int(value))
    except (TypeError, ValueError):
        pass
    try:
        return number(int(float(value)))  # so that "42.23" gives 42
    except (TypeError, ValueError, OverflowError):
        return default


@FILTERS.add("float", example="{{ '1.5' | float }}")
def to_float(run: Evaluation, value: JSON, default: JSON = 0.0) -> JSON:
    """A number with a fraction, or the default where that is impossible."""
    _refuse_undefined(value)
    if isinstance(value, str) and len(value) > _LONGEST_NUMBER:
        return default
    run.charge(len(value) // 16 if isinstance(value, str) else 0)
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return default


@FILTERS.add("ref", example="{{ 'a small text' | ref }}")
def ref(run: Evaluation, value: JSON) -> JSON:
    """The reference to a large value instead of the value; a small one as it is."""
    return value


@FILTERS.add("string", example="{{ 42 | string }}")
def string(run: Evaluation, value: JSON) -> str:
    """As text: null is empty, lists and mappings are JSON."""
    return text_of(run, value)


@FILTERS.add("abs", example="{{ -3 | abs }}")
def absolute(run: Evaluation, value: JSON) -> JSON:
    """Without its sign."""
    return abs(expect_number(value))


@FILTERS.add("round", example="{{ 42.55 | round(1) }}")
def rounded(
    run: Evaluation, value: JSON, precision: int = 0, method: str = "common"
) -> JSON:
    """Rounded to so many digits: common, ceil or floor."""
    value = expect_number(value)
    if type(precision) is not int or abs(precision) > _MOST_DIGITS:
        raise faults.wrong(
            f"round: the precision is a whole number from -{_MOST_DIGITS} to "
            f"{_MOST_DIGITS}"
        )
    if method == "common":
        return number(round(value, precision))
    if method not in ("ceil", "floor"):
        raise faults.wrong("round: the method is 'common', 'ceil' or 'floor'")
    scale = 10**precision
    return number(getattr(math, method)(value * scale) / scale)


def expect_number(value: JSON) -> JSON:
    _refuse_undefined(value)
    if not isinstance(value, int | float):
        raise faults.wrong(
            f"expected a number, found {faults.kind_of(value)}",
            "convert it with the int or float filter",
        )
    return value


def _refuse_undefined(value: JSON) -> None:
    if isinstance(value, Undefined):
        raise value.error()
