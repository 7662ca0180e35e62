"""Drawings of a net: text for other programs, and an SVG picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from noetl.net.net import Edge

Look = Literal["done", "flawed", "failed", "active", "skipped", "idle"]
"""``flawed``: done, with an ignored error or with failed iterations."""


@dataclass(frozen=True, slots=True)
class Paint:
    """Look, note and link by step.

    ``fired`` counts tokens by step and position of the arc.
    """

    looks: Mapping[str, Look] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    fired: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def count(self, edge: Edge) -> int:
        return self.fired.get((edge.source, edge.number), 0)

    def flow(self, edge: Edge) -> str:
        """Return the CSS class of an arc that fired, or did not."""
        if self is PLAIN:
            return ""
        return " fired" if self.count(edge) else " still"


PLAIN = Paint()
"""Paint of a net without an execution."""
