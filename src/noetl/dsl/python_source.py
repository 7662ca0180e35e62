"""Static checks of Python code; the code is never run."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


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
    if word not in code:
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
