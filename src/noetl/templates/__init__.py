"""Templates: Jinja2's syntax over JSON values, evaluated within a budget."""

from __future__ import annotations

from noetl.templates import filters, predicates
from noetl.templates.catalog import FILTERS, GLOBALS, METHODS, TESTS, Entry
from noetl.templates.evaluation import Budget, Decision
from noetl.templates.faults import LeafError
from noetl.templates.references import Reference
from noetl.templates.template import (
    Template,
    compile_guard,
    compile_template,
    is_template,
)
from noetl.templates.trees import Value, compile_value
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
