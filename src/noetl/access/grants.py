"""A role that somebody has, and where: ``viewer``, ``operator:finance/*``."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from noetl.access.permissions import PERMISSIONS, ROLES, Scope
from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import shorten
from noetl.errors import AccessError

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_PATH = re.compile(rf"{_NAME}(/{_NAME})*\Z")
_PATTERN = re.compile(rf"{_NAME}(/{_NAME})*(/\*)?\Z")
_POOL = re.compile(rf"{_NAME}\Z")
_LONGEST = 255


class Grant(msgspec.Struct, frozen=True):
    """``where`` is a pool, a path or a prefix (``finance/*``); None is everywhere."""

    role: str
    where: str | None = None

    def __str__(self) -> str:
        if self.where is not None:
            return f"{self.role}:{self.where}"
        return f"{self.role}:*" if ROLES[self.role].takes == "pool" else self.role

    def covers(self, permission: str, where: str | None) -> bool:
        """Whether it permits that there; ``where`` is None for all places at once."""
        if where is not None and not _is_place(permission, where):
            return self._gives(permission) and PERMISSIONS[permission].scope == "all"
        return self.covers_below(permission, where)

    def covers_below(self, permission: str, pattern: str | None) -> bool:
        """Whether it permits that for every path of a pattern such as ``finance/*``."""
        if not self._gives(permission):
            return False
        if PERMISSIONS[permission].scope == "all" or self.where is None:
            return True  # of the server as a whole: a place has no meaning for it
        return pattern is not None and within(pattern, self.where)

    def _gives(self, permission: str) -> bool:
        return permission in ROLES[self.role].permissions


def _is_place(permission: str, where: str) -> bool:
    pattern = _POOL if PERMISSIONS[permission].scope == "pool" else _PATH
    return len(where) <= _LONGEST and pattern.match(where) is not None


def is_pattern(text: str) -> bool:
    """Whether it is a path, or a prefix such as ``finance/*``."""
    return len(text) <= _LONGEST and _PATTERN.match(text) is not None


def within(path: str, pattern: str) -> bool:
    """By whole names: ``finance/*`` holds ``finance/q1/sum``, and no ``finance2/x``."""
    if pattern.endswith("/*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def read_grant(text: str) -> Grant:
    """Raises ``AccessError`` that says what a grant looks like."""
    name, colon, where = text.partition(":")
    role = ROLES.get(name)
    if role is None:
        hint = did_you_mean(name, ROLES)
        raise _wrong(f"there is no role '{shorten(name, 40)}'; {hint}")
    if not colon:
        if role.takes == "pool":
            raise _wrong(f"'{name}' needs the pool that it works for: {name}:default")
        return Grant(name)
    return Grant(name, _read_where(name, role.takes, where))


def _read_where(name: str, takes: Scope, where: str) -> str | None:
    if takes == "all":
        message = f"'{name}' holds everywhere: write it without '{shorten(where, 40)}'"
        raise _wrong(message)
    if where == "*":
        return None
    pattern = _POOL if takes == "pool" else _PATTERN
    if len(where) <= _LONGEST and pattern.match(where):
        return where
    expected = "the name of a pool or *" if takes == "pool" else "a path or finance/*"
    raise _wrong(f"'{name}:' is followed by {expected}, found '{shorten(where, 40)}'")


def _wrong(message: str) -> AccessError:
    return AccessError("account.role", message, 422)


def read_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Each once, in their order."""
    return tuple(dict.fromkeys(read_grant(text) for text in texts))
