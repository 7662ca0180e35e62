"""JSON, base64, digests and URLs."""

from __future__ import annotations

import base64
import json

from noetl.errors import TemplateError
from noetl.templates import faults, limits
from noetl.templates.catalog import FILTERS
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.templates.values import dump, iterate, number, text_of
from noetl.types import JSON


@FILTERS.add("tojson", example="{{ {'a': [1, none]} | tojson }}")
def tojson(
    run: Evaluation, value: JSON, indent: int | None = None, sort_keys: bool = False
) -> str:
    """As JSON text; nothing is escaped for HTML, keys keep their order."""
    if isinstance(value, Undefined):
        raise value.error()
    if indent is not None and (type(indent) is not int or not 0 <= indent <= 8):
        raise faults.wrong("tojson: indent is a whole number from 0 to 8")
    return dump(run, value, indent, sort_keys)


@FILTERS.add("fromjson", example="""{{ '{"a": 1}' | fromjson }}""")
def fromjson(run: Evaluation, value: JSON) -> JSON:
    """The value that a JSON text stands for."""
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
        raise faults.wrong("fromjson: half of a surrogate pair in a text") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise faults.wrong(f"fromjson: not JSON at {place}: {error.msg}") from None
    return found


def _integer(digits: str) -> JSON:
    if len(digits) > 1_300:
        number(limits.LARGEST_INTEGER)  # refuses
    return number(int(digits))


def _float(digits: str) -> JSON:
    return number(float(digits))


def _constant(word: str) -> JSON:
    raise faults.wrong(f"fromjson: {word} is not a JSON number")


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
        raise faults.wrong(
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
            raise faults.wrong("urlencode: expected a mapping or a list of pairs")
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
        raise faults.wrong(
            f"expected text, found {faults.kind_of(value)}",
            "convert it with the string or tojson filter",
        )
    return value
