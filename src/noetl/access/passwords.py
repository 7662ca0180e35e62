"""Which passwords are taken: length counts, and what everybody tries first does not."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from noetl.errors import AccessError

SHORTEST = 12
LONGEST = 256
_DISTINCT = 5
_LOW = ("password", "passwort", "noetl", "qwerty", "letmein", "welcome", "changeme")
_ROWS = ("0123456789" * 3, "abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm")


def normalize(password: str) -> str:
    """The same password however a keyboard composes its letters."""
    return unicodedata.normalize("NFKC", password)


def check(password: str, about: Iterable[str | None] = ()) -> None:
    """Raises ``AccessError`` with the first reason; ``about`` are the owner's names."""
    text = normalize(password)
    reason = _reason(text, [name.casefold() for name in about if name])
    if reason is not None:
        raise AccessError("account.password", f"the password {reason}", 422)


def _reason(text: str, names: list[str]) -> str | None:
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        return "holds a control character, or half of one"
    if len(text) < SHORTEST:
        return f"is too short: {SHORTEST} characters or more, found {len(text)}"
    if len(text) > LONGEST:
        return f"is too long: {LONGEST} characters or less, found {len(text)}"
    if len(set(text)) < _DISTINCT:
        return f"has fewer than {_DISTINCT} different characters"
    if _rest(text.casefold(), names) < SHORTEST // 2:
        return "is little more than a common word, a row of keys or its owner's name"
    return None


def _rest(text: str, names: list[str]) -> int:
    """How many characters are left without what is easily guessed."""
    for word in sorted([*_LOW, *names], key=len, reverse=True):
        if len(word) > 2:
            text = text.replace(word, "\0")
    for row in (*_ROWS, *(row[::-1] for row in _ROWS)):
        for length in range(min(len(row), len(text)), 3, -1):
            for start in range(len(row) - length + 1):
                text = text.replace(row[start : start + length], "\0")
    return len(text.replace("\0", ""))
