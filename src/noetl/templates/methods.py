"""Methods of mappings, lists and text, and the function ``range``."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import errors, limits
from noetl.templates.evaluation import Evaluation
from noetl.templates.registry import GLOBALS, METHODS
from noetl.templates.values import weigh
from noetl.types import JSON

_MAPPING = METHODS["mapping"]
_LIST = METHODS["list"]


@_MAPPING.add("get", example="{{ {'a': 1}.get('b', 0) }}")
def get(
    run: Evaluation, mapping: dict[str, JSON], key: JSON, default: JSON = None
) -> JSON:
    """The value of the key, or the default."""
    return mapping.get(key, default)


@_MAPPING.add("items", example="{{ {'a': 1}.items() }}")
def items(run: Evaluation, mapping: dict[str, JSON]) -> list[JSON]:
    """A list of [key, value]; also where the mapping has a key named items."""
    run.charge(2 * len(mapping))
    return [[key, value] for key, value in mapping.items()]


@_MAPPING.add("keys", example="{{ {'a': 1}.keys() }}")
def keys(run: Evaluation, mapping: dict[str, JSON]) -> list[JSON]:
    """A list of the keys."""
    run.charge(len(mapping))
    return list(mapping)


@_MAPPING.add("values", example="{{ {'a': 1}.values() }}")
def values(run: Evaluation, mapping: dict[str, JSON]) -> list[JSON]:
    """A list of the values."""
    run.charge(len(mapping))
    return list(mapping.values())


@_LIST.add("index", example="{{ ['a', 'b'].index('b') }}")
def list_index(
    run: Evaluation,
    items: list[JSON],
    value: JSON,
    start: int = 0,
    end: int | None = None,
) -> int:
    """The position of the first such value; an error if there is none."""
    weigh(run, items)
    try:
        return items.index(value, start, len(items) if end is None else end)
    except ValueError:
        raise errors.wrong("index: the list does not contain the value") from None


@_LIST.add("count", example="{{ [1, 2, 1].count(1) }}")
def list_count(run: Evaluation, items: list[JSON], value: JSON) -> int:
    """The number of occurrences of the value."""
    weigh(run, items)
    return items.count(value)


@GLOBALS.add("range", example="{{ range(1, 7, 2) }}")
def numbers(run: Evaluation, *bounds: int) -> list[int]:
    """Whole numbers as a list: range(stop), range(start, stop), with a step."""
    found = make_range(bounds, limits.RANGE)
    run.charge(len(found))
    return list(found)


def make_range(bounds: tuple[JSON, ...], most: int) -> range:
    """Return a range of at most ``most`` numbers."""
    if not 1 <= len(bounds) <= 3 or any(type(b) is not int for b in bounds):
        raise errors.wrong(
            "range takes one to three whole numbers: range(stop), "
            "range(start, stop), range(start, stop, step)"
        )
    if len(bounds) == 3 and bounds[2] == 0:
        raise errors.wrong("range: the step is zero")
    found = range(*bounds)
    # len() fails above a machine word; reading the last index does not.
    if found and (found[-1] - found[0]) // found.step >= most:
        raise errors.too_much(f"range gives more than {most:,} numbers")
    return found


# -- methods of text --------------------------------------------------------------


_TEXT = METHODS["text"]

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def _plain_case(name: str, summary: str, example: str) -> None:
    """Declare a method of text without arguments that returns text."""
    method: Callable[[str], str] = getattr(str, name)

    def change(run: Evaluation, text: str) -> str:
        run.size(len(text))
        return run.made(method(text))

    change.__doc__ = summary
    _TEXT.add(name, example=example)(change)


def _question(name: str, summary: str, example: str) -> None:
    """Declare a method of text without arguments that returns true or false."""
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
    """Return the characters to trim, and charge for the search."""
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
    affordable = run.steps + 1  # one more part than the budget allows is rejected below
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
        raise errors.wrong("join needs a list of texts; the join filter takes any list")
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
    """The position of the part, or -1."""
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
    """The position of the part; an error if it is not there."""
    place = find(run, text, part, start, end)
    if place < 0:
        raise errors.wrong("index: the text does not contain the part; find gives -1")
    return place


@_TEXT.add("count", example="{{ 'banana'.count('a') }}")
def text_count(
    run: Evaluation,
    text: str,
    part: str,
    start: int | None = None,
    end: int | None = None,
) -> int:
    """The number of occurrences of the part."""
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
