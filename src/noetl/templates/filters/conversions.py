"""JSON, base64, digests and URLs."""

from __future__ import annotations

import base64
import json
import math

from noetl.errors import TemplateError
from noetl.templates import errors, limits
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import FILTERS
from noetl.templates.undefined import Undefined
from noetl.templates.values import dump, iterate, number, text_of
from noetl.types import JSON


@FILTERS.add("tojson", example="{{ {'a': [1, none]} | tojson }}")
def tojson(
    run: Evaluation, value: JSON, indent: int | None = None, sort_keys: bool = False
) -> str:
    """JSON text; HTML is not escaped and keys keep their order."""
    if isinstance(value, Undefined):
        raise value.error()
    if indent is not None and (type(indent) is not int or not 0 <= indent <= 8):
        raise errors.wrong("tojson: indent is a whole number from 0 to 8")
    return dump(run, value, indent, sort_keys)


@FILTERS.add("fromjson", example="""{{ '{"a": 1}' | fromjson }}""")
def fromjson(run: Evaluation, value: JSON) -> JSON:
    """The value of a JSON text."""
    text = _expect_text(value)
    run.charge(1 + len(text) // 8)
    try:
        found = json.loads(
            text, parse_int=_integer, parse_float=_float, parse_constant=_constant
        )
        # An escaped half of a surrogate pair passes the parser and fails everywhere
        # else, so it fails here.
        if "\\u" in text:
            json.dumps(found, ensure_ascii=False).encode()
    except TemplateError:
        raise
    except UnicodeEncodeError:
        raise errors.wrong("fromjson: half of a surrogate pair in a text") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise errors.wrong(f"fromjson: not JSON at {place}: {error.msg}") from None
    return found


def _integer(digits: str) -> JSON:
    if len(digits) > 1_300:
        number(limits.LARGEST_INTEGER)  # refuses
    return number(int(digits))


def _float(digits: str) -> JSON:
    return number(float(digits))


def _constant(word: str) -> JSON:
    raise errors.wrong(f"fromjson: {word} is not a JSON number")


@FILTERS.add("b64encode", example="{{ 'user:pw' | b64encode }}")
def b64encode(run: Evaluation, value: JSON) -> str:
    """The UTF-8 bytes of a text in base64."""
    text = _expect_text(value)
    run.size(len(text))
    return run.made(base64.b64encode(text.encode()).decode())


@FILTERS.add("b64decode", example="{{ 'dXNlcg==' | b64decode }}")
def b64decode(run: Evaluation, value: JSON) -> str:
    """The text whose UTF-8 bytes are given in base64."""
    text = _expect_text(value)
    run.size(len(text))
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        raise errors.wrong(
            "b64decode: not base64 of a UTF-8 text",
            "decode binary data in a python task",
        ) from None


@FILTERS.add("sha256", example="{{ 'a' | sha256 }}")
def sha256(run: Evaluation, value: JSON) -> str:
    """The SHA-256 digest of a text's UTF-8 bytes, in hex."""
    text = _expect_text(value)
    run.size(len(text))
    from hashlib import sha256 as digest  # slow to import, seldom called

    return digest(text.encode()).hexdigest()


@FILTERS.add("urlencode", example="{{ {'q': 'a b', 'n': 1} | urlencode }}")
def urlencode(run: Evaluation, value: JSON) -> str:
    """Quoted for a URL: a text for the path, a mapping or pairs as a query."""
    if not isinstance(value, dict | list | Undefined):
        return _quoted(run, value, "/")
    pairs = list(value.items()) if isinstance(value, dict) else iterate(run, value)
    run.charge(len(pairs))
    parts: list[str] = []
    for pair in pairs:
        if len(pair) != 2:
            raise errors.wrong("urlencode: expected a mapping or a list of pairs")
        key, item = (_quoted(run, part, "").replace("%20", "+") for part in pair)
        parts.append(f"{key}={item}")
    run.size(sum(map(len, parts)) + len(parts))
    return "&".join(parts)


def _quoted(run: Evaluation, value: JSON, safe: str) -> str:
    from urllib.parse import quote  # slow to import, seldom called

    text = text_of(run, value)
    run.size(len(text) * 3)
    run.charge(4 + len(text) // 2)  # quoted byte by byte
    return run.made(quote(text.encode(), safe))


def _expect_text(value: JSON) -> str:
    if isinstance(value, Undefined):
        raise value.error()
    if not isinstance(value, str):
        raise errors.wrong(
            f"expected text, found {errors.kind_of(value)}",
            "convert it with the string or tojson filter",
        )
    return value


_MAX_NUMBER_CHARS = 4_300
_MAX_PRECISION = 300


@FILTERS.add("default", "d", example="{{ ctx.a.b | default(1) }}", lenient=True)
def default(
    run: Evaluation, value: JSON, default_value: JSON = "", boolean: bool = False
) -> JSON:
    """The value if it is defined (and, with true, truthy), else the default."""
    if isinstance(value, Undefined):
        run.handled(value)
        return default_value
    return default_value if boolean and not value else value


@FILTERS.add("int", example="{{ '42' | int }}")
def to_int(run: Evaluation, value: JSON, default: JSON = 0, base: int = 10) -> JSON:
    """A whole number, or the default if the value cannot be converted."""
    _refuse_undefined(value)
    if isinstance(value, str) and len(value) > _MAX_NUMBER_CHARS:
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
    """A number with a fraction, or the default if the value cannot be converted."""
    _refuse_undefined(value)
    if isinstance(value, str) and len(value) > _MAX_NUMBER_CHARS:
        return default
    run.charge(len(value) // 16 if isinstance(value, str) else 0)
    try:
        return number(float(value))
    except (TypeError, ValueError):
        return default


@FILTERS.add("ref", example="{{ 'a small text' | ref }}")
def ref(run: Evaluation, value: JSON) -> JSON:
    """The reference to a large value instead of the value; a small one unchanged."""
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
    """Rounded to ``precision`` digits: common, ceil or floor."""
    value = expect_number(value)
    if type(precision) is not int or abs(precision) > _MAX_PRECISION:
        raise errors.wrong(
            f"round: the precision is a whole number from -{_MAX_PRECISION} to "
            f"{_MAX_PRECISION}"
        )
    if method == "common":
        return number(round(value, precision))
    if method not in ("ceil", "floor"):
        raise errors.wrong("round: the method is 'common', 'ceil' or 'floor'")
    scale = 10**precision
    return number(getattr(math, method)(value * scale) / scale)


def expect_number(value: JSON) -> JSON:
    _refuse_undefined(value)
    if not isinstance(value, int | float):
        raise errors.wrong(
            f"expected a number, found {errors.kind_of(value)}",
            "convert it with the int or float filter",
        )
    return value


def _refuse_undefined(value: JSON) -> None:
    if isinstance(value, Undefined):
        raise value.error()
