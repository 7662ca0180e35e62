"""Accounts: identity, grants and password hash."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import msgspec

from noetl.access.permissions import Grant
from noetl.dsl.node import shorten
from noetl.errors import AccessError

_NAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,126}\Z")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A person or a service. Without a password it signs in by OIDC or tokens alone.

    ``version`` rises when grants, password or state change; a sign-in that began before
    such a change is refused. ``issuer`` and ``subject`` identify the account at an OIDC
    provider.
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
        # the password hash must not appear in logs
        return f"Account({self.user_id!r}, {self.name!r})"


def read_name(text: str) -> str:
    """Return the account name in lower case. Raises ``AccessError``."""
    name = unicodedata.normalize("NFKC", text).strip().lower()
    if _NAME.match(name) is None:
        message = f"'{shorten(text, 40)}' is not a valid account name"
        hint = "use letters, digits and . _ - + @, such as ann or ann@example.com"
        raise AccessError("account.name", f"{message}; {hint}", 422)
    return name


MIN_CHARS = 12
MAX_CHARS = 256
_DISTINCT = 5
_LOW = ("password", "passwort", "noetl", "qwerty", "letmein", "welcome", "changeme")
_ROWS = ("0123456789" * 3, "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm")


def normalize(password: str) -> str:
    """Return the Unicode-normalized password."""
    return unicodedata.normalize("NFKC", password)


def check(password: str, about: Iterable[str | None] = ()) -> None:
    """Raise ``AccessError`` with the first violated rule; ``about`` are the owner's
    names."""
    text = normalize(password)
    reason = _reason(text, [name.casefold() for name in about if name])
    if reason is not None:
        raise AccessError("account.password", f"the password {reason}", 422)


def _reason(text: str, names: list[str]) -> str | None:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        return "contains a control character or half of a surrogate pair"
    if len(text) < MIN_CHARS:
        return (
            f"is too short: it has {len(text)} characters, the minimum is {MIN_CHARS}"
        )
    if len(text) > MAX_CHARS:
        return f"is too long: it has {len(text)} characters, the maximum is {MAX_CHARS}"
    if len(set(text)) < _DISTINCT:
        return f"has fewer than {_DISTINCT} different characters"
    if _rest(text.casefold(), names) < MIN_CHARS // 2:
        return "is mostly a common word, a row of keys or its owner's name"
    return None


def _rest(text: str, names: list[str]) -> int:
    """Count the characters that remain without the easily guessed parts."""
    for word in sorted([*_LOW, *names], key=len, reverse=True):
        if len(word) > 2:
            text = text.replace(word, "\0")
    for row in (*_ROWS, *(row[::-1] for row in _ROWS)):
        for length in range(min(len(row), len(text)), 3, -1):
            for start in range(len(row) - length + 1):
                text = text.replace(row[start : start + length], "\0")
    return len(text.replace("\0", ""))
