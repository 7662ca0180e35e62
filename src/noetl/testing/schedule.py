"""The order in which ready pipelines move: a number that brings it back."""

from __future__ import annotations

_MASK = (1 << 64) - 1


class Schedule:
    """SplitMix64: the same on every machine and in every version of Python.

    Number 0 lets the first one move, always: the order of the playbook.
    """

    def __init__(self, seed: int) -> None:
        self.free = False  # whether it ever had a choice
        self._ordered = seed == 0
        self._state = seed * 0x9E3779B97F4A7C15 & _MASK

    def choose(self, count: int) -> int:
        """One of so many."""
        self.free = self.free or count > 1
        if self._ordered or count == 1:
            return 0
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return (mixed ^ mixed >> 31) % count
