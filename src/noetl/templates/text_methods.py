"""The methods of text."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import faults, limits
from noetl.templates.catalog import METHODS
from noetl.templates.evaluation import Evaluation
from noetl.templates.values import weigh
from noetl.types import JSON

_TEXT = METHODS["text"]

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def _plain_case(name: str, summary: str, example: str) -> None:
    """Declare a method of text that takes nothing and gives text."""
    method: Callable[[str], str] = getattr(str, name)

    def change(run: Evaluation, text: str) -> str:
        run.size(len(text))
        return run.made(method(text))

    change.__doc__ = summary
    _TEXT.add(name, example=example)(change)


def _question(name: str, summary: str, example: str) -> None:
    """Declare a method of text that takes nothing and gives true or false."""
    method: Callable[[str], bool] = getattr(str, name)

    def ask(run: Evaluation, text: str) -> bool:
        run.charge(len(text) // 8)  # character by character
        return method(text)

    ask.__doc__ = summary
    _TEXT.add(name, example=example)(ask)


_plain_case("upper", "In upper case.", "{{ 'ab'.upper() }}")
_plain_case("lower", "In lower case.", "{{ 'AB'.lower() }}")
_plain_case("title", "Each word begins in upper case.", "{{ 'a bc'.title() }}")
_plain_case("capitalize", "First letter upper, rest lower.", "{{ 'aB'.capitalize() }}")
_plain_case("swapcase", "Upper becomes lower and back.", "{{ 'aB'.swapcase() }}")
_plain_case("casefold", "For comparing without case.", "{{ 'Straße'.casefold() }}")
_question("isdigit", "Only digits, and not empty.", "{{ '12'.isdigit() }}")
_question("isalpha", "Only letters, and not empty.", "{{ 'ab'.isalpha() }}")
_question("isalnum", "Only letters and digits.", "{{ 'a1'.isalnum() }}")
_question("isupper", "No lower case letter, and a letter.", "{{ 'AB'.isupper() }}")
_question("islower", "No upper case letter, and a letter.", "{{ 'ab'.islower() }}")


@_TEXT.add("strip", example="{{ ' a '.strip() }}")
def strip(run: Evaluation, text: str, chars: str | None = None) -> str:
    """Without white space, or the given characters, at both ends."""
    return run.made(text.strip(trimmable(run, text, chars)))


def trimmable(run: Evaluation, text: str, chars: str | None) -> str | None:
    """The characters to trim; paid for as each is sought at each place."""
    each = 1 if chars is None else 1 + len(chars) // 4
    run.charge(1 + len(text) * each // limits.CHARS_PER_STEP)
    return chars


@_TEXT.add("lstrip", example="{{ 'xa'.lstrip('x') }}")
def lstrip(run: Evaluation, text: str, chars: str | None = None) -> str:
    """Without white space, or the given characters, at the start."""
    return run.made(text.lstrip(trimmable(run, text, chars)))


@_TEXT.add("rstrip", example="{{ 'a/'.rstrip('/') }}")
def rstrip(run: Evaluation, text: str, chars: str | None = None) -> str:
    """Without white space, or the given characters, at the end."""
    return run.made(text.rstrip(trimmable(run, text, chars)))


@_TEXT.add("removeprefix", example="{{ 's3://b'.removeprefix('s3://') }}")
def removeprefix(run: Evaluation, text: str, prefix: str) -> str:
    """Without the prefix, if it is there."""
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    return run.made(text.removeprefix(prefix))


@_TEXT.add("removesuffix", example="{{ 'a.csv'.removesuffix('.csv') }}")
def removesuffix(run: Evaluation, text: str, suffix: str) -> str:
    """Without the suffix, if it is there."""
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    return run.made(text.removesuffix(suffix))


@_TEXT.add("split", example="{{ 'a,b'.split(',') }}")
def split(
    run: Evaluation, text: str, sep: str | None = None, maxsplit: int = -1
) -> list[str]:
    """The parts between separators, or between white space."""
    return _cut(run, text, text.split, sep, maxsplit)


@_TEXT.add("rsplit", example="{{ 'a.b.c'.rsplit('.', 1) }}")
def rsplit(
    run: Evaluation, text: str, sep: str | None = None, maxsplit: int = -1
) -> list[str]:
    """Like split, counted from the end."""
    return _cut(run, text, text.rsplit, sep, maxsplit)


def _cut(
    run: Evaluation,
    text: str,
    function: Callable[[str | None, int], list[str]],
    sep: str | None,
    maxsplit: int,
) -> list[str]:
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    affordable = run.steps + 1  # one more part than can be paid for is refused below
    parts = function(sep, affordable if maxsplit < 0 else min(maxsplit, affordable))
    run.charge(len(parts))
    return parts


@_TEXT.add("splitlines", example="{{ 'a\\nb'.splitlines() }}")
def splitlines(run: Evaluation, text: str, keepends: bool = False) -> list[str]:
    """The lines of the text."""
    run.charge(1 + len(text) // 8 + sum(map(text.count, _LINE_ENDS)))
    return text.splitlines(keepends)


@_TEXT.add("replace", example="{{ 'a-b'.replace('-', '+') }}")
def replace(run: Evaluation, text: str, old: str, new: str, count: int = -1) -> str:
    """With each occurrence replaced, or the first ``count``."""
    run.charge(1 + 2 * len(text) // limits.CHARS_PER_STEP)
    found = text.count(old)
    times = found if count < 0 else min(found, count)
    run.size(len(text) + times * (len(new) - len(old)))
    return text.replace(old, new, count)


@_TEXT.add("startswith", example="{{ 'ab'.startswith('a') }}")
def startswith(
    run: Evaluation,
    text: str,
    prefix: JSON,
    start: int | None = None,
    end: int | None = None,
) -> bool:
    """Whether the text begins with the prefix, or one of a list of them."""
    return text.startswith(_affixes(run, prefix), start, end)


@_TEXT.add("endswith", example="{{ 'a.csv'.endswith(['.csv', '.tsv']) }}")
def endswith(
    run: Evaluation,
    text: str,
    suffix: JSON,
    start: int | None = None,
    end: int | None = None,
) -> bool:
    """Whether the text ends with the suffix, or one of a list of them."""
    return text.endswith(_affixes(run, suffix), start, end)


def _affixes(run: Evaluation, value: JSON) -> JSON:
    if isinstance(value, list):
        weigh(run, value)
        return tuple(value)
    return value


@_TEXT.add("join", example="{{ ', '.join(['a', 'b']) }}")
def join(run: Evaluation, text: str, items: JSON) -> str:
    """The texts of a list with this text between them."""
    if not isinstance(items, list) or not all(isinstance(i, str) for i in items):
        raise faults.wrong("join needs a list of texts; the join filter takes any list")
    run.charge(len(items))
    run.size(sum(map(len, items)) + len(text) * len(items))
    return text.join(items)


@_TEXT.add("find", example="{{ 'abc'.find('c') }}")
def find(
    run: Evaluation,
    text: str,
    part: str,
    start: int | None = None,
    end: int | None = None,
) -> int:
    """Where the part begins, or -1."""
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    return text.find(part, start, end)


@_TEXT.add("index", example="{{ 'abc'.index('b') }}")
def text_index(
    run: Evaluation,
    text: str,
    part: str,
    start: int | None = None,
    end: int | None = None,
) -> int:
    """Where the part begins; an error if it is not there."""
    place = find(run, text, part, start, end)
    if place < 0:
        raise faults.wrong("index: the text does not contain that; find gives -1")
    return place


@_TEXT.add("count", example="{{ 'banana'.count('a') }}")
def text_count(
    run: Evaluation,
    text: str,
    part: str,
    start: int | None = None,
    end: int | None = None,
) -> int:
    """How often the part occurs."""
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    return text.count(part, start, end)


@_TEXT.add("partition", example="{{ 'k=v'.partition('=') }}")
def partition(run: Evaluation, text: str, sep: str) -> list[str]:
    """Before the first separator, the separator, and after it."""
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    return list(text.partition(sep))


@_TEXT.add("rpartition", example="{{ 'a/b/c'.rpartition('/') }}")
def rpartition(run: Evaluation, text: str, sep: str) -> list[str]:
    """Before the last separator, the separator, and after it."""
    run.charge(1 + len(text) // limits.CHARS_PER_STEP)
    return list(text.rpartition(sep))
