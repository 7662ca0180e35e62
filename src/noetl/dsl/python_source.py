"""Static checks of Python code; the code is never run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

import msgspec

from noetl.dsl.node import Location

_MAX_PARSED = 64 * 1024  # of a megabyte, the syntax tree needs half a gigabyte
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class CodeError(msgspec.Struct, frozen=True):
    """Refusal of the compiler, at a position in the code if it is known."""

    message: str
    line: int = 0
    column: int = 0


class MainSignature(msgspec.Struct, frozen=True):
    """Parameters of ``main``: ``required`` ones with line and column, and all."""

    required: tuple[tuple[str, int, int], ...]
    names: frozenset[str]
    any: bool


class CodeFacts(msgspec.Struct, frozen=True):
    """What the compiler knows about a code.

    ``main`` is None if it is not certain which function is called. ``gives`` tells
    whether the code may define ``main`` or ``result``; ``returns`` is the place of a
    ``return`` outside of functions; ``unbound`` are names that are read and not set.
    """

    error: CodeError | None = None
    main: MainSignature | None = None
    gives: bool = True
    returns: tuple[int, int] | None = None
    unbound: frozenset[str] = frozenset()


InspectCode = Callable[[Sequence[str]], Sequence[CodeFacts | None]]
"""Compiles codes without running them; None where a limit was exceeded."""


class CodeBlock(msgspec.Struct, frozen=True):
    """Code of a task, with the arguments that the task gives."""

    at: Location
    args: Location | None
    facts: CodeFacts | None = None
    lines: Sequence[str] = ()  # of the file
    inspected: bool = False

    @property
    def text(self) -> str:
        text: str = self.at.node.value
        return text

    def given(self) -> frozenset[str] | None:
        """Return the names of the arguments; None if a template decides."""
        if self.args is None:
            return frozenset()
        if not self.args.node.is_mapping:
            return None
        names = frozenset(self.args.child_keys())
        return None if any("{" in name for name in names) else names

    def place(self, line: int, column: int) -> Location:
        """Return the place of a line and column of the code in the file, or else the
        place of the code."""
        mark = position_in_file(self.at, self.lines, line, column)
        return self.at if mark is None else self.at.marked(*mark)


def position_in_file(
    at: Location, lines: Sequence[str], line: int, column: int
) -> tuple[int, int] | None:
    """Return line and column in the file of a position in the text at ``at``.

    None if the lines of the text are not lines of the file, as in folded or escaped
    text.
    """
    text = at.node.value.split("\n")
    if not 1 <= line <= len(text):
        return None
    start = (at.node.line, at.node.column)
    if len(text) == 1 and (found := _inline(start, text[0], lines)) is not None:
        return start[0], found + column
    return _in_block(start[0], text[:line], lines, column)


def _inline(start: tuple[int, int], text: str, lines: Sequence[str]) -> int | None:
    """Return the offset of a text in its line, where it may follow a quote."""
    line, column = start
    found = lines[line - 1].find(text, column - 1) if 0 < line <= len(lines) else -1
    return found if found - column + 1 in (0, 1) else None


def _in_block(
    first: int, text: list[str], lines: Sequence[str], column: int
) -> tuple[int, int] | None:
    """Return the position in the last line of ``text``, which stands below ``first``;
    None if a line of the file is not the line of the text."""
    margin = 0
    for number, own in enumerate(text, first):
        shown = lines[number] if number < len(lines) else ""
        margin = len(shown) - len(own) if own else 0
        if own and (margin < 0 or not shown.endswith(own) or shown[:margin].strip()):
            return None
    return first + len(text), margin + column


def returns_at_top(code: str) -> bool:
    """Return whether a ``return`` stands outside every function; false without code."""
    tree = parse_with(code, "return")
    return tree is not None and _returns(tree.body)


def needs_name(code: str, name: str) -> bool:
    """Return whether ``main`` has the parameter ``name``, or the code reads it
    unassigned."""
    tree = parse_with(code, name)
    if tree is None:
        return False
    read = bound = False
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "main" and name in _required(node.args):
                return True
        elif isinstance(node, ast.Name) and node.id == name:
            read, bound = True, bound or not isinstance(node.ctx, ast.Load)
        elif isinstance(node, ast.arg):
            bound = bound or node.arg == name
        elif isinstance(node, ast.alias):
            bound = bound or name in (node.asname, node.name)
    return read and not bound


def _required(args: ast.arguments) -> list[str]:
    """Return the parameters without a default."""
    plain = [*args.posonlyargs, *args.args]
    plain = plain[: len(plain) - len(args.defaults)]
    pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    plain += [each for each, default in pairs if default is None]
    return [each.arg for each in plain]


def parse_with(code: str, word: str) -> ast.Module | None:
    """Parse the code, but only if it contains ``word``: most code does not."""
    if word not in code or len(code) > _MAX_PARSED:
        return None
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _returns(body: Iterable[ast.AST]) -> bool:
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))
    return False
