"""Finding many secrets in a text at once, however each of them is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from noetl.engine.disguises import Undone, disguises, undo

MASK = "***"
LONG = 8
"""Characters from which a secret is looked for inside longer text."""

_BEGINNING = 64


class Matcher:
    """One pattern for many secrets: how each begins, for a secret may be a megabyte."""

    def __init__(
        self, secrets: list[str], disguise: Callable[[str], set[str]] = disguises
    ) -> None:
        self.secrets = secrets
        self._forms: dict[str, list[str]] = {}
        forms = {form for secret in secrets for form in disguise(secret)}
        for form in sorted(forms, key=lambda each: (-len(each), each)):
            if len(form) >= LONG:
                self._forms.setdefault(form[:2], []).append(form)
        known = [form for forms in self._forms.values() for form in forms]
        self._pattern = pattern_of({form[:_BEGINNING] for form in known})

    def mask(self, text: str) -> str:
        """Without any of them; each pass makes the text shorter, so this ends."""
        while (places := self._places(text)) is not None:
            parts: list[str] = []
            end = 0
            for start, stop in places:
                parts += (text[end:start], MASK)
                end = stop
            text = "".join(parts) + text[end:]
        return text

    def _places(self, text: str) -> list[tuple[int, int]] | None:
        """Where secrets are, as they are or escaped; those that touch are one."""
        found = list(self._spans(text))
        plain = undo(text)
        if plain != text and next(self._spans(plain), None) is not None:
            undone = Undone(text)
            found += [undone.place(*span) for span in self._spans(undone.text)]
        if not found:
            return None
        found.sort()
        merged = [found[0]]
        for start, stop in found[1:]:
            begin, end = merged[-1]
            if start <= end:
                merged[-1] = (begin, max(end, stop))
            else:
                merged.append((start, stop))
        return merged

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Also those that overlap."""
        found = self._pattern.search(text)
        while found is not None:
            start = found.start()
            for form in self._forms[text[start : start + 2]]:
                if text.startswith(form, start):
                    yield start, start + len(form)
                    break
            found = self._pattern.search(text, start + 1)


def add_matcher(
    matchers: list[Matcher], found: list[str], disguise: Callable[[str], set[str]]
) -> None:
    """Patterns of the same size become one of twice the size, so that learning a
    thousand secrets one by one compiles each of them ten times, not a thousand."""
    while matchers and len(matchers[-1].secrets) <= len(found):
        found = found + matchers.pop().secrets
    matchers.append(Matcher(found, disguise))


def pattern_of(texts: Iterable[str]) -> re.Pattern[str]:
    """One for all of them, branching by their first two characters."""
    tree: dict[str, dict[str, list[str]]] = {}
    for text in sorted(texts, key=lambda each: (-len(each), each)):
        tree.setdefault(text[0], {}).setdefault(text[1], []).append(text[2:])
    return re.compile(
        _choice(
            re.escape(first)
            + _choice(
                re.escape(second) + _choice(map(re.escape, rests))
                for second, rests in seconds.items()
            )
            for first, seconds in tree.items()
        )
    )


def _choice(options: Iterable[str]) -> str:
    return f"(?:{'|'.join(options)})"
