"""Parts of campaigns, and their sums."""

from __future__ import annotations

from collections import Counter

import msgspec

MAXIMA = ("longest", "largest")
"""First words of figures of which the largest counts, and not the sum."""


class Part(msgspec.Struct, kw_only=True):
    """The result of one part of a campaign."""

    seed: int
    seconds: float = 0.0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    figures: dict[str, float] = msgspec.field(default_factory=dict)
    lists: dict[str, list[float]] = msgspec.field(default_factory=dict)
    wrong: list[str] = msgspec.field(default_factory=list)


class Total(msgspec.Struct):
    """The sums of a campaign's finished parts."""

    parts: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    figures: dict[str, float] = msgspec.field(default_factory=dict)
    lists: dict[str, list[float]] = msgspec.field(default_factory=dict)

    def add(self, part: Part) -> None:
        self.parts += 1
        self.seconds += part.seconds
        self.faults = dict(Counter(self.faults) + Counter(part.faults))
        for name, values in part.lists.items():
            self.lists[name] = [*self.lists.get(name, ()), *values]
        for name, value in part.figures.items():
            known = self.figures.get(name, 0)
            larger = name.startswith(MAXIMA)
            self.figures[name] = max(known, value) if larger else known + value

    def describe(self) -> str:
        faults = [f"{count:,} {name}" for name, count in sorted(self.faults.items())]
        figures = [f"{name} {value:,.4g}" for name, value in self.figures.items()]
        lists = [
            f"{name} {' '.join(f'{value:.1f}' for value in values)}"
            for name, values in self.lists.items()
        ]
        head = f"{self.seconds / 60:.1f} min in {self.parts} parts"
        return "; ".join([head, ", ".join(faults), ", ".join(figures), *lists])
