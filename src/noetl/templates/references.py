"""Which names a template reads from its scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A name and the keys that are read from it, as far as they are constant."""

    path: Path
    guarded: bool
    """The template itself provides for its absence: by ``default``, ``is defined``."""

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass
class Reads:
    """References as they are found, in the order of the text."""

    _unguarded: dict[Path, bool] = field(default_factory=dict)
    _tested: set[Path] = field(default_factory=set)

    def add(self, path: Path, guarded: bool) -> None:
        self._unguarded[path] = self._unguarded.get(path, False) or not guarded

    def test(self, path: Path) -> None:
        """Note a path that is asked about with ``is defined``.

        Its other reads in the template count as guarded too, because the question is
        there to protect them: ``ctx.x is defined and ctx.x > 1``.
        """
        self._tested.add(path)

    def collect(self) -> tuple[Reference, ...]:
        return tuple(
            Reference(path, not unguarded or self._is_tested(path))
            for path, unguarded in self._unguarded.items()
        )

    def _is_tested(self, path: Path) -> bool:
        if not self._tested:
            return False
        return any(path[:length] in self._tested for length in range(1, len(path) + 1))


def merge(references: Sequence[tuple[Reference, ...]]) -> tuple[Reference, ...]:
    """The references of several templates; guarded where all of them guard."""
    reads = Reads()
    for group in references:
        for reference in group:
            reads.add(reference.path, reference.guarded)
    return reads.collect()
