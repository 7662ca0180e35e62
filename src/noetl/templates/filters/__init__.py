"""The filters, declared by what they work on; importing this declares them all."""

from __future__ import annotations

from noetl.templates.catalog import FILTERS
from noetl.templates.filters import (
    conversions,
    dates,
    encodings,
    grouping,
    lists,
    mappings,
    selections,
    texts,
)

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
