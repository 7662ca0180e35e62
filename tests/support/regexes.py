"""Finds the regular expressions of the sources, and texts that are bad for them."""

from __future__ import annotations

import ast
import builtins
import importlib
import itertools
import re
import signal
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import noetl

SOURCES = Path(noetl.__file__).parent
FUNCTIONS = frozenset(
    {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall"}
    | {"finditer"}
)
DYNAMIC = "(made at run time)"
LENGTH = 50_000
_SUFFIXES = ("", "!", "\n", "\x00", " \n!", "é")
_MOST = 40
"""Texts that are tried of one expression at most."""


class Found(NamedTuple):
    """``uses`` are the methods by which it is used."""

    place: str
    pattern: str
    flags: int
    uses: frozenset[str]


class _Names(dict[str, Any]):
    """What an expression reads; a name that only a call knows is some text."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, "name")


@lru_cache(maxsize=1)
def find() -> list[Found]:
    """All of them, in the order of their places."""
    trees = {path: ast.parse(path.read_text()) for path in SOURCES.rglob("*.py")}
    everywhere: dict[str, set[str]] = {}
    for tree in trees.values():
        for name, used in _uses(tree).items():
            if not name.startswith("_"):
                everywhere.setdefault(name, set()).update(used)
    return sorted(
        each
        for path, tree in trees.items()
        for each in _find_in(path, tree, everywhere | _uses(tree))
    )


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """The methods of each name that are used; of a public name by any module."""
    uses: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
            name = getattr(node.value, "id", getattr(node.value, "attr", ""))
            uses.setdefault(name, set()).add(node.attr)
    return uses


def _find_in(
    path: Path, tree: ast.Module, uses: Mapping[str, set[str]]
) -> Iterator[Found]:
    names: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.value] = node.targets[0].id
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        source, method = _source_of(node)
        if source is None:
            continue
        methods = {method}
        if method == "compile":
            known = uses.get(names.get(node, "")) or set().union(*_uses(tree).values())
            methods = known - {"compile"} or {"search"}
        space = _namespace(path)
        place = f"{path.relative_to(SOURCES)}:{node.lineno}"
        try:
            pattern = _evaluate(source, space)
        except Exception:
            pattern = None
        if pattern is None or pattern == "name":  # made of what only a call knows
            yield Found(place, DYNAMIC, 0, frozenset())
            continue
        given = [each.value for each in node.keywords if each.arg == "flags"]
        given += node.args[1:] if method == "compile" else filter(_is_flag, node.args)
        flags = _evaluate(given[0], space) if given else 0
        if isinstance(pattern, bytes):
            pattern = pattern.decode("latin-1")
        yield Found(place, str(pattern), int(flags), frozenset(methods))


def _source_of(node: ast.Call) -> tuple[ast.expr | None, str]:
    function = node.func
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in FUNCTIONS
        and node.args
    ):
        return node.args[0], function.attr
    for keyword in node.keywords:
        if (
            keyword.arg == "pattern"
            and getattr(function, "id", getattr(function, "attr", "")) == "Meta"
        ):
            return keyword.value, "search"
    return None, ""


def _is_flag(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "re"


def _namespace(path: Path) -> dict[str, Any]:
    """The names of the module, if it can be imported here."""
    parts = path.relative_to(SOURCES.parent).with_suffix("").parts
    if parts[-1] == "__main__":
        return {}
    name = ".".join(parts).removesuffix(".__init__")
    try:
        return vars(importlib.import_module(name))
    except ImportError:  # an extra that is not installed, or code of another process
        return {"re": re}


def _evaluate(node: ast.expr, space: dict[str, Any]) -> Any:
    code = compile(ast.Expression(node), "<pattern>", "eval")
    return eval(code, {}, _Names(space, re=re))


# -- texts that are bad for one --------------------------------------------------


def attacks(pattern: str, flags: int) -> Iterator[str]:
    """Texts that begin well, go on with what can be matched in several ways, and end
    badly."""
    tree = parser.parse(pattern, flags)
    seen = set()
    for prefix, pump in itertools.islice(_pumps(tree, ""), _MOST):
        for end in _SUFFIXES:
            if pump and (prefix, pump, end) not in seen:
                seen.add((prefix, pump, end))
                yield prefix + pump * (LENGTH // len(pump)) + end
        # The start again and again: a search begins at each of them.
        if prefix and (prefix + pump, "", "") not in seen:
            seen.add((prefix + pump, "", ""))
            yield (prefix + pump) * (LENGTH // len(prefix + pump)) + "!"
            yield prefix * (LENGTH // len(prefix)) + "!"


def _pumps(tree: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """What leads to each repetition, and what it repeats."""
    for position, (code, argument) in enumerate(tree):
        before = prefix + "".join(_sample(tree[:position]))
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, most, body = argument
            if most > 8:
                samples = list(itertools.islice(_samples(body), 4))
                yield from ((before, each) for each in samples)
                if len(samples) > 1:
                    yield before, "".join(samples)
            yield from _pumps(body, before)
        elif code is codes.SUBPATTERN:
            yield from _pumps(argument[3], before)
        elif code is codes.ATOMIC_GROUP:
            yield from _pumps(argument, before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _pumps(branch, before)


def _samples(tree: Any) -> Iterator[str]:
    """Some texts that it matches: one for each of its branches."""
    alternatives = [argument[1] for code, argument in tree if code is codes.BRANCH]
    if len(tree) == 1 and alternatives:
        for branch in alternatives[0]:
            yield from _samples(branch)
        return
    if len(tree) == 1 and tree[0][0] is codes.SUBPATTERN:
        yield from _samples(tree[0][1][3])
        return
    yield _sample(tree)


def _sample(tree: Any) -> str:
    return "".join(_text(code, argument) for code, argument in tree)


def _text(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return "a" if argument != ord("a") else "b"
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _member(argument)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, body = argument
        return _sample(body) * max(least, min(1, most))
    if code is codes.SUBPATTERN:
        return _sample(argument[3])
    if code is codes.ATOMIC_GROUP:
        return _sample(argument)
    if code is codes.BRANCH:
        return _sample(argument[1][0])
    return ""  # an anchor, a look-around, a group that was matched before


def _member(items: Any) -> str:
    negated = items[0][0] is codes.NEGATE
    if not negated:
        code, argument = items[0]
        if code is codes.LITERAL:
            return chr(argument)
        if code is codes.RANGE:
            return chr(argument[0])
        categories = {
            codes.CATEGORY_DIGIT: "0",
            codes.CATEGORY_SPACE: " ",
            codes.CATEGORY_WORD: "a",
        }
        return categories.get(argument, "a")
    for character in "a0 .,/-:\"'!\n":
        if not any(_holds(item, character) for item in items[1:]):
            return character
    return "é"


def _holds(item: Any, character: str) -> bool:
    code, argument = item
    if code is codes.LITERAL:
        return bool(ord(character) == argument)
    if code is codes.RANGE:
        return bool(argument[0] <= ord(character) <= argument[1])
    tests = {
        codes.CATEGORY_DIGIT: str.isdigit,
        codes.CATEGORY_SPACE: str.isspace,
        codes.CATEGORY_WORD: str.isalnum,
    }
    return argument in tests and tests[argument](character)


# -- how long they take ------------------------------------------------------------


class TooLong(Exception):
    pass


def measure(found: Found, text: str, limit: float) -> float:
    """Seconds of the processor that its uses take at most; ``limit`` if longer."""
    pattern = re.compile(found.pattern, found.flags)
    worst = 0.0

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        for use in found.uses & FUNCTIONS - {"compile"}:
            began = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, limit)
            try:
                if use in ("sub", "subn"):
                    pattern.sub("", text)
                elif use == "finditer":
                    for _ in pattern.finditer(text):
                        pass
                else:
                    getattr(pattern, use)(text)
            except TooLong:
                return limit
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            worst = max(worst, time.process_time() - began)
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return worst
