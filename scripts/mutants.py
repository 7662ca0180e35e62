"""Makes mutants of a module: copies of its source with one small mistake each.

A mutant belongs to a scope: a function, a method, a class or a statement of the module.
Its name, ``engine/ids.py:derive:compare.2``, is the second comparison of that scope
and stays the same while other scopes change. Docstrings, messages, type annotations,
``__all__`` and calls of loggers have no mutants.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

COMPARE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGERS = frozenset({"log", "logger", "LOG", "LOGGER", "logging", "warnings"})
TYPING = frozenset({"cast", "TypeVar", "NewType", "overload"})
TYPES = frozenset({"Annotated", "Callable", "Literal", "dict", "list", "tuple"})
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Undo = Callable[[], None]


class Mutant(NamedTuple):
    """A change of one place; ``apply`` makes it and returns its undoing."""

    name: str
    scope: Scope
    first: int
    last: int
    place: ast.AST
    new: ast.AST | None
    apply: Callable[[], Undo]

    def describe(self) -> str:
        """Return the source before and after, ``new`` stands for all of the place."""
        before = ast.unparse(self.place)
        undo = self.apply()
        after = ast.unparse(self.new or self.place)
        undo()
        pairs = enumerate(zip(before, after, strict=False))
        change = next((place for place, (a, b) in pairs if a != b), 0)
        start = 0 if change < 50 else change - 30
        return f"{_part(before, start)} → {_part(after, start)}"


class Scope(NamedTuple):
    """A function, a class without its methods, or one statement of the module."""

    name: str
    node: ast.stmt
    digest: str

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, FUNCTIONS)


class Source:
    """A parsed module with its mutants. One of them at a time may be applied."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.tree = ast.parse(text)
        self.mutants = list(self._mutants())

    def _mutants(self) -> Iterator[Mutant]:
        for name_of_scope, scope_node in self._scopes():
            numbers: Counter[str] = Counter()
            found = _Sites(scope_node).found
            digest = _digest(scope_node, [site[3] for site in found])
            scope = Scope(name_of_scope, scope_node, digest)
            for place, new, node, kind, apply in found:
                numbers[kind] += 1
                name = f"{self.path}:{scope.name}:{kind}.{numbers[kind]}"
                first = min(node.lineno, place.lineno)
                last = getattr(node, "end_lineno", first)
                yield Mutant(name, scope, first, last, place, new, apply)

    def _scopes(self) -> Iterator[tuple[str, ast.stmt]]:
        seen: Counter[str] = Counter()
        for name, node in _find_scopes(self.tree.body, ""):
            seen[name] += 1
            yield (name if seen[name] == 1 else f"{name}@{seen[name]}"), node


