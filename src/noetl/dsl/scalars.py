"""YAML 1.2 core schema: types of plain scalars."""

from __future__ import annotations

import math
import re

from noetl.types import JSON

NUMBER_LENGTH = 64

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
WORDS = frozenset({*_NULLS, *_BOOLEANS})
"""Plain scalars that are not text, with their values."""

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+\Z")
_NUMERIC_START = frozenset("+-.0123456789")


class ScalarProblem(ValueError):
    """Plain scalar that YAML allows and a playbook does not."""

    def __init__(self, rule: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.hint = hint


def resolve(text: str) -> JSON:
    """Return the value of a plain scalar. Raises ``ScalarProblem``."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in _NUMERIC_START:
        return text
    return _resolve_number(text)


def _resolve_number(text: str) -> JSON:
    if _NOT_FINITE.match(text):
        raise _not_finite(text)
    integer = _INTEGER.match(text) is not None
    if not integer and not _BASED.match(text) and not _FLOAT.match(text):
        return text
    if len(text) > NUMBER_LENGTH:
        raise _too_long(len(text))
    if integer:
        return int(text)
    if text.startswith(("0o", "0x")):
        number = int(text, 0)
        if len(str(number)) > NUMBER_LENGTH:  # the canonical form is decimal
            raise _too_long(len(str(number)))
        return number
    value = float(text)
    if math.isinf(value):
        raise _not_finite(text)
    return value


def _too_long(length: int) -> ScalarProblem:
    return ScalarProblem(
        "yaml-scalar-too-long",
        f"a number of {length:,} characters; at most {NUMBER_LENGTH} are read",
        "quote it if it is text",
    )


def _not_finite(text: str) -> ScalarProblem:
    return ScalarProblem(
        "yaml-number",
        f"{text} is not a JSON number",
        "use null, or quote it if it is text",
    )


def looks_octal(text: str) -> bool:
    """Return whether a number is like ``0777``: octal in YAML 1.1, decimal here."""
    return _LEADING_ZERO.match(text) is not None


def needs_quotes(text: str) -> bool:
    """Return whether this text, written without quotes, has another value."""
    try:
        return not isinstance(resolve(text), str)
    except ScalarProblem:
        return True
