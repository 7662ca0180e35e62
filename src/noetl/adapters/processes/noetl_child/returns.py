"""Code with a ``return`` outside of any function: all of it becomes one.

Lines keep their numbers, and names that the code sets stay global, as they would be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

BODY = "__noetl_body__"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def wrapped(source: str, file: str) -> ast.Module:
    """Raises ``SyntaxError`` for what is wrong by itself."""
    tree = ast.parse(source, file)
    names = sorted(_set_in(tree.body))
    body: list[ast.stmt] = [ast.Global(names)] if names else []
    body += [_plain(statement) for statement in tree.body]
    nothing = ast.arguments([], [], None, [], [], None, [])
    function = ast.FunctionDef(BODY, nothing, body, [])
    if "type_params" in ast.FunctionDef._fields:
        function.type_params = []  # type: ignore[attr-defined,unused-ignore]
    module = ast.Module([function], [])
    return ast.fix_missing_locations(module)


def _plain(statement: ast.stmt) -> ast.stmt:
    """A global name cannot be annotated."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        value = statement.value
        if value is None:
            return ast.copy_location(ast.Pass(), statement)
        return ast.copy_location(ast.Assign([statement.target], value), statement)
    return statement


def _set_in(body: Iterable[ast.AST]) -> set[str]:
    names: set[str] = set()
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, _FUNCTIONS):
            names.add(node.name)
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            names |= {node.name} if node.name else set()
        elif isinstance(node, _INNER):
            continue
        stack.extend(ast.iter_child_nodes(node))
    return names
