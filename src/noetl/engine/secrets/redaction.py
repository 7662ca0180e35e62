"""Masking: texts that equal or contain a secret become ``***`` (S-41)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from noetl.engine.secrets.encodings import (
    UnescapedText,
    disguises,
    plain_forms,
    undo,
    written,
)
from noetl.types import JSON

MASK = "***"
MIN_LONG = 8
"""Minimum length of a secret that is searched for inside longer text."""

_BEGINNING = 64


class Matcher:
    """A pattern for many secrets. It holds their beginnings: a secret may be a
    megabyte."""

    def __init__(
        self, secrets: list[str], disguise: Callable[[str], set[str]] = disguises
    ) -> None:
        self.secrets = secrets
        self._forms: dict[str, list[str]] = {}
        forms = {form for secret in secrets for form in disguise(secret)}
        for form in sorted(forms, key=lambda each: (-len(each), each)):
            if len(form) >= MIN_LONG:
                self._forms.setdefault(form[:2], []).append(form)
        known = [form for forms in self._forms.values() for form in forms]
        self._pattern = pattern_of({form[:_BEGINNING] for form in known})

    def mask(self, text: str) -> str:
        """Return the text without secrets. Each pass makes it shorter, so the loop
        ends."""
        while (places := self._places(text)) is not None:
            parts: list[str] = []
            end = 0
            for start, stop in places:
                parts += (text[end:start], MASK)
                end = stop
            text = "".join(parts) + text[end:]
        return text

    def _places(self, text: str) -> list[tuple[int, int]] | None:
        """Return the places of secrets, plain or escaped; adjacent ones are merged."""
        found = list(self._spans(text))
        plain = undo(text)
        if plain != text and next(self._spans(plain), None) is not None:
            undone = UnescapedText(text)
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
        """Yield the spans of secrets, overlapping ones included."""
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
    """Add a matcher and merge matchers of the same size, so that learning a thousand
    secrets one by one compiles each of them ten times, not a thousand."""
    while matchers and len(matchers[-1].secrets) <= len(found):
        found = found + matchers.pop().secrets
    matchers.append(Matcher(found, disguise))


def pattern_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern for all texts, branching by their first two characters."""
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


MIN_LINE = 16
"""Minimum length of a line of a secret that is masked on its own."""

_MAX_SPLIT = 32 * 1024  # characters of the longest secret whose lines are learned
_MIN_FRAGMENT = 4  # minimum characters of a secret's end, where a text was cut
_MIN_CUT = 200  # characters of a text that may be cut without a mark
_MIN_PREFIX = 12  # minimum characters of a secret's beginning in a message
_CUT = re.compile(r"\[?…(?: \d+ bytes cut …\])?|\ufffd+")
_NOTE = "bytes cut …]"
_END = "\0"
_BITS = 4096


class Redactor:
    """A mask for the secrets of one execution."""

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
        """Add secrets to mask; blank ones are ignored."""
        texts = {text for secret in secrets for text in (secret, secret.strip())}
        new = {text for text in texts if text.strip()} - self._known
        self._known |= new
        self._short |= {text for text in new if len(text) < MIN_LONG}
        found = [text for text in sorted(new) if len(text) >= MIN_LONG]
        if not found:
            return
        self._note_forms(form for text in found for form in plain_forms(text))
        add_matcher(self._matchers, found, disguises)
        self._learn_lines(found)

    def _learn_lines(self, texts: Iterable[str]) -> None:
        """Learn the lines of a secret: a key of several lines is often read line by
        line."""
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

    def data(self, value: JSON, *, short: bool = True) -> JSON:
        """Return the value without secrets; the same object if it has none.

        ``short`` secrets mask texts that are equal to them. Keys are masked as well.
        """
        return self._walk(value, short, self._text) if self._known else value

    def report(self, value: JSON) -> JSON:
        """Mask as ``data`` does, for an error: it may quote a secret and cut it."""
        return self._walk(value, True, self._message) if self._known else value

    def printed(self, text: str) -> str:
        """Mask lines that a task has printed. A line is masked as a whole if it equals
        a short secret; a secret may also extend over several lines."""
        text = self._text(text)
        if self._short and any(short in text for short in self._short):
            lines = text.split("\n")
            text = "\n".join(
                MASK if line.strip() in self._short else line for line in lines
            )
        return text

    def _text(self, text: str) -> str:
        masked = self._long(text)
        return self._mend(masked, ends=False) if _NOTE in masked else masked

    def _message(self, text: str) -> str:
        text = self._long(text)
        if not self._forms or len(text) < _MIN_FRAGMENT:
            return text
        text = self._quoted(text)
        ends = len(text) >= _MIN_CUT
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
            return MASK if len(text) >= MIN_LONG and text in self._known else value
        return value

    def _mapping(
        self, value: dict[str, JSON], short: bool, mask: Callable[[str], str]
    ) -> dict[str, JSON]:
        masked: dict[str, JSON] = {}
        same = True
        for key, item in value.items():
            name = self._walk(key, short, mask)
            if name is not key and name in masked:
                name = f"{name} ({len(masked)})"  # two secrets stay two keys
            masked[name] = self._walk(item, short, mask)
            same = same and name is key and masked[name] is item
        return value if same else masked

    def _long(self, text: str) -> str:
        if len(text) < MIN_LONG:
            return text
        for matcher in (*self._matchers, *self._line_matchers):
            text = matcher.mask(text)
        return text

    # -- remains of a secret that was cut --------------------------------------

    def _quoted(self, text: str) -> str:
        """Mask beginnings of secrets anywhere: a message quotes a value and cuts it."""
        if self._beginnings is None:
            self._ordered = sorted(
                form for form in self._forms if len(form) > _MIN_PREFIX
            )
            self._longest = max(map(len, self._ordered), default=0)
            self._beginnings = pattern_of(
                {form[:_MIN_PREFIX] for form in self._ordered}
            )
        found = self._beginnings.search(text)
        while found is not None:
            start = found.start()
            rest = text[start : start + self._longest]
            # The form with the longest common prefix is a neighbour in sorted order.
            at = bisect_left(self._ordered, rest)
            near = self._ordered[max(0, at - 1) : at + 1]
            alike = max(_common(rest, form) for form in near)
            text = text[:start] + MASK + text[start + alike :]
            found = self._beginnings.search(text, start + len(MASK))
        return text

    def _mend(self, text: str, *, ends: bool) -> str:
        """Mask the rest of a secret after a cut, or its beginning before one."""
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
        for at in (
            _places(joined, piece[:_MIN_FRAGMENT])
            if len(piece) >= _MIN_FRAGMENT
            else ()
        ):
            rest = joined[at : joined.find(_END, at)]
            if len(rest) > best and piece.startswith(rest):
                best = len(rest)
        return MASK + piece[best:] if best else piece

    def _without_beginning(self, piece: str) -> str:
        best, joined = 0, self._joined
        for at in (
            _places(joined, piece[-_MIN_FRAGMENT:])
            if len(piece) >= _MIN_FRAGMENT
            else ()
        ):
            begin = joined[joined.rfind(_END, 0, at) + 1 : at + _MIN_FRAGMENT]
            if len(begin) > best and piece.endswith(begin):
                best = len(begin)
        return piece[:-best] + MASK if best else piece


def _lines(text: str) -> Iterator[str]:
    """Yield the long lines of a text that has several, stripped."""
    if len(text) <= _MAX_SPLIT and len(parts := text.splitlines()) > 1:
        yield from (line for line in map(str.strip, parts) if len(line) >= MIN_LINE)


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    for length, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return length
    return min(len(one), len(other))
