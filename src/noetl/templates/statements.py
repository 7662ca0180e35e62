"""Compiler of text with expressions, if, for and set into closures."""

from __future__ import annotations

from collections.abc import Callable

from noetl.templates import errors
from noetl.templates.evaluation import Evaluation
from noetl.templates.expressions import Expressions
from noetl.templates.lookup import Closure
from noetl.templates.syntax import Node
from noetl.templates.values import iterate, text_of
from noetl.types import JSON

Bind = Callable[[dict[str, JSON], JSON], None]


def build_text(tree: Node, expressions: Expressions) -> Closure:
    """Return a function that renders the whole text of a template."""
    body = _Statements(expressions).body(tree.body)

    def write(run: Evaluation) -> str:
        for statement in body:
            statement(run)
        return "".join(run.parts)

    return write


class _Statements:
    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def body(self, nodes: list[Node]) -> list[Closure]:
        return [getattr(self, f"_{type(n).__name__.lower()}")(n) for n in nodes]

    def _output(self, node: Node) -> Closure:
        parts: list[str | Closure] = [
            part.data
            if type(part).__name__ == "TemplateData"
            else self._expressions.build(part)
            for part in node.nodes
        ]

        def write(run: Evaluation) -> None:
            for part in parts:
                run.write(part if isinstance(part, str) else text_of(run, part(run)))

        return write

    def _assign(self, node: Node) -> Closure:
        value = self._expressions.build(node.node)
        bind = _binder(node.target)
        return lambda run: bind(run.locals, value(run))

    def _if(self, node: Node) -> Closure:
        arms = [
            (self._expressions.build(arm.test), self.body(arm.body))
            for arm in (node, *node.elif_)
        ]
        otherwise = self.body(node.else_)

        def choose(run: Evaluation) -> None:
            chosen = next((body for test, body in arms if test(run)), otherwise)
            for statement in chosen:
                statement(run)

        return choose

    def _for(self, node: Node) -> Closure:
        source = self._expressions.build(node.iter)
        bind = _binder(node.target)
        passes = self._expressions.build(node.test) if node.test is not None else None
        body, otherwise = self.body(node.body), self.body(node.else_)
        counted = any(_mentions_loop(child) for child in node.body)
        sifting = 2 + _weight(node.test) if node.test is not None else 0
        cost = 2 + sum(
            map(_weight, node.body)
        )  # an iteration is charged for its whole body

        def repeat(run: Evaluation) -> None:
            items = iterate(run, source(run))
            outside = run.locals
            if passes is not None:
                items = _filtered(run, items, bind, passes, sifting)
            for index, item in enumerate(items):
                run.charge(cost + len(outside))
                # Each iteration starts from the names before the loop, as in Jinja2.
                run.locals = dict(outside)
                bind(run.locals, item)
                if counted:
                    run.locals["loop"] = _position(items, index)
                for statement in body:
                    statement(run)
            if not items:
                run.locals = dict(outside)
                for statement in otherwise:
                    statement(run)
            run.locals = outside

        return repeat


def _filtered(
    run: Evaluation, items: list[JSON], bind: Bind, passes: Closure, cost: int
) -> list[JSON]:
    outside = run.locals
    kept = []
    for item in items:
        run.charge(cost + len(outside))
        run.locals = dict(outside)
        bind(run.locals, item)
        if passes(run):
            kept.append(item)
    run.locals = outside
    return kept


def _position(items: list[JSON], index: int) -> dict[str, JSON]:
    length = len(items)
    loop: dict[str, JSON] = {
        "index": index + 1,
        "index0": index,
        "first": index == 0,
        "last": index + 1 == length,
        "length": length,
        "revindex": length - index,
        "revindex0": length - index - 1,
    }
    if index > 0:
        loop["previtem"] = items[index - 1]
    if index + 1 < length:
        loop["nextitem"] = items[index + 1]
    return loop


def _binder(target: Node) -> Bind:
    """Return a function that binds a value to one or several names."""
    if type(target).__name__ == "Name":
        name = target.name

        def bind(names: dict[str, JSON], value: JSON) -> None:
            names[name] = value

        return bind
    binders = [_binder(item) for item in target.items]

    def unpack(names: dict[str, JSON], value: JSON) -> None:
        if not isinstance(value, list | str | dict):
            raise errors.wrong(f"cannot unpack {errors.kind_of(value)}")
        if len(value) != len(binders):
            raise errors.wrong(
                f"cannot unpack {len(value)} items into {len(binders)} names"
            )
        for bind, item in zip(binders, value, strict=True):
            bind(names, item)

    return unpack


def _mentions_loop(node: Node) -> bool:
    if type(node).__name__ == "Name":
        return bool(node.name == "loop")
    return any(map(_mentions_loop, node.iter_child_nodes()))


def _weight(node: Node) -> int:
    return 1 + sum(map(_weight, node.iter_child_nodes()))
