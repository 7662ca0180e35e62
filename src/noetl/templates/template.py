"""A compiled template: what it reads, and how it is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from noetl.errors import TemplateError
from noetl.templates import faults, limits, methods
from noetl.templates.access import Closure
from noetl.templates.evaluation import Budget, Decision, Evaluation
from noetl.templates.expressions import Expressions
from noetl.templates.grammar import Inspector
from noetl.templates.references import Reference
from noetl.templates.statements import build_text
from noetl.templates.syntax import Node
from noetl.templates.undefined import Undefined
from noetl.templates.values import is_true, settle
from noetl.types import JSON

_DELIMITERS = ("{{", "{%", "{#")
_LONG = 512  # characters; of longer templates fewer are cached
_AROUND = " \n\r"


class Template:
    """A template, checked once; evaluating it changes neither it nor the scope."""

    __slots__ = (
        "_assigned",
        "_closure",
        "_composed",
        "_tree",
        "native",
        "references",
        "source",
        "statements",
    )

    source: str
    native: bool
    """It is one single expression, so its result keeps its type (S-33)."""
    statements: bool
    """It contains ``{% statements %}``."""
    references: tuple[Reference, ...]
    """Every name it reads from its scope, in order, each once."""

    def __init__(self, source: str) -> None:
        # Jinja2 takes 40 ms to import: paid with the first template, not before.
        from noetl.templates.parser import parse

        tree, self.statements = parse(source)
        inspector = Inspector()
        try:
            inspector.inspect(tree)
            single = None if self.statements else _single_expression(tree)
            composed = single is not None and not _passes_through(single)
        except RecursionError:  # whoever called us is deep already
            raise faults.too_deep() from None
        self.source = source
        self.native = single is not None
        self.references = inspector.reads.collect()
        self._tree: Node = tree if single is None else single
        self._assigned = inspector.assigned
        self._composed = composed
        self._closure: Closure | None = None

    def render(self, scope: Mapping[str, JSON], budget: Budget | None = None) -> JSON:
        """The result; using an undefined value raises ``template.undefined`` (S-31)."""
        value = self._perform(scope, budget, True)
        if isinstance(value, Undefined):
            raise value.error()
        return value

    def evaluate(
        self, scope: Mapping[str, JSON], budget: Budget | None = None
    ) -> JSON | Undefined:
        """The result as guards see it: lenient, and possibly undefined (S-30)."""
        return self._perform(scope, budget, False)

    def holds(self, scope: Mapping[str, JSON], budget: Budget | None = None) -> bool:
        """Whether the guard is true (S-29)."""
        return is_true(self._perform(scope, budget, False))

    def whole_range(self, scope: Mapping[str, JSON]) -> range | None:
        """The range, if this is ``{{ range(...) }}`` with or without ``| list``.

        The numbers are not made, so that a loop can take them one by one (S-71).
        """
        call = _whole_range(self._tree) if self.native else None
        if call is None:
            return None
        builder = Expressions(self._assigned)
        run = Evaluation(scope, limits.STEPS, limits.SIZE, True)
        try:
            bounds = tuple(builder.build(node)(run) for node in call.args)
            for bound in bounds:
                if isinstance(bound, Undefined):
                    raise bound.error()
            return methods.make_range(bounds, limits.WHOLE_RANGE)
        except TemplateError:
            raise
        except Exception as error:
            raise faults.translate(error, "range") from None

    def _perform(
        self, scope: Mapping[str, JSON], budget: Budget | None, strict: bool
    ) -> JSON:
        if budget is None:
            run = Evaluation(scope, limits.STEPS, limits.SIZE, strict)
        else:
            run = Evaluation(scope, budget.steps, budget.output, strict)
        decision: Decision | None = getattr(scope, "decision", None)
        if decision is not None:
            decision.count += 1
            run.steps = min(run.steps, decision.steps)
        granted = run.steps
        try:
            value = (self._closure or self._build())(run)
            return settle(run, value) if self._composed else value
        except TemplateError:
            if decision is not None and run.steps < 0 and granted == decision.steps:
                raise decision.exceeded() from None
            raise
        except Exception as error:
            raise faults.translate(error, "the template failed") from None
        finally:
            used = granted - max(run.steps, 0)
            if budget is not None:
                budget.steps -= used
            if decision is not None:
                decision.steps -= used

    def _build(self) -> Closure:
        expressions = Expressions(self._assigned)
        if self.native:
            self._closure = expressions.build(self._tree)
        else:
            self._closure = build_text(self._tree, expressions)
        return self._closure

    def __repr__(self) -> str:
        return f"Template({self.source!r})"


def is_template(text: str) -> bool:
    """Whether the text has delimiters; other text is not a template at all."""
    return any(delimiter in text for delimiter in _DELIMITERS)


def compile_template(source: str) -> Template:
    """Compile, or find what was compiled before; raises ``TemplateError``."""
    return _compile(source) if len(source) <= _LONG else _compile_long(source)


_compile = lru_cache(maxsize=2_048)(Template)
_compile_long = lru_cache(maxsize=128)(Template)


def compile_guard(source: str | bool) -> Template:
    """Compile a ``when``: exactly one expression, or a YAML boolean (S-29)."""
    if isinstance(source, bool):
        return compile_template("{{ true }}" if source else "{{ false }}")
    template = compile_template(source.strip())
    if template.native:
        return template
    if template.statements:
        found = "statements"
    elif not is_template(source):
        found = "text without delimiters"
    elif not source.strip().startswith("{{") or not source.strip().endswith("}}"):
        found = "text around the expression"
    else:
        found = "several expressions"
    raise faults.wrong(
        f"a condition is exactly one {{{{ expression }}}}; found {found}",
        "write the whole condition inside one pair of braces",
    )


def _single_expression(tree: Node) -> Node | None:
    """The only expression of a template that is nothing else, white space aside."""
    if len(tree.body) != 1:
        return None
    found: list[Node] = []
    for node in tree.body[0].nodes:
        if type(node).__name__ != "TemplateData":
            found.append(node)
        elif node.data.strip(_AROUND):
            return None
    if len(found) != 1:
        return None
    return found[0]


def _passes_through(node: Node) -> bool:
    """Whether the result can only be a scalar or a part of the scope, as it is."""
    kind = type(node).__name__
    if kind in ("Name", "Const", "Compare", "Not", "Test"):
        return True
    if kind == "Getattr":
        return _passes_through(node.node)
    if kind == "Getitem":
        return type(node.arg).__name__ != "Slice" and _passes_through(node.node)
    if kind in ("And", "Or"):
        return _passes_through(node.left) and _passes_through(node.right)
    if kind == "CondExpr":
        other = node.expr2 is None or _passes_through(node.expr2)
        return other and _passes_through(node.expr1)
    if kind == "Filter" and node.name in ("default", "d", "first", "last"):
        return all(map(_passes_through, (node.node, *node.args)))
    return kind in ("List", "Dict") and not node.items


def _whole_range(node: Node) -> Node | None:
    if type(node).__name__ == "Filter" and node.name == "list":
        node = node.node
    if type(node).__name__ != "Call" or getattr(node.node, "name", None) != "range":
        return None
    return node if type(node.node).__name__ == "Name" and not node.kwargs else None
