"""Static evaluation of guards: true, false, an error, or any of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from jinja2 import nodes

from noetl.errors import TemplateError
from noetl.templates import Template
from noetl.templates.parser import parse
from noetl.types import JSON

Verdict = Literal["true", "false", "error"]
Verdicts: TypeAlias = frozenset[Verdict]
"""All results that one evaluation may have.

A plain unknown is not enough: ``ctx.ready and event.name == 'step.done'`` is false or
an error after a failure, and neither fires the arc, but ``not (…)`` of it may.
"""

YES: Verdicts = frozenset({"true"})
NO: Verdicts = frozenset({"false"})
ANY: Verdicts = frozenset({"true", "false", "error"})

Event: TypeAlias = Mapping[str, str]

_UNKNOWN = object()
_TELLING = re.compile(r"\bevent\b|\btrue\b|\bfalse\b", re.IGNORECASE)
_EQUAL = {"eq", "ne"}
_MEMBER = {"in", "notin"}


def read_guard(guard: Template | None, event: Event) -> Verdicts:
    """Return the possible verdicts of ``guard``, knowing only these event fields."""
    if guard is None:
        return YES
    if not guard.references:
        return _read_constant(guard)
    if not _TELLING.search(guard.source):
        return ANY  # most guards; parsing them again adds nothing
    expression = _only_expression(guard.source)
    if expression is None:
        return ANY
    try:
        return _read(expression, event)
    except RecursionError:
        return ANY


def _read_constant(guard: Template) -> Verdicts:
    try:
        return YES if guard.holds({}) else NO
    except TemplateError:
        return frozenset({"error"})


@lru_cache(maxsize=4096)
def _only_expression(source: str) -> nodes.Expr | None:
    """Return the expression of ``{{ expression }}``; None for any other text."""
    try:
        tree, has_statements = parse(source)
    except TemplateError:
        return None
    if has_statements or len(tree.body) != 1:
        return None
    output = tree.body[0]
    if not isinstance(output, nodes.Output) or len(output.nodes) != 1:
        return None
    return output.nodes[0]


def _read(node: nodes.Expr, event: Event) -> Verdicts:
    match node:
        case nodes.Const(value=bool() as value):
            return YES if value else NO
        case nodes.Not():
            return _negate(_read(node.node, event))
        case nodes.And():
            return _chain(node, event, goes_on="true")
        case nodes.Or():
            return _chain(node, event, goes_on="false")
        case nodes.Compare(ops=[nodes.Operand() as only]):
            return _compare(node.expr, only, event)
        case nodes.CondExpr(expr2=nodes.Expr() as otherwise):
            return _choose(node, otherwise, event)
        case _:
            return ANY


def _negate(verdicts: Verdicts) -> Verdicts:
    swapped: dict[Verdict, Verdict] = {"true": "false", "false": "true"}
    return frozenset(swapped.get(verdict, verdict) for verdict in verdicts)


def _chain(node: nodes.BinExpr, event: Event, goes_on: Verdict) -> Verdicts:
    """Evaluate ``and``, which goes on after a true left side, or ``or``, after a
    false one."""
    left = _read(node.left, event)
    if goes_on not in left:
        return left
    return (left - {goes_on}) | _read(node.right, event)


def _choose(node: nodes.CondExpr, otherwise: nodes.Expr, event: Event) -> Verdicts:
    test = _read(node.test, event)
    found: Verdicts = test & {"error"}
    if "true" in test:
        found |= _read(node.expr1, event)
    if "false" in test:
        found |= _read(otherwise, event)
    return found


def _compare(left: nodes.Expr, operand: nodes.Operand, event: Event) -> Verdicts:
    one, other = _value(left, event), _value(operand.expr, event)
    if one is _UNKNOWN or other is _UNKNOWN:
        return ANY
    if operand.op in _EQUAL:
        holds = one == other
    elif operand.op in _MEMBER and isinstance(other, list | str):
        holds = one in other
    else:
        return ANY
    return YES if holds is (operand.op in {"eq", "in"}) else NO


def _value(node: nodes.Expr, event: Event) -> JSON:
    """Return a text, or a list of texts; other values are not compared here."""
    match node:
        case nodes.Const(value=str() as text):
            return text
        case nodes.Getattr(node=nodes.Name(name="event"), attr=str() as field):
            return event.get(field, _UNKNOWN)
        case nodes.Getitem(
            node=nodes.Name(name="event"), arg=nodes.Const(value=str() as field)
        ):
            return event.get(field, _UNKNOWN)
        case nodes.List() | nodes.Tuple():
            texts = [_value(item, event) for item in node.items]
            return texts if all(isinstance(text, str) for text in texts) else _UNKNOWN
        case _:
            return _UNKNOWN
