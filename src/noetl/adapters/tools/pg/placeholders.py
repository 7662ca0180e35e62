"""Placeholders: which value each statement takes, and its SQL with ``$1…`` alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from noetl.adapters.tools.pg.script import Statement
from noetl.errors import ToolError
from noetl.types import JSON


class Written(msgspec.Struct, frozen=True):
    """SQL as it is sent; ``pieces`` lead back: (offset here, offset there)."""

    sql: str
    pieces: tuple[tuple[int, int], ...] = ((0, 0),)

    def origin(self, offset: int) -> int:
        """The offset in the statement of one in ``sql``."""
        here, there = max(piece for piece in self.pieces if piece[0] <= offset)
        following = [origin for at, origin in self.pieces if at > here]
        return min([there + offset - here, *following[:1]])


def keys_of(statement: Statement) -> list[int | str]:
    """The distinct placeholders in the order in which they occur."""
    return list(dict.fromkeys(each.key for each in statement.placeholders))


def write(statement: Statement, casts: Mapping[int, str]) -> Written:
    """The statement with its placeholders numbered as ``keys_of`` lists them.

    ``casts`` names the types of those that are sent as text and cast by the server.
    """
    numbers = {key: at for at, key in enumerate(keys_of(statement), 1)}
    parts: list[str] = []
    pieces = [(0, 0)]
    size = taken = 0
    for each in statement.placeholders:
        number = numbers[each.key]
        before = statement.text[taken : each.start]
        cast = casts.get(number)
        mark = f"${number}" if cast is None else f"CAST(${number}::text AS {cast})"
        parts += [before, mark]
        pieces.append((size + len(before), each.start))
        size += len(before) + len(mark)
        pieces.append((size, each.end))
        taken = each.end
    parts.append(statement.text[taken:])
    return Written("".join(parts), tuple(pieces))


def values_of(statement: Statement, params: JSON) -> list[JSON]:
    """What ``keys_of`` takes of the checked parameters."""
    if isinstance(params, Mapping):
        return [params[key] for key in keys_of(statement)]
    return [params[int(key) - 1] for key in keys_of(statement)]


def check(statements: Sequence[Statement], params: JSON) -> None:
    """Every placeholder has a value. Raises ``ToolError`` that names the first without.

    A list must be used up: a value too many is a mistake, while a mapping may hold
    names that only other statements know.
    """
    used: set[int | str] = set()
    for statement in statements:
        for each in statement.placeholders:
            used.add(each.key)
            if not has(params, each.key):
                raise missing(statement, each.key, each.start, params)
    if isinstance(params, list):
        for number in range(1, len(params) + 1):
            if number not in used:
                message = f"params has {len(params)} values, but nothing uses ${number}"
                raise ToolError("tool.contract", message)


def has(params: JSON, key: int | str) -> bool:
    if isinstance(key, int):
        return isinstance(params, list) and 1 <= key <= len(params)
    return isinstance(params, Mapping) and key in params


def missing(
    statement: Statement, key: int | str, start: int, params: JSON
) -> ToolError:
    mark = f"${key}" if isinstance(key, int) else f":{key}"
    line = statement.line + statement.text.count("\n", 0, start)
    if isinstance(key, int):
        expected = "a list"
        held = f"{len(params)} values" if isinstance(params, list) else None
    else:
        expected = "a mapping"
        names = ", ".join(map(str, params)) if isinstance(params, Mapping) else ""
        held = (names[:200] or "nothing") if isinstance(params, Mapping) else None
    if held is not None:
        why = f"params has {held}"
    elif params is None:
        why = f"params is missing (expected {expected})"
    else:
        found = "a list" if isinstance(params, list) else "a mapping"
        why = f"params is {found}, not {expected}"
    return ToolError("tool.contract", f"line {line}: no value for {mark}: {why}")
