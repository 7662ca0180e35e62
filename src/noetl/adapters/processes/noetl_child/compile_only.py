"""Facts about Python code that is compiled and never run.

A process of its own with limits of time and memory: the compiler needs 46 seconds for
some texts of one megabyte. It imports nothing that starts slowly. Standard input is a
list of codes; each line of the answer is the facts of the next one.
"""

from __future__ import annotations

import _ast
import json
import resource
import sys
from collections.abc import Iterator
from typing import Any

SECONDS = 1
MEMORY = 256 * 1024 * 1024
RECURSION = 1000
_TREE = 0x400  # PyCF_ONLY_AST
_SCOPES = (_ast.FunctionDef, _ast.AsyncFunctionDef, _ast.Lambda, _ast.ClassDef)
_FUNCTIONS = (_ast.FunctionDef, _ast.AsyncFunctionDef)
_RESULTS = ("main", "result")
_UNKNOWN = ("exec", "globals", "setattr")  # calls that may define any name
Facts = dict[str, Any]
Spot = tuple[int, int]


def facts_of(code: str) -> Facts:
    """Return what the compiler says about the code, positions counted from 1."""
    try:
        tree = compile(code, "<code>", "exec", _TREE, dont_inherit=True)
    except SyntaxError as error:
        return {"error": _problem(error, code)}
    except RecursionError:
        return {"error": {"message": "it is nested too deeply"}}
    except ValueError as error:  # a null character, half a surrogate pair
        return {"error": {"message": str(error)[:200]}}
    returned = _return_at_top(tree, code)
    if returned is None:
        try:
            compile(tree, "<code>", "exec", dont_inherit=True)
        except SyntaxError as error:
            return {"error": _problem(error, code)}
        except RecursionError:
            return {"error": {"message": "it is nested too deeply"}}
    names = _Names(tree)
    return {
        "main": names.signature(tree, code),
        "gives": names.gives,
        "returns": returned,
        "unbound": sorted(names.read - names.bound),
    }


def _problem(error: SyntaxError, code: str) -> Facts:
    line, column = error.lineno, error.offset
    if line is None or column is None or line < 1:
        return {"message": error.msg}
    return {"message": error.msg, "line": line, "column": max(column, 1)}


def _walk(node: _ast.AST, *, into_scopes: bool = True) -> Iterator[_ast.AST]:
    """Yield the nodes below a node, without recursion."""
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        if each is not node and not into_scopes and isinstance(each, _SCOPES):
            continue
        for name in each._fields:
            value = getattr(each, name, None)
            if isinstance(value, _ast.AST):
                stack.append(value)
            elif isinstance(value, list):
                stack += [item for item in value if isinstance(item, _ast.AST)]


def _return_at_top(tree: _ast.Module, code: str) -> Spot | None:
    found = [
        each
        for each in _walk(tree, into_scopes=False)
        if isinstance(each, _ast.Return) and not isinstance(each, _SCOPES)
    ]
    return _spot(min(found, key=lambda each: each.lineno), code) if found else None


class _Names:
    """Names that the code binds and reads, anywhere in it."""

    def __init__(self, tree: _ast.Module) -> None:
        self.read: set[str] = set()
        self.bound: set[str] = set()
        self.gives = False
        self._mains = 0
        for each in _walk(tree):
            if isinstance(each, _ast.Name):
                self._name(each)
            elif isinstance(each, (*_FUNCTIONS, _ast.ClassDef)):
                self._bind(each.name)
            elif isinstance(each, _ast.arg):
                self.bound.add(each.arg)
            elif isinstance(each, _ast.alias):
                self.gives |= each.name == "*"
                self._bind((each.asname or each.name).split(".")[0])
                self.bound.add(each.name)

    def _name(self, node: _ast.Name) -> None:
        if isinstance(node.ctx, _ast.Load):
            self.read.add(node.id)
            self.gives |= node.id in _UNKNOWN
        else:
            self._bind(node.id)

    def _bind(self, name: str) -> None:
        self.bound.add(name)
        self.gives |= name in _RESULTS
        self._mains += name == "main"

    def signature(self, tree: _ast.Module, code: str) -> Facts | None:
        """Return the parameters of ``main``, if it is certain which one is called."""
        mains = [
            each
            for each in tree.body
            if isinstance(each, _FUNCTIONS) and each.name == "main"
        ]
        if len(mains) != 1 or self._mains != 1 or mains[0].decorator_list:
            return None
        args = mains[0].args
        plain = [*args.posonlyargs, *args.args]
        required = plain[: len(plain) - len(args.defaults)]
        for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            if default is None:
                required.append(each)
        return {
            "required": [[each.arg, *_spot(each, code)] for each in required],
            "names": [each.arg for each in (*plain, *args.kwonlyargs)],
            "any": args.kwarg is not None,
        }


def _spot(node: Any, code: str) -> Spot:
    """Return line and column in characters; the compiler counts bytes."""
    lines = code.split("\n") if node.col_offset else []
    line = lines[node.lineno - 1] if 0 < node.lineno <= len(lines) else ""
    before = line.encode("utf-8", "replace")[: node.col_offset]
    return node.lineno, len(before.decode("utf-8", "replace")) + 1


def limit() -> None:
    """Limit this process; over a limit it dies, and the remaining codes get no
    facts."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    sys.setrecursionlimit(RECURSION)


def main(_parent: int) -> None:
    codes = json.load(sys.stdin)
    limit()
    for code in codes:
        sys.stdout.write(json.dumps(facts_of(code)) + "\n")
        sys.stdout.flush()
