"""HTML that is escaped by construction: only ``element`` makes markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias


class Html(str):
    """Markup, as opposed to text: nothing in it is escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"

_VOID = frozenset({"input", "meta"})
_KEPT = frozenset("\n\t")


def element(
    tag: str, /, *children: Child, **attributes: str | int | float | bool | None
) -> Html:
    """``element("a", text, href="#top")``; ``class_`` is class, ``aria_label`` has a
    dash. Attributes that are None or False are left out, True has no value."""
    head = [tag]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        head.append(key if value is True else f'{key}="{text(str(value))}"')
    opening = f"<{' '.join(head)}>"
    if tag in _VOID:
        return Html(opening)
    return Html(f"{opening}{join(children)}</{tag}>")


def text(words: str) -> Html:
    """Text as markup. Characters that steer instead of showing are made visible."""
    if not words.isprintable():
        words = "".join(
            char if char.isprintable() or char in _KEPT else "\ufffd" for char in words
        )
    return Html(escape(words))


def join(children: Child) -> Html:
    """Markup as it is, text escaped, None left out."""
    if children is None:
        return Html()
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return text(children)
    return Html("".join(map(join, children)))


def prose(words: str) -> Html:
    """Text of ours in which ```names``` stand in backticks."""
    parts = words.split("`")
    return join(
        element("code", part) if number % 2 else part
        for number, part in enumerate(parts)
    )
