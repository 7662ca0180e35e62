"""How wide a text will be, without asking a font."""

from __future__ import annotations

from unicodedata import east_asian_width

# Shares of the font size, a little above Helvetica's, so that other fonts fit too.
_NARROW = frozenset("iljtfrI.,:;'|!()[]{} ·")
_WIDE = frozenset("mwMW@%…—→∥")


def measure(text: str, size: float) -> float:
    """The width of one line of text, rather too wide than too narrow."""
    return sum(map(_share, text)) * size


def measure_mono(text: str, size: float) -> float:
    """The same for a font in which all letters are equally wide."""
    wide = sum(east_asian_width(char) in "WF" for char in text)
    return (len(text) + wide) * 0.61 * size


def _share(char: str) -> float:
    if char in _NARROW:
        return 0.33
    if char in _WIDE:
        return 0.9
    if char.isascii():
        return 0.68 if char.isupper() else 0.58
    return 1.05 if east_asian_width(char) in "WF" else 0.68
