"""Initiators: the accounts whose rights executions have."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.access.accounts import Account
from noetl.access.permissions import Principal, allows, read_grants
from noetl.errors import AccessError

INITIATOR = "initiator"
"""The member of an execution's first event that holds the initiator."""


class Initiator(msgspec.Struct, frozen=True, omit_defaults=True):
    """The account whose rights an execution has.

    ``scopes`` are those of the token that was used; None means no limit. ``user_id`` is
    None in records that are older than this type; the account is then found by its
    name.
    """

    principal: str
    user_id: str | None = None
    scopes: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def initiator_of(principal: Principal) -> Initiator:
    """Return the initiator for executions that this principal starts."""
    limits = principal.limits
    scopes = None if limits is None else tuple(str(grant) for grant in limits)
    return Initiator(principal.name, principal.user_id, scopes)


def read_initiator(payload: dict[str, Any]) -> Initiator | None:
    """Read the initiator from the payload of a first event.

    An older payload has the caller only. None is an execution of `noetl run`, which has
    no caller on a server.
    """
    if INITIATOR in payload:
        return msgspec.convert(payload[INITIATOR], Initiator)
    name = (payload.get("caller") or {}).get("principal", "trigger:")
    return None if name.startswith("trigger:") else Initiator(name)


def may(
    initiator: Initiator, account: Account | None, permission: str, path: str
) -> bool:
    """Return True if the account has the permission now, within the initiator's scopes.

    A role without a path covers malformed paths, too; the caller then reports that the
    playbook does not exist.
    """
    if account is None or account.disabled:
        return False
    try:
        limits = None if initiator.scopes is None else read_grants(initiator.scopes)
    except AccessError:  # a scope that this version does not know permits nothing
        return False
    principal = Principal(
        user_id=account.user_id,
        name=account.name,
        grants=account.grants,
        means="token",
        limits=limits,
    )
    return allows(principal, permission, path) or allows(principal, permission)
