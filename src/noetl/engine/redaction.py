"""Masking: whatever is equal to a secret, or contains one, is ``***`` (S-41)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from noetl.engine.disguises import disguises, plain_forms, written
from noetl.engine.matching import LONG, MASK, Matcher, add_matcher, pattern_of
from noetl.types import JSON

LINE = 16
"""Characters from which a line of a secret is a secret by itself."""

_TAKEN_APART = 32 * 1024  # characters of the longest secret whose lines are learned
_TORN = 4  # of a secret's end, where a text was cut: fewer tell nothing
_CUT_FROM = 200  # characters: who cuts a text leaves so many of it, or says so
_SHOWN = 12  # of a secret's beginning, quoted in a message and cut
_CUT = re.compile(r"\[?…(?: \d+ bytes cut …\])?|\ufffd+")
_NOTE = "bytes cut …]"
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
        self._ordered: list[str] = []
        self._longest = 0
        self._matchers: list[Matcher] = []
        self._lines: set[str] = set()
        self._line_matchers: list[Matcher] = []
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
        self._note_forms(form for text in found for form in plain_forms(text))
        add_matcher(self._matchers, found, disguises)
        self._learn_lines(found)

    def _learn_lines(self, texts: Iterable[str]) -> None:
        """A key of several lines is often read, and shown, line by line."""
        lines = {line for text in texts for line in _lines(text)} - self._lines
        self._lines |= lines
        if lines:
            self._note_forms(sorted(lines))
            add_matcher(self._line_matchers, sorted(lines), written)

    def _note_forms(self, texts: Iterable[str]) -> None:
        forms = [form for form in texts if _END not in form]
        self._forms += forms
        self._joined += _END.join([*forms, ""])
        self._beginnings = None

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
        for matcher in (*self._matchers, *self._line_matchers):
            text = matcher.mask(text)
        return text

    # -- what is left of a secret that was cut -----------------------------------

    def _quoted(self, text: str) -> str:
        """Beginnings of secrets, anywhere: a message quotes a value and cuts it."""
        if self._beginnings is None:
            self._ordered = sorted(form for form in self._forms if len(form) > _SHOWN)
            self._longest = max(map(len, self._ordered), default=0)
            self._beginnings = pattern_of({form[:_SHOWN] for form in self._ordered})
        found = self._beginnings.search(text)
        while found is not None:
            start = found.start()
            rest = text[start : start + self._longest]
            # What begins most alike is a neighbour in the order of the alphabet.
            at = bisect_left(self._ordered, rest)
            near = self._ordered[max(0, at - 1) : at + 1]
            alike = max(_common(rest, form) for form in near)
            text = text[:start] + MASK + text[start + alike :]
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


def _lines(text: str) -> Iterator[str]:
    """The long lines of a text that has several, without the space around them."""
    if len(text) <= _TAKEN_APART and len(parts := text.splitlines()) > 1:
        yield from (line for line in map(str.strip, parts) if len(line) >= LINE)


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
