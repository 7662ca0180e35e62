"""The account on whose behalf an execution runs, and what it may do at this moment."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.access.accounts import Account
from noetl.access.grants import read_grants
from noetl.access.principal import Principal, allows
from noetl.errors import AccessError

INITIATOR = "initiator"
"""The member of an execution's first event."""


class Initiator(msgspec.Struct, frozen=True, omit_defaults=True):
    """``scopes`` are those of the token that was used; None is no limit.

    ``user_id`` is None in records that are older than this type. The account is then
    found by its name.
    """

    principal: str
    user_id: str | None = None
    scopes: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def initiator_of(principal: Principal) -> Initiator:
    """The initiator of what this principal begins."""
    limits = principal.limits
    scopes = None if limits is None else tuple(str(grant) for grant in limits)
    return Initiator(principal.name, principal.user_id, scopes)


def read_initiator(payload: dict[str, Any]) -> Initiator | None:
    """The initiator in the payload of a first event.

    A payload that is older names the caller only. None is an execution without a
    server's caller: it was begun by `noetl run`.
    """
    if INITIATOR in payload:
        return msgspec.convert(payload[INITIATOR], Initiator)
    name = (payload.get("caller") or {}).get("principal", "trigger:")
    return None if name.startswith("trigger:") else Initiator(name)


def may(
    initiator: Initiator, account: Account | None, permission: str, path: str
) -> bool:
    """Whether the account, as it is now, may do this on behalf of the initiator.

    A role that holds everywhere covers a path of any form: then the answer says that
    nothing is there.
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
