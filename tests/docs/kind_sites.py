"""Reads source code for the places where an error gets its kind.

Roots are the constructors below and mappings with ``kind`` and ``message``. A function
that hands a parameter of its own on as a kind is such a place itself, for its callers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

ROOTS = {
    "AccessError": 0,
    "ChildRefused": 0,
    "Failure": 0,
    "Problem": 0,
    "Refusal": 0,
    "RequestRefused": 0,
    "ToolError": 0,
    "SecretError": 0,
    "SignalRefused": 0,
    "TemplateError": 0,
    "StoreError": 1,
    "_refused_reply": 0,
}
"""Constructors, with the position of the kind."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """A kind that code makes. ``retryable`` is None where only a run can tell."""

    kind: str
    where: str
    retryable: bool | None = False


@dataclass
class Found:
    sites: list[Site] = field(default_factory=list)
    riddles: list[str] = field(default_factory=list)
    """Places whose kind cannot be read off the source."""


def find_sites(sources: Mapping[str, str]) -> Found:
    """The kinds that these sources make, by the name of their file."""
    modules = [Module(name, ast.parse(text)) for name, text in sources.items()]
    makers = dict(ROOTS)
    while True:
        found, handed = Found(), dict(makers)
        for module in modules:
            module.collect(found, makers, handed)
        if handed == makers:
            return found
        makers = handed


class Module:
    """One file: its functions, its constant mappings, its calls."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self._name = name
        self._tree = tree
        self._tables = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def collect(
        self, found: Found, makers: Mapping[str, int], handed: dict[str, int]
    ) -> None:
        for node, function, owner in walk(self._tree):
            where = f"{self._name}:{getattr(node, 'lineno', 0)}"
            given = kind_given(node, makers)
            if given is None:
                continue
            parameters = names_of(function)
            if isinstance(given, ast.Name) and given.id in parameters:
                assert function is not None
                position = parameters.index(given.id)
                if function.name == "__init__" and owner is not None:
                    handed.setdefault(owner.name, position - 1)
                elif owner is not None and parameters[0] in ("self", "cls"):
                    handed.setdefault(function.name, position - 1)
                else:
                    handed.setdefault(function.name, position)
                continue
            kinds = list(self._read(given, function))
            retryable = retryable_of(node)
            found.sites += [Site(kind, where, retryable) for kind in kinds if kind]
            if None in kinds:
                found.riddles.append(f"{where}: {ast.unparse(given)}")

    def _read(
        self, value: ast.expr, function: _Function | None
    ) -> Iterator[str | None]:
        """The texts a value can have; ``""`` is handed on from another error."""
        match value:
            case ast.Constant(value=str(text)):
                yield text
            case ast.Constant(value=None):
                yield ""
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
                yield f"{text}*"
            case ast.IfExp():
                yield from self._read(value.body, function)
                yield from self._read(value.orelse, function)
            case ast.BoolOp():
                for part in value.values:
                    yield from self._read(part, function)
            case ast.Attribute(attr="kind"):
                yield ""
            case ast.Subscript(slice=ast.Constant(value="kind")):
                yield ""
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get")) if (
                name in self._tables
            ):
                for part in [*self._tables[name].values, *value.args[1:]]:
                    yield from self._read(part, function)
            case ast.Name() if assigned := list(assignments(value.id, function)):
                for part in assigned:
                    yield from self._read(part, function)
            case _:
                yield None


def walk(
    tree: ast.AST,
    function: _Function | None = None,
    owner: ast.ClassDef | None = None,
) -> Iterator[tuple[ast.AST, _Function | None, ast.ClassDef | None]]:
    """Every node, with the function and the class around it."""
    for node in ast.iter_child_nodes(tree):
        yield node, function, owner
        if isinstance(node, ast.ClassDef):
            yield from walk(node, None, node)
        elif isinstance(node, _Function):
            yield from walk(node, node, owner)
        else:
            yield from walk(node, function, owner)


def kind_given(node: ast.AST, makers: Mapping[str, int]) -> ast.expr | None:
    """The expression that is a kind here, if any is."""
    if isinstance(node, ast.Call):
        return kind_argument(node, makers)
    if isinstance(node, ast.Dict):
        members = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant)
        }
        return members.get("kind") if "message" in members else None
    if isinstance(node, ast.ClassDef) and derives(node, makers):
        for line in node.body:
            if isinstance(line, ast.Assign) and is_named(line.targets[0], "kind"):
                return line.value
    return None


def kind_argument(call: ast.Call, makers: Mapping[str, int]) -> ast.expr | None:
    name = call_name(call)
    if name not in makers:
        return None
    for keyword in call.keywords:
        if keyword.arg == "kind":
            return keyword.value
    arguments = call.args[makers[name] :]
    return arguments[0] if arguments else None


def call_name(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def derives(node: ast.ClassDef, makers: Iterable[str]) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return node.name in makers or bool(bases & {*makers, "NoetlError"})


def is_named(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


def names_of(function: _Function | None) -> list[str]:
    if function is None:
        return []
    arguments = function.args
    return [each.arg for each in [*arguments.posonlyargs, *arguments.args]]


def assignments(name: str, function: _Function | None) -> Iterator[ast.expr]:
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Assign) and is_named(node.targets[0], name):
            yield node.value


def retryable_of(node: ast.AST) -> bool | None:
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg == "retryable":
            known = isinstance(keyword.value, ast.Constant)
            return bool(keyword.value.value) if known else None
    return False
