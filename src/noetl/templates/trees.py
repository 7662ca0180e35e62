"""Templates inside mappings and lists: the arguments of a task, a ``set_ctx``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.errors import TemplateError
from noetl.templates import faults, limits
from noetl.templates.evaluation import Budget
from noetl.templates.faults import LeafError
from noetl.templates.references import Reference, merge
from noetl.templates.template import Template, compile_template, is_template
from noetl.types import JSON

Path = tuple[str | int, ...]
Scope = Mapping[str, JSON]
_Render = Callable[[Scope, Budget], JSON]


class Value:
    """A tree of values in which texts may be templates; keys are literal (S-34)."""

    __slots__ = ("_literal", "_render", "references", "templates")

    def __init__(self, value: JSON) -> None:
        found: list[tuple[Path, Template]] = []
        try:
            self._render = _compile(value, (), found)
        except RecursionError:  # whoever called us is deep already
            raise LeafError(faults.too_deep(), ()) from None
        self._literal = value
        self.templates: tuple[tuple[Path, Template], ...] = tuple(found)
        """Each template with the path that leads to it."""
        self.references: tuple[Reference, ...] = merge(
            [template.references for _, template in found]
        )

    @property
    def written(self) -> JSON:
        """The tree as its author wrote it."""
        return self._literal

    @property
    def literal(self) -> bool:
        """Nothing in it is a template."""
        return self._render is None

    def render(self, scope: Scope, budget: Budget | None = None) -> JSON:
        """The tree with results in place of templates; raises ``LeafError``.

        What holds no template is given back as it is, not copied.
        """
        if self._render is None:
            return self._literal
        try:
            return self._render(scope, budget or Budget())
        except RecursionError:
            raise LeafError(faults.too_deep(), ()) from None


def compile_value(value: JSON) -> Value:
    """Compile every template in a tree; raises ``LeafError`` with the path to it."""
    return Value(value)


def _compile(
    value: JSON, path: Path, found: list[tuple[Path, Template]]
) -> _Render | None:
    """How to render this part, or None if it is literal."""
    if isinstance(value, str):
        return _compile_leaf(value, path, found) if is_template(value) else None
    if not isinstance(value, dict | list):
        return None
    if len(path) >= limits.NESTING:
        raise LeafError(
            faults.too_much(f"values nest deeper than {limits.NESTING}"), path
        )
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    parts = {key: _compile(item, (*path, key), found) for key, item in pairs}
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
