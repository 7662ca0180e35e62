"""Roles, the permissions of each, and the principals that have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import shorten
from noetl.errors import AccessError

Scope = Literal["path", "pool", "all"]


class Permission(msgspec.Struct, frozen=True):
    """A permission that a route requires.

    Scope ``path`` applies to a playbook and its executions, ``pool`` to a pool of
    workers, ``all`` to the server. ``bearer`` permissions are never granted to a
    cookie, because a browser does not need them.
    """

    doc: str
    scope: Scope = "path"
    bearer: bool = False


PERMISSIONS: Mapping[str, Permission] = {
    "playbooks:read": Permission("See registered playbooks and their versions."),
    "executions:read": Permission(
        "See executions, events, states and results; of playbooks that are marked as "
        "sensitive status, times and kinds of errors only."
    ),
    "payloads:read": Permission(
        "See the data of executions whose playbooks are marked as sensitive, too."
    ),
    "executions:run": Permission("Start an execution of a registered playbook."),
    "executions:control": Permission(
        "Cancel, pause, resume, signal, retry and fork an execution."
    ),
    "triggers:read": Permission("See triggers and backfills."),
    "triggers:write": Permission(
        "Make, change, pause, fire and delete triggers; run backfills."
    ),
    "playbooks:write": Permission(
        "Register a playbook, or run one that is not registered."
    ),
    "tools:code": Permission("Register or run playbooks with `python` and the like."),
    "secrets:read": Permission("See the names of secrets, never their values."),
    "secrets:write": Permission("Store and delete secrets; bind them to playbooks."),
    "secrets:declare": Permission(
        "Declare keychain entries that read the host or use its credentials.", "all"
    ),
    "secrets:rotate": Permission(
        "See the keys that seal the keychain, and make a new one.", "all"
    ),
    "log:export": Permission("Export event logs and the audit of the server."),
    "executions:remove": Permission("Remove old executions from a server.", "all"),
    "workers:read": Permission("See pools, workers and their load.", "all"),
    "accounts:manage": Permission("Make, change and end accounts.", "all"),
    "tokens:manage": Permission("Make and end API tokens.", "all", bearer=True),
    "sessions:manage": Permission("See and end the sessions of others.", "all"),
    "work:claim": Permission(
        "Claim, renew and report work of a pool.", "pool", bearer=True
    ),
}


class Role(msgspec.Struct, frozen=True):
    """A role; ``takes`` is the scope that may follow its name:
    ``operator:finance/*``."""

    doc: str
    permissions: frozenset[str]
    takes: Scope = "path"


_VIEWER = frozenset(
    {"playbooks:read", "executions:read", "triggers:read", "workers:read"}
)
_OPERATOR = _VIEWER | {
    *("executions:run", "executions:control", "payloads:read", "triggers:write"),
}
_AUTHOR = _OPERATOR | {"playbooks:write"}
_DEVELOPER = _AUTHOR | {"tools:code"}
_EVERYTHING = frozenset(n for n, p in PERMISSIONS.items() if p.scope != "pool")

ROLES: Mapping[str, Role] = {
    "viewer": Role(
        "Reads, except the data of playbooks that are marked as sensitive.", _VIEWER
    ),
    "operator": Role("A viewer who also runs and steers executions.", _OPERATOR),
    "author": Role("An operator who also writes playbooks without code.", _AUTHOR),
    "developer": Role("An author whose playbooks may bring code.", _DEVELOPER),
    "secrets": Role(
        "Keeps the secrets: names and bindings.",
        frozenset({"secrets:read", "secrets:write"}),
    ),
    "auditor": Role(
        "Reads everything that happened, and exports it.",
        _VIEWER | {"payloads:read", "log:export"},
    ),
    "admin": Role("Everything but the work of a worker.", _EVERYTHING, "all"),
    "worker": Role(
        "Works for the pool that it names: `worker:gpu`; `worker:*` is all of them.",
        frozenset({"work:claim"}),
        "pool",
    ),
}


_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_PATH = re.compile(rf"{_NAME}(/{_NAME})*\Z")
_PATTERN = re.compile(rf"{_NAME}(/{_NAME})*(/\*)?\Z")
_POOL = re.compile(rf"{_NAME}\Z")
_MAX_CHARS = 255


class Grant(msgspec.Struct, frozen=True):
    """A role; ``where`` is a pool, a path or a prefix (``finance/*``), or None for
    all."""

    role: str
    where: str | None = None

    def __str__(self) -> str:
        if self.where is not None:
            return f"{self.role}:{self.where}"
        return f"{self.role}:*" if ROLES[self.role].takes == "pool" else self.role

    @property
    def example(self) -> str | None:
        """A place that the grant covers; None if it covers all."""
        return None if self.where is None else self.where.replace("*", "x")

    def covers(self, permission: str, where: str | None) -> bool:
        """Return True if the grant covers the permission there; None means
        everywhere."""
        if where is not None and not _is_place(permission, where):
            return self._gives(permission) and PERMISSIONS[permission].scope == "all"
        return self.covers_below(permission, where)

    def covers_below(self, permission: str, pattern: str | None) -> bool:
        """Return True if the grant covers every path of a pattern such as
        ``finance/*``."""
        if not self._gives(permission):
            return False
        if PERMISSIONS[permission].scope == "all" or self.where is None:
            return True  # a permission of the whole server has no path
        return pattern is not None and within(pattern, self.where)

    def _gives(self, permission: str) -> bool:
        return permission in ROLES[self.role].permissions


def any_covers(grants: Iterable[Grant], permission: str, where: str | None) -> bool:
    """Return True if a grant covers the permission there; None means everywhere."""
    return any(grant.covers(permission, where) for grant in grants)


def any_covers_some(grants: Iterable[Grant], permission: str) -> bool:
    """Return True if a grant covers the permission at a place of its own."""
    return any(grant.covers(permission, grant.example) for grant in grants)


def _is_place(permission: str, where: str) -> bool:
    pattern = _POOL if PERMISSIONS[permission].scope == "pool" else _PATH
    return len(where) <= _MAX_CHARS and pattern.match(where) is not None


def is_pattern(text: str) -> bool:
    """Return True for a path, or a prefix such as ``finance/*``."""
    return len(text) <= _MAX_CHARS and _PATTERN.match(text) is not None


def within(path: str, pattern: str) -> bool:
    """Match by whole names: ``finance/*`` matches ``finance/q1`` and not
    ``finance2/x``."""
    if pattern.endswith("/*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def read_grant(text: str) -> Grant:
    """Parse a grant. Raises ``AccessError`` with the expected form."""
    name, colon, where = text.partition(":")
    role = ROLES.get(name)
    if role is None:
        hint = did_you_mean(name, ROLES)
        raise _wrong(f"unknown role '{shorten(name, 40)}'; {hint}")
    if not colon:
        if role.takes == "pool":
            raise _wrong(f"'{name}' needs a pool, for example {name}:default")
        return Grant(name)
    return Grant(name, _read_where(name, role.takes, where))


def _read_where(name: str, takes: Scope, where: str) -> str | None:
    if takes == "all":
        message = f"'{name}' takes no path or pool: remove '{shorten(where, 40)}'"
        raise _wrong(message)
    if where == "*":
        return None
    pattern = _POOL if takes == "pool" else _PATTERN
    if len(where) <= _MAX_CHARS and pattern.match(where):
        return where
    expected = "the name of a pool or *" if takes == "pool" else "a path or finance/*"
    found = shorten(where, 40)
    raise _wrong(f"'{name}:' must be followed by {expected}, found '{found}'")


def _wrong(message: str) -> AccessError:
    return AccessError("account.role", message, 422)


def read_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Parse grants without duplicates, in their order."""
    return tuple(dict.fromkeys(read_grant(text) for text in texts))


Means = Literal["token", "session", "open"]
"""The kind of credential; ``open`` is a server without authentication."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """A caller whose credential was valid when the request was authenticated.

    ``limits`` are the scopes of a token, which restrict the rights of its account.
    ``credential`` is the id of the token or session, for the audit.
    """

    user_id: str
    name: str
    grants: tuple[Grant, ...]
    means: Means
    limits: tuple[Grant, ...] | None = None
    credential: str | None = None


ANYBODY = Principal(
    user_id="anybody",
    name="anybody",
    grants=(Grant("admin"), Grant("worker")),
    means="open",
)
"""The principal of every request to a server without authentication."""


def allows(principal: Principal, permission: str, where: str | None = None) -> bool:
    """Return True if the permission holds for this path or pool; None means for all."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return False
    return any_covers(principal.grants, permission, where) and (
        principal.limits is None or any_covers(principal.limits, permission, where)
    )


def allows_below(principal: Principal, permission: str, pattern: str | None) -> bool:
    """Return True if the permission holds for every path of the pattern; None means
    all."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return False
    return all(
        any(grant.covers_below(permission, pattern) for grant in grants)
        for grants in (principal.grants, principal.limits)
        if grants is not None
    )


def may_somewhere(principal: Principal, permission: str) -> bool:
    """Return True if the permission holds anywhere; each row still needs ``allows``."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return False
    return any_covers_some(principal.grants, permission) and (
        principal.limits is None or any_covers_some(principal.limits, permission)
    )


def places_of(principal: Principal, permission: str) -> list[str]:
    """Return the places at which the permission holds: paths, prefixes, pools; ``*``
    is everywhere."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return []
    held = _places(principal.grants, permission)
    if principal.limits is not None:
        limits = _places(principal.limits, permission)
        held = [narrow for a in held for b in limits if (narrow := _both(a, b))]
    if "*" in held:
        return ["*"]
    return sorted(set(held))


def _places(grants: Iterable[Grant], permission: str) -> list[str]:
    wide = PERMISSIONS[permission].scope == "all"
    return [
        "*" if wide or grant.where is None else grant.where
        for grant in grants
        if permission in ROLES[grant.role].permissions
    ]


def _both(one: str, other: str) -> str | None:
    """Return the part of two places that is in both; None if there is none."""
    for narrow, broad in ((one, other), (other, one)):
        if broad == "*" or within(narrow, broad):
            return narrow
    return None


def require_somewhere(principal: Principal, permission: str) -> None:
    """Raise ``AccessError`` (``auth.role``) if the permission holds nowhere."""
    if not may_somewhere(principal, permission):
        message = f"{principal.name} lacks the permission {permission}"
        raise AccessError("auth.role", message)


def require(principal: Principal, permission: str, where: str | None = None) -> None:
    """Raise ``AccessError`` (``auth.role``) unless the permission holds."""
    if not allows(principal, permission, where):
        place = "" if where is None else f" for '{where}'"
        message = f"{principal.name} lacks the permission {permission}{place}"
        raise AccessError("auth.role", message)


def roles_at(principal: Principal, where: str | None) -> frozenset[str]:
    """Return the roles that hold there, restricted by the scopes of a token."""
    held = _roles(principal.grants, where)
    if principal.limits is None:
        return held
    limits = _roles(principal.limits, where)
    if "admin" in limits:
        return held
    return limits if "admin" in held else held & limits


def _roles(grants: Iterable[Grant], where: str | None) -> frozenset[str]:
    return frozenset(
        grant.role
        for grant in grants
        if ROLES[grant.role].takes != "pool"
        and (grant.where is None or (where is not None and within(where, grant.where)))
    )
