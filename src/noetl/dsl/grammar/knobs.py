"""Knobs that several scopes share."""

from __future__ import annotations

from noetl.dsl.grammar.shape import DURATION, TEXT, Field, Shape

POOL = Field(TEXT, "S-64", "The worker pool that runs it (`default`).")
TIMEOUT = Field(
    Shape(("number", "text", "mapping"), words=f"{DURATION}, or a mapping per phase"),
    "S-35",
    "How long one attempt of a task may take.",
)
