"""Filters that change text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from noetl.templates import errors, limits, methods
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import FILTERS
from noetl.templates.values import text_of
from noetl.types import JSON

_WORD_STARTS = re.compile(r"([-\s({\[<]+)")
_WORD = re.compile(r"\w+")
_FIELD = re.compile(r"%(?:\((\w+)\))?([-+ 0#]{0,5})(\d*)(?:\.(\d*))?(.?)", re.S)


@FILTERS.add("upper", example="{{ 'ab' | upper }}")
def upper(run: Evaluation, value: JSON) -> str:
    """In upper case."""
    return run.made(_text(run, value).upper())


@FILTERS.add("lower", example="{{ 'AB' | lower }}")
def lower(run: Evaluation, value: JSON) -> str:
    """In lower case."""
    return run.made(_text(run, value).lower())


@FILTERS.add("capitalize", example="{{ 'aB' | capitalize }}")
def capitalize(run: Evaluation, value: JSON) -> str:
    """First letter upper, the rest lower."""
    return run.made(_text(run, value).capitalize())


@FILTERS.add("title", example="{{ 'load the rows' | title }}")
def title(run: Evaluation, value: JSON) -> str:
    """Each word begins in upper case."""
    text = _text(run, value)
    run.charge(len(text))
    words = _WORD_STARTS.split(text)
    return run.made("".join(w[0].upper() + w[1:].lower() for w in words if w))


@FILTERS.add("trim", example="{{ '  a ' | trim }}")
def trim(run: Evaluation, value: JSON, chars: str | None = None) -> str:
    """Without white space, or the given characters, at both ends."""
    text = text_of(run, value)
    return run.made(text.strip(methods.trimmable(run, text, chars)))


@FILTERS.add("replace", example="{{ 'a-b' | replace('-', '+') }}")
def replace(
    run: Evaluation, value: JSON, old: JSON, new: JSON, count: int | None = None
) -> str:
    """With each occurrence replaced, or the first ``count``."""
    text, before, after = (text_of(run, v) for v in (value, old, new))
    return methods.replace(run, text, before, after, -1 if count is None else count)


@FILTERS.add("split", example="{{ 'a,b' | split(',') }}")
def split(
    run: Evaluation, value: JSON, sep: str | None = None, maxsplit: int = -1
) -> list[str]:
    """The parts between separators, or between white space."""
    return methods.split(run, text_of(run, value), sep, maxsplit)


@FILTERS.add("wordcount", example="{{ 'load the rows' | wordcount }}")
def wordcount(run: Evaluation, value: JSON) -> int:
    """The number of words of the text."""
    text = text_of(run, value)
    run.charge(1 + len(text) // 2)
    return sum(1 for _ in _WORD.finditer(text))


@FILTERS.add("truncate", example="{{ 'foo bar baz' | truncate(9, leeway=0) }}")
def truncate(
    run: Evaluation,
    value: JSON,
    length: int = 255,
    killwords: bool = False,
    end: str = "...",
    leeway: int = 5,
) -> str:
    """Cut after ``length`` characters, at a word unless ``killwords``."""
    text = text_of(run, value)
    if length < len(end) or leeway < 0:
        raise errors.wrong(
            "truncate: the length is at least that of the end, the leeway at least 0"
        )
    if len(text) <= length + leeway:
        return text
    run.size(length)
    kept = text[: length - len(end)]
    return (kept if killwords else kept.rsplit(" ", 1)[0]) + end


@FILTERS.add("indent", example="{{ 'a\\nb' | indent(2) }}")
def indent(
    run: Evaluation,
    value: JSON,
    width: JSON = 4,
    first: bool = False,
    blank: bool = False,
) -> str:
    """With spaces (or the text ``width``) before each line but the first."""
    text = _text(run, value) + "\n"
    each = len(width) if isinstance(width, str) else width
    if not isinstance(each, int):
        raise errors.wrong("indent: the width is a whole number or text")
    lines = methods.splitlines(run, text)
    run.size(len(text) + max(each, 0) * (len(lines) + 1))
    margin = width if isinstance(width, str) else " " * width
    rest = [margin + line if line or blank else line for line in lines[1:]]
    return (margin if first else "") + "\n".join([lines[0], *rest])


@FILTERS.add("format", example="{{ '%s: %.2f' | format('sum', 1.5) }}")
def format_text(run: Evaluation, value: JSON, *args: JSON, **named: JSON) -> str:
    """Values in place of %s %d %f %x, with widths up to 1000."""
    if args and named:
        raise errors.wrong("format: pass values by position or by name, not both")
    pattern = _text(run, value)
    run.charge(len(pattern) // 8)
    fields = _Fields(run, args, named, len(pattern))
    plain = _FIELD.sub(fields.fill, pattern)
    if fields.used < len(args):
        raise errors.wrong("format: there are more values than fields")
    return run.made(plain % tuple(fields.values))


@dataclass
class _Fields:
    """Collects the values of the fields in order and checks the size of the result."""

    run: Evaluation
    args: tuple[JSON, ...]
    named: dict[str, JSON]
    length: int
    used: int = 0
    values: list[JSON] = field(default_factory=list)

    def fill(self, found: re.Match[str]) -> str:
        """Return the field in Python's syntax, by position."""
        name, flags, width, precision, kind = found.groups()
        _check_field(found.group(), width, precision, kind)
        if kind == "%":
            return "%%"
        value = self._next() if name is None else self._named(name)
        value = text_of(self.run, value) if kind == "s" else value
        self.length += int(width or 0) + int(precision or 0) + _digits(value)
        self.run.size(self.length)
        self.values.append(value)
        dot = "" if precision is None else f".{precision}"
        return f"%{flags}{width}{dot}{kind}"

    def _next(self) -> JSON:
        if self.used >= len(self.args):
            raise errors.wrong("format: there are more fields than values")
        self.used += 1
        return self.args[self.used - 1]

    def _named(self, name: str) -> JSON:
        if name not in self.named:
            raise errors.wrong(f"format: there is no value named {name!r}")
        return self.named[name]


def _digits(value: JSON) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return 2 + value.bit_length() // 3
    return 320  # digits of the largest float before the point


def _check_field(text: str, width: str, precision: str | None, kind: str) -> None:
    if kind not in tuple("sdfx%"):
        raise errors.wrong(f"format: {text[:16]!r} is not one of %s %d %f %x")
    for digits in (width, precision or ""):
        if len(digits) > 4 or int(digits or 0) > limits.WIDTH:
            raise errors.too_much(f"format: a field is wider than {limits.WIDTH:,}")


def _text(run: Evaluation, value: JSON) -> str:
    """Return the value as text; raises an error if the result would be too long."""
    text = text_of(run, value)
    run.size(len(text))
    return text
