"""Which values go to which statement."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import duckdb

from .refusals import Refusal

Statement = duckdb.Statement


class Params:
    """``?`` takes the next of a list, ``$1`` the first, ``$name`` from a mapping.

    A list goes on from one statement to the next; a mapping serves them all.
    """

    def __init__(self, given: Any) -> None:
        self._given = given
        self._next = 0
        self._used: set[int | str] = set()

    def take(self, statement: Statement) -> Any:
        """The values of this statement, as the driver wants them."""
        wanted = statement.named_parameters
        if not wanted:
            return None
        numbers = sorted(int(name) for name in wanted if name.isdecimal())
        if numbers and not isinstance(self._given, list):
            raise self._misfit("the SQL has ? or $1, so it must be a list")
        if numbers:
            return self._take_list(numbers, has_dollars(statement.query))
        if not isinstance(self._given, dict):
            raise self._misfit(f"the SQL has ${min(wanted)}, so it must be a mapping")
        missing = wanted - self._given.keys()
        if missing:
            raise self._misfit(f"the SQL needs ${min(missing)}, which is not there")
        self._used |= wanted
        return {name: self._given[name] for name in wanted}

    def check_all_used(self) -> None:
        """A value for nothing is mostly a name that was mistyped."""
        given = self._given
        if isinstance(given, list) and self._used != set(range(len(given))):
            raise self._misfit(
                f"{len(given)} values are given, and the SQL takes {len(self._used)}"
            )
        if isinstance(given, dict) and self._used != given.keys():
            name = min(given.keys() - self._used)
            raise self._misfit(f"no statement has ${name}")

    def _take_list(self, numbers: list[int], by_number: bool) -> dict[str, Any]:
        start = 0 if by_number else self._next
        end = start + numbers[-1]
        if end > len(self._given):
            given = f"{len(self._given)} values are given"
            raise self._misfit(f"{given}, and the SQL needs at least {end}")
        if not by_number:
            self._next = end
        self._used.update(start + number - 1 for number in numbers)
        return {str(number): self._given[start + number - 1] for number in numbers}

    def _misfit(self, what: str) -> Refusal:
        return Refusal("tool.contract", f"params: {what}")


def has_dollars(sql: str) -> bool:
    """Whether its parameters are numbered by the author: ``$1``, not ``?``."""
    text = sql.encode()
    tokens = duckdb.tokenize(sql)
    return any(
        text[start : start + 1] == b"$" and following == start + 1
        for (start, _), (following, _) in pairwise(tokens)
    )
