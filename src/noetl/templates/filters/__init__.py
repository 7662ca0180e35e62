"""Filters by the type they work on; importing this package registers them."""

from __future__ import annotations

from noetl.templates.filters import conversions, dates, lists, selections, texts
from noetl.templates.filters import conversions as encodings
from noetl.templates.filters import selections as grouping
from noetl.templates.filters import selections as mappings
from noetl.templates.registry import FILTERS

__all__ = [
    "FILTERS",
    "conversions",
    "dates",
    "encodings",
    "grouping",
    "lists",
    "mappings",
    "selections",
    "texts",
]
