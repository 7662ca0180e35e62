"""Templates: Jinja2's syntax over JSON values, evaluated within a budget."""

from __future__ import annotations

from noetl.templates import filters, predicates
from noetl.templates.errors import LeafError
from noetl.templates.evaluation import Budget, Decision
from noetl.templates.grammar import Reference
from noetl.templates.registry import FILTERS, GLOBALS, METHODS, TESTS, Entry
from noetl.templates.template import (
    Template,
    Value,
    compile_guard,
    compile_template,
    compile_value,
    is_template,
)
from noetl.templates.undefined import Undefined

__all__ = [
    "FILTERS",
    "GLOBALS",
    "METHODS",
    "TESTS",
    "Budget",
    "Decision",
    "Entry",
    "LeafError",
    "Reference",
    "Template",
    "Undefined",
    "Value",
    "compile_guard",
    "compile_template",
    "compile_value",
    "filters",
    "is_template",
    "predicates",
]
