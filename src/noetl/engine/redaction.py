"""Masking: whatever is equal to a secret, or contains one, is ``***`` (S-41)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from noetl.engine.disguises import Undone, disguises, plain_forms, undo
from noetl.types import JSON

MASK = "***"
LONG = 8
"""Characters from which a secret is looked for inside longer text."""

_TORN = 4  # of a secret's end, where a text was cut: fewer tell nothing
_CUT_FROM = 200  # characters: who cuts a text leaves so many of it, or says so
_SHOWN = 12  # of a secret's beginning, quoted in a message and cut
_CUT = re.compile(r"\[?…(?: \d+ bytes cut …\])?|\ufffd+")
_NOTE = "bytes cut …]"
_BEGINNING = 64
_END = "\0"
_BITS = 4096


class Redactor:
    """Knows the secrets of one execution and nothing of where they came from."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._short: set[str] = set()
        self._forms: list[str] = []
        self._joined = ""
        self._beginnings: re.Pattern[str] | None = None
        self._matchers: list[Matcher] = []
        if secrets:
            self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Mask these, too, from now on; what is blank hides nothing."""
        texts = {text for secret in secrets for text in (secret, secret.strip())}
        new = {text for text in texts if text.strip()} - self._known
        self._known |= new
        self._short |= {text for text in new if len(text) < LONG}
        found = [text for text in sorted(new) if len(text) >= LONG]
        if not found:
            return
        forms = [form for text in found for form in plain_forms(text)]
        forms = [form for form in forms if _END not in form]
        self._forms += forms
        self._joined += _END.join([*forms, ""])
        self._beginnings = None
        # Patterns of the same size become one of twice the size, so that learning a
        # thousand secrets one by one compiles each of them ten times, not a thousand.
        while self._matchers and len(self._matchers[-1].secrets) <= len(found):
            found += self._matchers.pop().secrets
        self._matchers.append(Matcher(found))

    def __bool__(self) -> bool:
        return bool(self._known)

    def data(self, value: JSON, *, short: bool = True) -> JSON:
        """The value without secrets; the very same one if it has none.

        ``short`` secrets hide texts that are equal to them. Keys are masked, too.
        """
        return self._walk(value, short, self._text) if self._known else value

    def report(self, value: JSON) -> JSON:
        """As ``data``, of what tells of an error: it may quote and cut a secret."""
        return self._walk(value, True, self._message) if self._known else value

    def _text(self, text: str) -> str:
        masked = self._long(text)
        return self._mend(masked, ends=False) if _NOTE in masked else masked

    def _message(self, text: str) -> str:
        text = self._long(text)
        if not self._forms or len(text) < _TORN:
            return text
        text = self._quoted(text)
        ends = len(text) >= _CUT_FROM
        return self._mend(text, ends=ends) if ends or _CUT.search(text) else text

    def _walk(self, value: JSON, short: bool, mask: Callable[[str], str]) -> JSON:
        if isinstance(value, str):
            return MASK if short and value in self._short else mask(value)
        if isinstance(value, dict):
            return self._mapping(value, short, mask)
        if isinstance(value, list | tuple):
            items = [self._walk(item, short, mask) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else items
        if isinstance(value, int) and value.bit_length() < _BITS:
            text = str(value)
            return MASK if len(text) >= LONG and text in self._known else value
        return value

    def _mapping(
        self, value: dict[str, JSON], short: bool, mask: Callable[[str], str]
    ) -> dict[str, JSON]:
        masked: dict[str, JSON] = {}
        same = True
        for key, item in value.items():
            name = self._walk(key, short, mask)
            if name is not key and name in masked:
                name = f"{name} ({len(masked)})"  # two secrets are two keys
            masked[name] = self._walk(item, short, mask)
            same = same and name is key and masked[name] is item
        return value if same else masked

    def _long(self, text: str) -> str:
        if len(text) < LONG:
            return text
        for matcher in self._matchers:
            text = matcher.mask(text)
        return text

    # -- what is left of a secret that was cut -----------------------------------

    def _quoted(self, text: str) -> str:
        """Beginnings of secrets, anywhere: a message quotes a value and cuts it."""
        if self._beginnings is None:
            long = (form for form in self._forms if len(form) > _SHOWN)
            self._beginnings = _pattern({form[:_SHOWN] for form in long})
        found = self._beginnings.search(text)
        while found is not None:
            start, begin = found.start(), found[0]
            alike = [
                _common(text[start:], self._joined[at : self._joined.find(_END, at)])
                for at in _places(self._joined, begin)
            ]
            text = text[:start] + MASK + text[start + max(alike) :]
            found = self._beginnings.search(text, start + len(MASK))
        return text

    def _mend(self, text: str, *, ends: bool) -> str:
        """After a cut, mask the rest of a secret; before one, its beginning."""
        pieces, marks = _CUT.split(text), _CUT.findall(text)
        last = len(pieces) - 1
        for number, piece in enumerate(pieces):
            inner = piece.strip()
            left = piece[: len(piece) - len(piece.lstrip())]
            right = piece[len(left) + len(inner) :]
            if ends or number > 0:
                inner = self._without_rest(inner)
            if ends or number < last:
                inner = self._without_beginning(inner)
            pieces[number] = left + inner + right
        return "".join(map("".join, zip(pieces, [*marks, ""], strict=True)))

    def _without_rest(self, piece: str) -> str:
        best, joined = 0, self._joined
        for at in _places(joined, piece[:_TORN]) if len(piece) >= _TORN else ():
            rest = joined[at : joined.find(_END, at)]
            if len(rest) > best and piece.startswith(rest):
                best = len(rest)
        return MASK + piece[best:] if best else piece

    def _without_beginning(self, piece: str) -> str:
        best, joined = 0, self._joined
        for at in _places(joined, piece[-_TORN:]) if len(piece) >= _TORN else ():
            begin = joined[joined.rfind(_END, 0, at) + 1 : at + _TORN]
            if len(begin) > best and piece.endswith(begin):
                best = len(begin)
        return piece[:-best] + MASK if best else piece


class Matcher:
    """One pattern for many secrets: how each begins, for a secret may be a megabyte."""

    def __init__(self, secrets: list[str]) -> None:
        self.secrets = secrets
        self._forms: dict[str, list[str]] = {}
        forms = {form for secret in secrets for form in disguises(secret)}
        for form in sorted(forms, key=lambda each: (-len(each), each)):
            if len(form) >= LONG:
                self._forms.setdefault(form[:2], []).append(form)
        known = [form for forms in self._forms.values() for form in forms]
        self._pattern = _pattern({form[:_BEGINNING] for form in known})

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


def _pattern(texts: Iterable[str]) -> re.Pattern[str]:
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


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    for length, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return length
    return min(len(one), len(other))
