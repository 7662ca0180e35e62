"""Compiled templates: single ones, and those inside mappings and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from noetl.errors import TemplateError
from noetl.templates import errors, limits, methods
from noetl.templates.errors import LeafError
from noetl.templates.evaluation import Budget, Decision, Evaluation
from noetl.templates.expressions import Expressions
from noetl.templates.grammar import Inspector, Reference, merge
from noetl.templates.lookup import Closure
from noetl.templates.statements import build_text
from noetl.templates.syntax import Node
from noetl.templates.undefined import Undefined
from noetl.templates.values import is_true, settle
from noetl.types import JSON

_DELIMITERS = ("{{", "{%", "{#")
_LONG_SOURCE_CHARS = 512  # fewer of the longer templates are cached
_AROUND = " \n\r"


class Template:
    """Template, checked once; evaluation changes neither it nor the scope."""

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
    """Whether it is a single expression, whose result keeps its type (S-33)."""
    statements: bool
    """Whether it contains ``{% statements %}``."""
    references: tuple[Reference, ...]
    """Every name it reads from its scope, in order, each once."""

    def __init__(self, source: str) -> None:
        # Jinja2 takes 40 ms to import, so it is imported for the first template.
        from noetl.templates.parser import parse

        tree, self.statements = parse(source)
        inspector = Inspector()
        try:
            inspector.inspect(tree)
            single = None if self.statements else _single_expression(tree)
            composed = single is not None and not _passes_through(single)
        except RecursionError:  # the caller's stack is deep already
            raise errors.too_deep() from None
        self.source = source
        self.native = single is not None
        self.references = inspector.reads.collect()
        self._tree: Node = tree if single is None else single
        self._assigned = inspector.assigned
        self._composed = composed
        self._closure: Closure | None = None

    def render(self, scope: Mapping[str, JSON], budget: Budget | None = None) -> JSON:
        """Return the result; using an undefined value raises ``template.undefined``
        (S-31)."""
        value = self._perform(scope, budget, True)
        if isinstance(value, Undefined):
            raise value.error()
        return value

    def evaluate(
        self, scope: Mapping[str, JSON], budget: Budget | None = None
    ) -> JSON | Undefined:
        """Return the result for guards: lenient, possibly undefined (S-30)."""
        return self._perform(scope, budget, False)

    def holds(self, scope: Mapping[str, JSON], budget: Budget | None = None) -> bool:
        """Return whether the guard is true (S-29)."""
        return is_true(self._perform(scope, budget, False))

    def whole_range(self, scope: Mapping[str, JSON]) -> range | None:
        """Return the range, if this is ``{{ range(...) }}`` with or without ``| list``.

        The numbers are not built, so that a loop can take them one by one (S-71).
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
            raise errors.translate(error, "range") from None

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
            raise errors.translate(error, "the template failed") from None
        finally:
            used = granted - max(run.steps, 0)
            if budget is not None:
                budget.steps -= used
            if decision is not None:
                decision.steps -= used
                decision.spent += used

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
    """Return whether the text has delimiters."""
    return any(delimiter in text for delimiter in _DELIMITERS)


def compile_template(source: str) -> Template:
    """Compile a template, with a cache; raises ``TemplateError``."""
    return (
        _compile(source) if len(source) <= _LONG_SOURCE_CHARS else _compile_long(source)
    )


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
    raise errors.wrong(
        f"a condition is exactly one {{{{ expression }}}}; found {found}",
        "write the whole condition inside one pair of braces",
    )


def _single_expression(tree: Node) -> Node | None:
    """Return the expression of a template that has no other part."""
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
    """Return whether the result is a scalar or an unchanged part of the scope."""
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


# -- trees of values, such as task inputs or ``set_ctx`` --------------------------


Path = tuple[str | int, ...]
Scope = Mapping[str, JSON]
_Render = Callable[[Scope, Budget], JSON]


class Value:
    """Tree of values in which texts may be templates; keys are literal (S-34)."""

    __slots__ = ("_literal", "_render", "references", "templates")

    def __init__(self, value: JSON) -> None:
        found: list[tuple[Path, Template]] = []
        try:
            self._render = _compile_part(value, (), found)
        except RecursionError:  # the caller's stack is deep already
            raise LeafError(errors.too_deep(), ()) from None
        self._literal = value
        self.templates: tuple[tuple[Path, Template], ...] = tuple(found)
        """Templates with their paths."""
        self.references: tuple[Reference, ...] = merge(
            [template.references for _, template in found]
        )

    @property
    def written(self) -> JSON:
        """Tree as its author wrote it."""
        return self._literal

    @property
    def literal(self) -> bool:
        """Whether the tree contains no template."""
        return self._render is None

    def render(self, scope: Scope, budget: Budget | None = None) -> JSON:
        """Return the tree with results in place of templates; raises ``LeafError``.

        Parts without templates are returned as they are, not copied.
        """
        if self._render is None:
            return self._literal
        try:
            return self._render(scope, budget or Budget())
        except RecursionError:
            raise LeafError(errors.too_deep(), ()) from None


def compile_value(value: JSON) -> Value:
    """Compile every template in a tree; raises ``LeafError`` with the path to it."""
    return Value(value)


def _compile_part(
    value: JSON, path: Path, found: list[tuple[Path, Template]]
) -> _Render | None:
    """Return the renderer of this part; None if it is literal."""
    if isinstance(value, str):
        return _compile_leaf(value, path, found) if is_template(value) else None
    if not isinstance(value, dict | list):
        return None
    if len(path) >= limits.NESTING:
        raise LeafError(
            errors.too_much(f"values nest deeper than {limits.NESTING}"), path
        )
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {key: _compile_part(item, (*path, key), found) for key, item in pairs}
    renders = [(key, render) for key, render in parts.items() if render is not None]
    if not renders:
        return None

    def fill(scope: Scope, budget: Budget) -> JSON:
        filled = value.copy()
        for key, render in renders:
            filled[key] = render(scope, budget)
        return filled

    return fill


def _compile_leaf(
    source: str, path: Path, found: list[tuple[Path, Template]]
) -> _Render:
    try:
        template = compile_template(source)
    except TemplateError as error:
        raise LeafError(error, path) from None
    found.append((path, template))

    def render(scope: Scope, budget: Budget) -> JSON:
        try:
            return template.render(scope, budget)
        except TemplateError as error:
            raise LeafError(error, path) from None

    return render
