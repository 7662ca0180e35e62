"""Checks of the syntax tree for the constructs of Jinja2 that templates may use.

The names that a template reads from its scope are collected on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from noetl.errors import TemplateError
from noetl.templates import errors, limits
from noetl.templates.operators import percent
from noetl.templates.registry import FILTERS, METHODS, TESTS
from noetl.templates.syntax import (
    Node,
    check_arguments,
    check_constant,
    check_name,
    check_stars,
    check_words,
    method_name,
)

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """Name with the constant keys that are read from it."""

    path: Path
    guarded: bool
    """The template handles its absence, by ``default`` or ``is defined``."""

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass
class Reads:
    """References in the order of the text."""

    _unguarded: dict[Path, bool] = field(default_factory=dict)
    _tested: set[Path] = field(default_factory=set)

    def add(self, path: Path, guarded: bool) -> None:
        self._unguarded[path] = self._unguarded.get(path, False) or not guarded

    def test(self, path: Path) -> None:
        """Record a path of ``is defined``.

        Its other reads in the template count as guarded too, because the test protects
        them: ``ctx.x is defined and ctx.x > 1``.
        """
        self._tested.add(path)

    def collect(self) -> tuple[Reference, ...]:
        return tuple(
            Reference(path, not unguarded or self._is_tested(path))
            for path, unguarded in self._unguarded.items()
        )

    def _is_tested(self, path: Path) -> bool:
        if not self._tested:
            return False
        return any(path[:length] in self._tested for length in range(1, len(path) + 1))


def merge(references: Sequence[tuple[Reference, ...]]) -> tuple[Reference, ...]:
    """Return the references of several templates; guarded if guarded in all of them."""
    reads = Reads()
    for group in references:
        for reference in group:
            reads.add(reference.path, reference.guarded)
    return reads.collect()


_CHILDREN: dict[str, tuple[str, ...]] = {
    "Output": ("nodes",),
    "TemplateData": (),
    "Not": ("node",),
    "Neg": ("node",),
    "Pos": ("node",),
    "Compare": ("expr", "ops"),
    "Operand": ("expr",),
    "Concat": ("nodes",),
    "CondExpr": ("expr1", "test", "expr2"),
    "List": ("items",),
    "Tuple": ("items",),
    "Dict": ("items",),
    "Pair": ("key", "value"),
    "Keyword": ("value",),
    "Slice": ("start", "stop", "step"),
    "If": ("test", "body", "elif_", "else_"),
}
_CHILDREN |= dict.fromkeys(
    ("And", "Or", "Add", "Sub", "Mul", "Div", "FloorDiv"), ("left", "right")
)

_REFUSED = {
    "Pow": "`**` is not available; multiply, or compute it in a python task",
    "AssignBlock": "{% set name %}…{% endset %} is not available; "
    "use {% set name = value %}",
    "NSRef": "namespaces are not available; set plain names",
}

_HELPERS = frozenset(
    {"self", "super", "caller", "cycler", "joiner", "namespace", "lipsum"}
)

_METHOD_NAMES = sorted({name for methods in METHODS.values() for name in methods})


class Inspector:
    """Walks a tree once: rejects forbidden constructs, records the names read."""

    def __init__(self) -> None:
        self.reads = Reads()
        self.assigned: set[str] = set()
        self._bound: set[str] = set()  # names bound at this point
        self._nodes = 0

    def inspect(self, tree: Node) -> None:
        """Raise ``TemplateError`` if the tree uses a construct that is not
        available."""
        for node in tree.body:
            self._visit(node, 1)

    def _visit(self, node: Node, depth: int) -> None:
        kind = type(node).__name__
        self._count(depth)
        special = _SPECIAL.get(kind)
        if special is not None:
            special(self, node, depth)
            return
        children = _CHILDREN.get(kind)
        if children is None:
            raise _refusal(kind)
        for name in children:
            child = getattr(node, name)
            if isinstance(child, list):
                for item in child:
                    self._visit(item, depth + 1)
            elif child is not None and not isinstance(child, str):
                self._visit(child, depth + 1)

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if depth > limits.DEPTH:
            raise errors.too_deep()
        if self._nodes > limits.NODES:
            raise errors.too_much(
                f"the template has more than {limits.NODES:,} parts; move the work to "
                "a python task"
            )

    def _constant(self, node: Node, depth: int) -> None:
        check_constant(node.value)

    def _access(self, node: Node, depth: int, guarded: bool = False) -> Path:
        """Check a name with its chain of keys and items; return its path."""
        keys: list[str | None] = []
        computed: list[Node] = []
        while (kind := type(node).__name__) in ("Getattr", "Getitem"):
            if kind == "Getattr":
                check_name(node.attr)
                keys.append(node.attr)
            elif type(node.arg).__name__ == "Const":
                check_constant(node.arg.value)
                constant = node.arg.value if isinstance(node.arg.value, str) else None
                if constant is not None:
                    check_name(constant)
                keys.append(constant)
            else:
                keys.append(None)
                computed.append(node.arg)
            node = node.node
            depth += 1
            self._count(depth)
        path: Path = ()
        if kind == "Name":
            path = self._read(node.name, keys, guarded)
        else:
            self._visit(node, depth)
        for index in reversed(computed):
            self._visit(index, depth)
        return path

    def _read(self, name: str, keys: list[str | None], guarded: bool) -> Path:
        check_name(name)
        if name in _HELPERS:
            raise errors.forbidden(f"'{name}' is not available in templates")
        if name in self._bound:
            return ()
        path = [name]
        for key in reversed(keys):
            if key is None:
                break
            path.append(key)
        self.reads.add(tuple(path), guarded)
        return tuple(path)

    def _filter(self, node: Node, depth: int) -> None:
        entry = FILTERS.find(node.name)
        check_arguments(entry, node)
        check_words(node)
        self._operand(node.node, depth + 1, node.name in ("default", "d"))
        self._arguments(node, depth)

    def _test(self, node: Node, depth: int) -> None:
        entry = TESTS.find(node.name)
        check_arguments(entry, node)
        asked = node.name in ("defined", "undefined")
        path = self._operand(node.node, depth + 1, asked)
        if asked and path:
            self.reads.test(path)
        self._arguments(node, depth)

    def _operand(self, node: Node, depth: int, guarded: bool) -> Path:
        if type(node).__name__ in ("Name", "Getattr", "Getitem"):
            self._count(depth)
            return self._access(node, depth, guarded)
        self._visit(node, depth)
        return ()

    def _arguments(self, node: Node, depth: int) -> None:
        for argument in (*node.args, *node.kwargs):
            self._visit(argument, depth + 1)

    def _call(self, node: Node, depth: int) -> None:
        callee = node.node
        kind = type(callee).__name__
        name = method_name(callee)
        if name is not None:
            check_name(name)
            if name not in _METHOD_NAMES:
                known = ", ".join(_METHOD_NAMES)
                raise errors.forbidden(
                    f"unknown method '{name[:64]}'",
                    errors.nearest(name, _METHOD_NAMES) or f"available: {known}",
                )
            self._operand(callee.node, depth + 1, False)
        elif kind == "Name":
            if callee.name != "range":
                self._visit(callee, depth + 1)
        else:
            raise errors.forbidden(
                "only methods, such as name.upper(), and range() can be called"
            )
        check_stars(node)
        self._arguments(node, depth)

    def _modulo(self, node: Node, depth: int) -> None:
        if isinstance(getattr(node.left, "value", None), str):
            raise percent()
        self._visit(node.left, depth + 1)
        self._visit(node.right, depth + 1)

    def _assign(self, node: Node, depth: int) -> None:
        self._visit(node.node, depth + 1)
        self._bind(node.target, depth + 1)

    def _for(self, node: Node, depth: int) -> None:
        if node.recursive:
            raise errors.forbidden(
                "recursive loops are not available; walk nested data in a python task"
            )
        self._visit(node.iter, depth + 1)
        outside = set(self._bound)
        self._bind(node.target, depth + 1)
        if node.test is not None:
            self._visit(node.test, depth + 1)
        self._bound.add("loop")
        self.assigned.add("loop")
        for child in node.body:
            self._visit(child, depth + 1)
        self._bound = outside  # names set in an iteration end with it
        for child in node.else_:
            self._visit(child, depth + 1)
        self._bound = outside

    def _bind(self, target: Node, depth: int) -> None:
        self._count(depth)
        kind = type(target).__name__
        if kind == "Tuple":
            for item in target.items:
                self._bind(item, depth + 1)
        elif kind != "Name":
            raise _refusal(kind)
        else:
            check_name(target.name)
            if target.name in _HELPERS or target.name in ("loop", "range"):
                raise errors.forbidden(f"'{target.name}' cannot be set")
            self._bound.add(target.name)
            self.assigned.add(target.name)


_SPECIAL: dict[str, Callable[[Inspector, Node, int], object]] = {
    "Const": Inspector._constant,
    "Name": Inspector._access,
    "Getattr": Inspector._access,
    "Getitem": Inspector._access,
    "Filter": Inspector._filter,
    "Test": Inspector._test,
    "Call": Inspector._call,
    "Mod": Inspector._modulo,
    "Assign": Inspector._assign,
    "For": Inspector._for,
}


def _refusal(kind: str) -> TemplateError:
    sentence = _REFUSED.get(kind)
    return errors.forbidden(sentence or f"{kind} is not available in templates")