def _find_scopes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, FUNCTIONS):
            if not any("overload" in ast.dump(each) for each in node.decorator_list):
                yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _find_scopes(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.dump(node.test):
                yield from _find_scopes(node.body + node.orelse, prefix)
        elif not prefix and isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
            if name != "__all__":
                yield name, node


def _digest(node: ast.stmt, kinds: list[str]) -> str:
    """Return a hash of the scope, without positions and methods, and of its mutants."""
    if isinstance(node, ast.ClassDef):
        own = [each for each in node.body if not isinstance(each, FUNCTIONS)]
        node = ast.ClassDef(node.name, node.bases, node.keywords, own, [])
    text = f"{ast.dump(node)} {kinds}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _part(text: str, start: int) -> str:
    shown = text[start : start + 90].split("\n")[0]
    return "…" * bool(start) + shown + "…" * (len(text) > start + len(shown))


class _Sites:
    """Collects the places of a scope that mutants change, in their order."""

    def __init__(self, scope: ast.stmt) -> None:
        self.found: list[tuple[Any, Any, Any, str, Callable[[], Undo]]] = []
        self._place: Any = scope
        if isinstance(scope, FUNCTIONS):
            self._defaults(scope.args)
            self._block(scope, "body")
        elif isinstance(scope, ast.ClassDef):
            for each in scope.body:
                if not isinstance(each, (*FUNCTIONS, ast.ClassDef)):
                    self._statement(each)
        else:
            self._statement(scope)

    # statements

    def _block(self, owner: Any, field: str) -> None:
        body = getattr(owner, field, [])
        for index, node in enumerate(body):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # a docstring
            if _is_log(node):
                continue
            self._place = node
            is_last = index == len(body) - 1 and isinstance(owner, FUNCTIONS)
            self._removal(body, index, is_last)
            self._statement(node)

    def _removal(self, body: list[ast.stmt], index: int, is_last: bool) -> None:
        """Remove a statement that has an effect; return nothing; go on."""
        node = body[index]
        match node:
            case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
                return
            case ast.Return(value=ast.Constant(value=None)) | ast.Return(value=None):
                new: ast.stmt = ast.Pass()
                if is_last:
                    return
            case ast.Return(value=ast.Constant()):
                return  # another constant is a mutant of its own
            case ast.Return():
                new = ast.Return(value=ast.Constant(value=None))
            case ast.Break():
                new = ast.Continue()
            case ast.Continue() | ast.Expr() | ast.Delete() | ast.Raise():
                new = ast.Pass()
            case (
                ast.AugAssign()
                | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_])
            ):
                new = ast.Pass()
            case _:
                return
        ast.fix_missing_locations(ast.copy_location(new, node))
        self._add(node, "remove", lambda: _put(body, index, new), new)

    def _statement(self, node: Any) -> None:
        if isinstance(node, FUNCTIONS):
            self._defaults(node.args)
            self._block(node, "body")
            return
        if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
            if isinstance(node, ast.Assert):
                self._condition(node, "test")
            elif isinstance(node, ast.Raise) and node.exc is not None:
                self._expressions(node.exc, messages=True)
            return
        if isinstance(node, ast.If) and all(map(_is_log, [*node.body, *node.orelse])):
            return
        if isinstance(node, ast.If | ast.While):
            self._condition(node, "test")
        for field, value in ast.iter_fields(node):
            if field in {"body", "orelse", "finalbody", "annotation", "type_comment"}:
                continue
            if field == "cases":
                for case in value:
                    self._place = case.pattern
                    self._expressions(case.pattern)
                    if case.guard is not None:
                        self._place = case.guard
                        self._condition(case, "guard")
                        self._expressions(case.guard)
                    self._block(case, "body")
            elif field == "handlers":
                for handler in value:
                    self._block(handler, "body")
            else:
                for each in value if isinstance(value, list) else [value]:
                    self._place = node if not hasattr(node, "body") else each
                    if isinstance(each, ast.AST) and hasattr(self._place, "lineno"):
                        self._expressions(each)
        if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
            new = ARITHMETIC[type(node.op)]()
            self._place = node
            self._add(node, "arithmetic", lambda: _set(node, "op", new))
        for field in ("body", "orelse", "finalbody"):
            self._block(node, field)

    def _defaults(self, arguments: ast.arguments) -> None:
        for each in [*arguments.defaults, *arguments.kw_defaults]:
            if each is not None:
                self._place = each
                self._expressions(each)

    def _condition(self, owner: Any, field: str) -> None:
        """Negate a condition, unless a comparison of it is negated anyway."""
        test = getattr(owner, field)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return
        new = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
        self._place = test
        self._add(test, "negate", lambda: _set(owner, field, new), new)

    # expressions

    def _expressions(self, node: Any, *, messages: bool = False) -> None:
        """Visit an expression and its parts; ``messages`` leaves out its strings."""
        place = self._place
        if isinstance(node, ast.JoinedStr):
            for each in node.values:
                if isinstance(each, ast.FormattedValue):
                    self._expressions(each.value, messages=messages)
            return
        if isinstance(node, ast.Call) and _name(node.func) in TYPING:
            for each in node.args[1:]:
                self._expressions(each, messages=messages)
            return
        if isinstance(node, ast.Subscript) and _name(node.value) in TYPES:
            return
        self._expression(node, messages)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "ctx", "op", "ops"}:
                continue
            for each in value if isinstance(value, list) else [value]:
                self._place = place
                if isinstance(each, ast.arguments):
                    self._defaults(each)
                elif isinstance(each, ast.AST):
                    self._expressions(each, messages=messages)

    def _expression(self, node: Any, messages: bool) -> None:
        match node:
            case ast.Compare():
                for index, each in enumerate(node.ops):
                    for other in COMPARE[type(each)]:
                        new = other()
                        self._add(node, "compare", _putter(node.ops, index, new))
            case ast.BoolOp():
                twin = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                self._add(node, "boolean", lambda: _set(node, "op", twin))
            case ast.UnaryOp(op=ast.Not()):
                self._add(node, "negate", lambda: _become(node, node.operand))
            case ast.BinOp() if type(node.op) in ARITHMETIC:
                if not messages and not _is_type(node):
                    other_op = ARITHMETIC[type(node.op)]()
                    self._add(node, "arithmetic", lambda: _set(node, "op", other_op))
            case ast.IfExp():
                place = self._place
                self._condition(node, "test")
                self._place = place
            case ast.comprehension():
                for index, test in enumerate(node.ifs):
                    if not isinstance(test, ast.Compare):
                        negated = ast.copy_location(ast.UnaryOp(ast.Not(), test), test)
                        self._place = test
                        putter = _putter(node.ifs, index, negated)
                        self._add(test, "negate", putter, negated)
            case ast.Call():
                self._call(node, messages)
            case ast.Constant():
                self._constant(node, messages)
            case _:
                pass

    def _call(self, node: ast.Call, messages: bool) -> None:
        name, func = _name(node.func), node.func
        if name in TWINS and isinstance(func, ast.Name):
            self._add(node, "twin", lambda: _set(func, "id", TWINS[name]))
        if len(node.args) < 2 or messages or name in {"isinstance", "getattr"}:
            return
        one, two = node.args[:2]
        if isinstance(one, ast.Starred) or isinstance(two, ast.Starred):
            return
        if ast.dump(one) != ast.dump(two) and name not in TWINS:
            swapped = [two, one, *node.args[2:]]
            self._add(node, "swap", lambda: _set(node, "args", swapped))

    def _constant(self, node: ast.Constant, messages: bool) -> None:
        value = node.value
        if isinstance(value, bool):
            new: Any = not value
        elif isinstance(value, int | float):
            new = value + 1
        elif isinstance(value, bytes):
            new = b"XX" + value
        elif isinstance(value, str) and not messages:
            if " " in value.strip():
                return  # a sentence or a statement of SQL
            new = "XX" + value
        else:
            return
        self._add(node, "constant", lambda: _set(node, "value", new))

    def _add(
        self, node: Any, kind: str, apply: Callable[[], Undo], new: Any = None
    ) -> None:
        place = self._place if hasattr(self._place, "lineno") else node
        self.found.append((place, new, node, kind, apply))


def _is_log(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    return _name(call.func.value).lstrip("_") in LOGGERS


def _is_type(node: ast.BinOp) -> bool:
    """Return whether ``X | Y`` may be a type: both sides are names with a capital."""
    sides = [ast.unparse(each) for each in (node.left, node.right)]
    return isinstance(node.op, ast.BitOr) and any(
        side == "None" or (side.split(".")[-1][:1].isupper() and not side.isupper())
        for side in sides
    )


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _set(owner: Any, field: str, new: Any) -> Undo:
    old = getattr(owner, field)
    setattr(owner, field, new)
    return lambda: setattr(owner, field, old)


def _put(items: list[Any], index: int, new: Any) -> Undo:
    old = items[index]
    items[index] = new
    return lambda: items.__setitem__(index, old)


def _putter(items: list[Any], index: int, new: Any) -> Callable[[], Undo]:
    return lambda: _put(items, index, new)


def _become(node: ast.UnaryOp, other: ast.expr) -> Undo:
    """Turn ``not x`` into ``not not x`` in place."""
    twice = ast.copy_location(ast.UnaryOp(ast.Not(), other), node)
    return _set(node, "operand", twice)
