"""Compiler of expressions: each node becomes a closure over one evaluation."""

from __future__ import annotations

import operator
from collections.abc import Callable

from noetl.templates import operators
from noetl.templates.evaluation import Evaluation
from noetl.templates.lookup import (
    Closure,
    call_method,
    call_range,
    cut,
    follow,
    make_mapping,
    refuse_call,
)
from noetl.templates.registry import FILTERS, TESTS
from noetl.templates.syntax import VARIABLE, Node, constant_of, describe, method_name
from noetl.templates.undefined import Undefined
from noetl.templates.values import look_up
from noetl.types import JSON

ACCESS = ("Name", "Getattr", "Getitem")


class Expressions:
    """Builds closures; ``assigned`` names may be bound by set and for."""

    def __init__(self, assigned: set[str]) -> None:
        self._assigned = assigned

    def build(self, node: Node) -> Closure:
        return _BUILDERS[type(node).__name__](self, node)

    def _all(self, nodes: list[Node]) -> list[Closure]:
        return [self.build(node) for node in nodes]

    def _constant(self, node: Node) -> Closure:
        value = node.value
        return lambda run: value

    def _access(self, node: Node, *, load: bool = True) -> Closure:
        """Compile a name with constant keys into a single read."""
        keys: list[JSON] = []
        paths = [describe(node)]
        base = node
        while True:
            kind = type(base).__name__
            if kind == "Getattr":
                keys.append(base.attr)
            elif kind == "Getitem" and type(base.arg).__name__ == "Const":
                keys.append(base.arg.value)
            else:
                break
            base = base.node
            paths.append(describe(base))
        keys.reverse()
        paths.reverse()
        if type(base).__name__ == "Name":
            start = self._name(base.name, paths[-1])
            return follow(start, keys, paths, load=load)
        if type(base).__name__ == "Getitem":
            start = self._subscript(base)
        else:
            start = self.build(base)
        return follow(start, keys, paths, load=load)

    def _name(self, name: str, path: str) -> Closure:
        def read(run: Evaluation) -> JSON:
            try:
                return run.scope[name]
            except KeyError:
                return run.undefined(path, None, name, run.scope)

        def read_local(run: Evaluation) -> JSON:
            return run.locals[name] if name in run.locals else read(run)

        return read_local if name in self._assigned else read

    def _subscript(self, node: Node) -> Closure:
        base = self.build(node.node)
        path, owner = describe(node), describe(node.node)
        if type(node.arg).__name__ == "Slice":
            bounds = [
                self.build(part) if part is not None else None
                for part in (node.arg.start, node.arg.stop, node.arg.step)
            ]
            return lambda run: cut(
                run, base(run), [b(run) if b else None for b in bounds], path, owner
            )
        index = self.build(node.arg)
        return lambda run: look_up(run, base(run), index(run), path, owner, False)

    def _filter(self, node: Node) -> Closure:
        if node.name == "ref" and type(node.node).__name__ in ACCESS:
            apply = FILTERS.find(node.name).apply
            read = self._access(node.node, load=False)
            return lambda run: apply(run, read(run), [], {})
        return self._apply(FILTERS.find(node.name).apply, node.node, node)

    def _test(self, node: Node) -> Closure:
        return self._apply(TESTS.find(node.name).apply, node.node, node)

    def _apply(self, apply: Callable[..., JSON], subject: Node, node: Node) -> Closure:
        value = self.build(subject)
        args = self._all(node.args)
        named = [(k.key, self.build(k.value)) for k in node.kwargs]
        if not args and not named:
            return lambda run: apply(run, value(run), (), {})
        return lambda run: apply(
            run,
            value(run),
            [argument(run) for argument in args],
            {key: argument(run) for key, argument in named},
        )

    def _call(self, node: Node) -> Closure:
        name = method_name(node.node)
        if name is not None:
            path, owner = describe(node.node), describe(node.node.node)

            def invoke(
                run: Evaluation, value: JSON, args: list[JSON], named: dict[str, JSON]
            ) -> JSON:
                return call_method(run, value, name, path, owner, args, named)

            return self._apply(invoke, node.node.node, node)
        if node.node.name == "range":
            bounds = self._all(node.args)
            return lambda run: call_range(run, [bound(run) for bound in bounds])
        return refuse_call(self.build(node.node), node.node.name)

    def _compare(self, node: Node) -> Closure:
        left = self.build(node.expr)
        if len(node.ops) == 1:
            return self._compare_two(left, node.ops[0])
        rest = [(operators.COMPARISONS[o.op], self.build(o.expr)) for o in node.ops]

        def chain(run: Evaluation) -> bool:
            value = left(run)
            for compare, build in rest:
                following = build(run)
                if not compare(run, value, following):
                    return False
                value = following
            return True

        return chain

    def _compare_two(self, left: Closure, operand: Node) -> Closure:
        compare = operators.COMPARISONS[operand.op]
        constant = constant_of(operand.expr)
        if constant is VARIABLE:
            right = self.build(operand.expr)
            return lambda run: compare(run, left(run), right(run))
        if operand.op == "eq" and not isinstance(constant, list):
            return lambda run: left(run) == constant
        if operand.op == "in" and isinstance(constant, list):

            def is_one_of(run: Evaluation) -> bool:
                value = left(run)
                if value is None or isinstance(value, Undefined | list | dict):
                    return bool(compare(run, value, constant))
                return value in constant

            return is_one_of
        return lambda run: compare(run, left(run), constant)

    def _and(self, node: Node) -> Closure:
        left, right = self.build(node.left), self.build(node.right)
        return lambda run: left(run) and right(run)

    def _or(self, node: Node) -> Closure:
        left, right = self.build(node.left), self.build(node.right)
        return lambda run: left(run) or right(run)

    def _not(self, node: Node) -> Closure:
        inner = self.build(node.node)
        return lambda run: not inner(run)

    def _condition(self, node: Node) -> Closure:
        test, chosen = self.build(node.test), self.build(node.expr1)
        if node.expr2 is not None:
            other = self.build(node.expr2)
            return lambda run: chosen(run) if test(run) else other(run)
        why = "the condition is false and there is no else"

        def choose(run: Evaluation) -> JSON:
            if test(run):
                return chosen(run)
            return run.undefined("the if without else", None, None, why)

        return choose

    def _binary(self, node: Node) -> Closure:
        function = operators.ARITHMETIC[type(node).__name__]
        left, right = self.build(node.left), self.build(node.right)
        return lambda run: function(run, left(run), right(run))

    def _unary(self, node: Node) -> Closure:
        function = operator.neg if type(node).__name__ == "Neg" else operator.pos
        inner = self.build(node.node)
        return lambda run: operators.sign(run, inner(run), function)

    def _concat(self, node: Node) -> Closure:
        parts = self._all(node.nodes)
        return lambda run: operators.concat(run, [part(run) for part in parts])

    def _list(self, node: Node) -> Closure:
        items = self._all(node.items)
        return lambda run: [item(run) for item in items]

    def _mapping(self, node: Node) -> Closure:
        pairs = [(self.build(p.key), self.build(p.value)) for p in node.items]
        if all(isinstance(constant_of(p.key), str) for p in node.items):
            return lambda run: {key(run): value(run) for key, value in pairs}
        return lambda run: make_mapping(run, pairs)


_BUILDERS: dict[str, Callable[[Expressions, Node], Closure]] = {
    "Const": Expressions._constant,
    "Name": Expressions._access,
    "Getattr": Expressions._access,
    "Getitem": Expressions._access,
    "Filter": Expressions._filter,
    "Test": Expressions._test,
    "Call": Expressions._call,
    "Compare": Expressions._compare,
    "And": Expressions._and,
    "Or": Expressions._or,
    "Not": Expressions._not,
    "CondExpr": Expressions._condition,
    "Neg": Expressions._unary,
    "Pos": Expressions._unary,
    "Concat": Expressions._concat,
    "List": Expressions._list,
    "Tuple": Expressions._list,
    "Dict": Expressions._mapping,
}
_BUILDERS |= dict.fromkeys(operators.ARITHMETIC, Expressions._binary)
