"""Who asks, and whether they may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from noetl.access.grants import Grant, within
from noetl.access.permissions import PERMISSIONS, ROLES
from noetl.errors import AccessError

Means = Literal["token", "session", "open"]
"""How they showed who they are; ``open`` is a server without authentication."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody whose credential was valid a moment ago.

    ``limits`` are a token's scopes: it can do no more than its account, and no more
    than these. ``credential`` is the id of the token or the session, for the audit.
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
"""Whoever asks a server without authentication."""


def allows(principal: Principal, permission: str, where: str | None = None) -> bool:
    """Whether they may do it to this path or pool; without one, to all of them."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return False
    return _any(principal.grants, permission, where) and (
        principal.limits is None or _any(principal.limits, permission, where)
    )


def allows_below(principal: Principal, permission: str, pattern: str | None) -> bool:
    """Whether they may do it to every path of the pattern; None is all paths."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return False
    return all(
        any(grant.covers_below(permission, pattern) for grant in grants)
        for grants in (principal.grants, principal.limits)
        if grants is not None
    )


def may_somewhere(principal: Principal, permission: str) -> bool:
    """Whether a listing has anything to show them; each row is asked for by itself."""
    if PERMISSIONS[permission].bearer and principal.means == "session":
        return False
    held = [principal.grants]
    if principal.limits is not None:
        held.append(principal.limits)
    return all(
        any(_any([grant], permission, _example(grant)) for grant in grants)
        for grants in held
    )


def require(principal: Principal, permission: str, where: str | None = None) -> None:
    """Raises ``AccessError`` of the kind ``auth.role``."""
    if not allows(principal, permission, where):
        place = "" if where is None else f" for '{where}'"
        message = f"{principal.name} has no right to {permission}{place}"
        raise AccessError("auth.role", message)


def roles_at(principal: Principal, where: str | None) -> frozenset[str]:
    """The roles that they have there: with a token no more than its scopes."""
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


def _any(grants: Iterable[Grant], permission: str, where: str | None) -> bool:
    return any(grant.covers(permission, where) for grant in grants)


def _example(grant: Grant) -> str | None:
    """A place that the grant is for."""
    return None if grant.where is None else grant.where.replace("*", "x")
