"""Who asks, and what they may: the seam, and the answer for a server of one's own."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from noetl.errors import AccessError

Headers = Mapping[str, Sequence[str]]
"""All values of each header, by their lower-case names."""


class Principal(msgspec.Struct, frozen=True):
    """Somebody whose credential was valid; ``name`` is what the log says."""

    name: str


class Access(Protocol):
    """Asked before anything else is read of a request."""

    async def authenticate(self, method: str, headers: Headers) -> Principal:
        """Raises ``AccessError``: 401, or what else is wrong with the caller."""
        ...

    def allows(self, principal: Principal, permission: str, path: str | None) -> bool:
        """Whether they may do it to this playbook path; without one, to any at all."""
        ...


class LocalAccess:
    """One token, in a file that only its user can read; whoever has it may all."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def authenticate(self, method: str, headers: Headers) -> Principal:
        given = headers.get("authorization", ())
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        same = hmac.compare_digest(token.strip().encode(), self._token)
        if scheme.lower() != "bearer" or not same:
            message = "no valid credential: send Authorization: Bearer <token>"
            raise AccessError("auth.required", message, 401)
        return Principal("local")

    def allows(self, principal: Principal, permission: str, path: str | None) -> bool:
        return True
