"""An account: who it is, what they may, and how they sign in."""

from __future__ import annotations

import re
import unicodedata

import msgspec

from noetl.access.grants import Grant
from noetl.dsl.node import shorten
from noetl.errors import AccessError

_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,126}\Z")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A person or a service. Without a password it signs in by OIDC or tokens alone.

    ``version`` rises when grants, password or state change: a sign-in that began
    before such a change does not outlive it. ``issuer`` and ``subject`` are who an
    OIDC provider says it is.
    """

    user_id: str
    name: str
    grants: tuple[Grant, ...]
    created_at: float
    email: str | None = None
    display_name: str | None = None
    password_hash: str | None = None
    issuer: str | None = None
    subject: str | None = None
    disabled: bool = False
    version: int = 1

    def __repr__(self) -> str:
        return f"Account({self.user_id!r}, {self.name!r})"  # the hash is nobody's


def read_name(text: str) -> str:
    """The name by which an account is found; case does not matter."""
    name = unicodedata.normalize("NFKC", text).strip().lower()
    if _NAME.match(name) is None:
        message = f"'{shorten(text, 40)}' is no name of an account"
        hint = "use letters, digits and . _ - + @, such as ann or ann@example.com"
        raise AccessError("account.name", f"{message}; {hint}", 422)
    return name
