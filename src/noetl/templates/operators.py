"""Arithmetic and comparison of JSON values; sizes are checked before the operation."""

from __future__ import annotations

import operator
from collections.abc import Callable

from noetl.errors import TemplateError
from noetl.templates import errors, limits
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.templates.values import number, text_of, weigh
from noetl.types import JSON

Binary = Callable[[Evaluation, JSON, JSON], JSON]

_NUMBERS = frozenset({int, float, bool})
_CHARS_PER_STEP = 256


def add(run: Evaluation, left: JSON, right: JSON) -> JSON:
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return number(left + right)
    both: tuple[JSON, JSON] = (left, right)
    if all(isinstance(v, str) for v in both) or all(isinstance(v, list) for v in both):
        run.size(len(left) + len(right))
        return left + right
    raise_or = _undefined(left, right)
    if raise_or is not None:
        return raise_or
    hint = "join text with ~" if str in (type(left), type(right)) else None
    raise _unfit("+", left, right, hint)


def multiply(run: Evaluation, left: JSON, right: JSON) -> JSON:
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        if type(left) is int and type(right) is int:
            bits = left.bit_length() + right.bit_length()
            if bits > 128:
                run.charge(bits // 64)
        return number(left * right)
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, str | list) and isinstance(right, int):
        run.size(len(left) * max(right, 0))
        return left * right
    raise_or = _undefined(left, right)
    if raise_or is not None:
        return raise_or
    raise _unfit("*", left, right)


def _numeric(sign: str, function: Callable[[JSON, JSON], JSON]) -> Binary:
    def apply(run: Evaluation, left: JSON, right: JSON) -> JSON:
        if type(left) in _NUMBERS and type(right) in _NUMBERS:
            if type(left) is int and left.bit_length() > 128:
                run.charge(left.bit_length() // 64)
            try:
                return number(function(left, right))
            except ZeroDivisionError:
                raise errors.wrong(f"division by zero in {sign}") from None
        raise_or = _undefined(left, right)
        if raise_or is not None:
            return raise_or
        if sign == "%" and isinstance(left, str):
            raise percent()
        raise _unfit(sign, left, right)

    return apply


def percent() -> TemplateError:
    return errors.forbidden(
        "% on text is not available; use the format filter: {{ '%s' | format(value) }}"
    )


def _undefined(left: JSON, right: JSON) -> Undefined | None:
    """Return undefined for arithmetic on undefined (S-30); an error in strict mode."""
    if isinstance(left, Undefined):
        return left.used()
    if isinstance(right, Undefined):
        return right.used()
    return None


def _unfit(
    sign: str, left: JSON, right: JSON, hint: str | None = None
) -> TemplateError:
    kinds = f"{errors.kind_of(left)} and {errors.kind_of(right)}"
    return errors.wrong(f"{sign} does not work with {kinds}", hint)


ARITHMETIC: dict[str, Binary] = {
    "Add": add,
    "Sub": _numeric("-", operator.sub),
    "Mul": multiply,
    "Div": _numeric("/", operator.truediv),
    "FloorDiv": _numeric("//", operator.floordiv),
    "Mod": _numeric("%", operator.mod),
}


def sign(run: Evaluation, value: JSON, function: Callable[[JSON], JSON]) -> JSON:
    """Evaluate unary plus and minus."""
    if type(value) in _NUMBERS:
        return function(value)
    if isinstance(value, Undefined):
        return value.used()
    raise errors.wrong(f"a sign does not work with {errors.kind_of(value)}")


def concat(run: Evaluation, values: list[JSON]) -> str:
    """Evaluate ``a ~ b``: both as text."""
    texts = [text_of(run, value) for value in values]
    run.size(sum(map(len, texts)))
    return "".join(texts)


def equal(run: Evaluation, left: JSON, right: JSON) -> bool:
    _charge_comparison(run, left)
    return bool(left == right)


def differ(run: Evaluation, left: JSON, right: JSON) -> bool:
    return not equal(run, left, right)


def contains(run: Evaluation, item: JSON, container: JSON) -> bool:
    """Evaluate ``item in container``; null and undefined are in nothing (S-30)."""
    for value in (item, container):
        if isinstance(value, Undefined):
            value.used()
            return False
    if not run.strict and (item is None or container is None):
        return False
    if isinstance(container, list):
        _charge_comparison(run, item)
        if isinstance(item, list | dict):
            weigh(run, container)
        long = len(item) // _CHARS_PER_STEP if isinstance(item, str) else 0
        run.charge(len(container) * (1 + long) // 4)
    elif isinstance(container, str):
        if not isinstance(item, str):
            raise errors.wrong(f"{errors.kind_of(item)} cannot be part of text")
        run.charge(len(container) // limits.CHARS_PER_STEP)
    elif not isinstance(container, dict):
        raise errors.wrong(
            f"in needs a list, a mapping or text, found {errors.kind_of(container)}"
        )
    elif isinstance(item, list | dict):
        return False  # cannot be a key
    return item in container


def lacks(run: Evaluation, item: JSON, container: JSON) -> bool:
    return not contains(run, item, container)


def _ordered(sign: str, function: Callable[[JSON, JSON], JSON]) -> Binary:
    def compare(run: Evaluation, left: JSON, right: JSON) -> bool:
        _charge_comparison(run, left)
        try:
            return bool(function(left, right))
        except TypeError:
            pass
        undefined = _undefined(left, right)
        if not run.strict and (undefined is not None or left is None or right is None):
            return False  # S-30
        raise _unfit(sign, left, right)

    return compare


def _charge_comparison(run: Evaluation, value: JSON) -> None:
    if isinstance(value, str):
        if len(value) > _CHARS_PER_STEP:
            run.charge(len(value) // limits.CHARS_PER_STEP)
    elif isinstance(value, list | dict):
        weigh(run, value)


COMPARISONS: dict[str, Binary] = {
    "eq": equal,
    "ne": differ,
    "lt": _ordered("<", operator.lt),
    "lteq": _ordered("<=", operator.le),
    "gt": _ordered(">", operator.gt),
    "gteq": _ordered(">=", operator.ge),
    "in": contains,
    "notin": lacks,
}
