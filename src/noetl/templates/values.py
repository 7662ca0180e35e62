"""Access, size, iteration and text of JSON values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite

from noetl.errors import TemplateError
from noetl.templates import errors, limits
from noetl.templates.evaluation import Evaluation
from noetl.templates.undefined import Undefined
from noetl.types import JSON

FALSE_WORDS = frozenset({"", "false", "no", "off", "0", "none", "null"})


class Group(list[JSON]):
    """Result of ``groupby``: ``[grouper, list]``, readable by those names too."""

    __slots__ = ()


class Table(dict[JSON, JSON]):
    """Mapping with keys that are not text, for lookups inside a template only."""

    __slots__ = ()


class Sealed(dict[str, JSON]):
    """Handle of a secret in a value that will be recorded: it can be passed on, but
    has no text."""

    __slots__ = ()


def is_true(value: JSON) -> bool:
    """Return Python's truth of a value; a text such as ``no`` is false (S-29)."""
    if isinstance(value, str):
        return value.strip().lower() not in FALSE_WORDS
    return bool(value)


def look_up(
    run: Evaluation,
    value: JSON,
    key: JSON,
    path: str,
    owner: str,
    written: bool = True,
) -> JSON | Undefined:
    """Evaluate ``value[key]`` or ``value.key`` on mappings, lists and texts.

    A key that is not ``written`` in the template may be secret, and is not quoted.
    """
    if isinstance(value, Undefined):
        return value.further(path)
    if isinstance(key, Undefined):
        return key.used().further(path)
    if isinstance(key, str):
        if key.startswith("__"):
            raise hidden(key)
        if isinstance(value, Group) and key in ("grouper", "list"):
            return value[key == "list"]
    try:
        if isinstance(value, dict) or (
            isinstance(value, list | str) and isinstance(key, int)
        ):
            return value[key]
    except (LookupError, TypeError):
        pass  # missing key, missing item, or a list as key
    return run.undefined(path, owner, key if written else None, value)


def hidden(name: str) -> TemplateError:
    return errors.forbidden(
        f"{name[:64]!r} is not available: names that begin with two underscores are "
        "not data"
    )


def iterate(run: Evaluation, value: JSON) -> list[JSON]:
    """Return the items, keys or characters of a value, and charge for them."""
    if isinstance(value, Undefined):
        return list(value)
    if not isinstance(value, list | dict | str):
        raise errors.wrong(
            f"{errors.kind_of(value)} cannot be iterated; expected a list, a mapping "
            "or text"
        )
    run.charge(1 + len(value))
    return value if isinstance(value, list) else list(value)


def text_of(run: Evaluation, value: JSON) -> str:
    """Return a value as text: null is empty, lists and mappings are JSON (S-33)."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, int):
        run.charge(value.bit_length() // 32)
        return str(value)
    if isinstance(value, float):
        return str(number(value))
    if isinstance(value, Sealed):
        return "***"
    if isinstance(value, list | dict):
        return dump(run, value)
    if isinstance(value, Undefined):
        return str(value)
    raise errors.wrong(f"{errors.kind_of(value)} has no text form")


def dump(
    run: Evaluation, value: JSON, indent: int | None = None, sort_keys: bool = False
) -> str:
    """Return JSON text; the size is checked before."""
    run.charge(16)  # base cost: each call starts the encoder
    weight = weigh(run, value)
    if weight.text > limits.SIZE:
        run.size(weight.text)  # refuses
    if indent is not None:
        # Indented output runs in Python, not C, and each line may have the full indent.
        run.charge(8 * weight.nodes)
        run.size(weight.text + weight.nodes * indent * weight.depth)
    text = json.dumps(
        value,
        ensure_ascii=False,
        indent=indent,
        sort_keys=sort_keys,
        allow_nan=False,
        default=_refuse,
    )
    return run.made(text)


def _refuse(value: JSON) -> JSON:
    if isinstance(value, Undefined):
        value.used()
        return None
    raise errors.wrong(f"{errors.kind_of(value)} is not a JSON value")


def number(value: JSON) -> JSON:
    """Return a number that JSON can hold; raises an error for any other."""
    if isinstance(value, float):
        if not isfinite(value):
            raise errors.wrong("the result is infinite or not a JSON number")
    elif not -limits.LARGEST_INTEGER < value < limits.LARGEST_INTEGER:
        raise errors.wrong(
            f"the result is not a JSON number: an integer of more than {limits.BITS:,} "
            "bits"
        )
    return value


@dataclass(frozen=True, slots=True)
class Weight:
    """Size of a value; ``plain`` means that all of it is JSON."""

    nodes: int
    text: int
    depth: int
    plain: bool


def weigh(run: Evaluation, value: JSON) -> Weight:
    """Charge for every value inside ``value``, counted as a tree, before it is walked.

    A structure that shares its parts (``x = [x, x]``, forty times) is small in memory
    and huge when expanded. The count runs level by level, so that depth is known too.
    """
    level: list[JSON] = [value]
    depth = nodes = text = 0
    plain = True
    while level:
        nodes += len(level)
        inner: list[JSON] = []
        for item in level:
            kind = type(item)
            if kind is str:
                text += len(item)
            elif kind is list or kind is dict or isinstance(item, list | dict):
                if len(inner) + len(item) + nodes > run.steps:
                    raise run.exhausted()
                plain = plain and (kind is list or kind is dict)
                if isinstance(item, list):
                    inner.extend(item)
                else:
                    inner.extend(item.values())
                    nodes += len(item)
                    text += sum(len(key) for key in item if isinstance(key, str))
            elif kind is int:
                text += item.bit_length() // 3
            elif isinstance(item, Undefined):
                plain = False
        depth += 1
        if depth > limits.NESTING:
            raise errors.too_much(
                f"a value nests deeper than {limits.NESTING} lists or mappings"
            )
        level = inner
    run.charge(nodes + text // limits.CHARS_PER_STEP)
    return Weight(nodes, text, depth, plain)


def settle(run: Evaluation, value: JSON) -> JSON:
    """Return the result of a template as plain JSON of limited size."""
    if isinstance(value, list | dict) and not weigh(run, value).plain:
        return _plain(value)
    return value


def _plain(value: JSON) -> JSON:
    if isinstance(value, Table):
        raise errors.wrong("the keys of a mapping in a result must be text")
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, Undefined):
        value.used()
        return None
    return value
