"""What an execution did, as colours, counts and links on the picture of its net."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from noetl.net.net import Edge

Look = Literal["done", "failed", "active", "skipped", "idle"]


@dataclass(frozen=True, slots=True)
class Paint:
    """By step: its look, a short note below its tasks, and where a click leads.

    ``fired`` counts tokens by step and position of the arc.
    """

    looks: Mapping[str, Look] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    fired: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def count(self, edge: Edge) -> int:
        return self.fired.get((edge.source, edge.number), 0)

    def flow(self, edge: Edge) -> str:
        """The class of an arc that was taken, or was not."""
        if self is PLAIN:
            return ""
        return " fired" if self.count(edge) else " still"


PLAIN = Paint()
"""The net as it is, before anything ran."""
