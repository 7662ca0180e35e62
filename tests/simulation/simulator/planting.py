"""Planted bugs: mutants of the protocol, put into the production code for a run.

A test proves that the simulation notices each of them. Those with ``held_back`` were
written before the checks were last extended, and no check was changed for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .patching import Patch

Plant = Callable[[Patch], None]


@dataclass(frozen=True)
class Bug:
    """A planted bug: its name, what it does wrong, and how it is planted."""

    name: str
    sentence: str
    plant: Plant
    held_back: bool
    kinds: tuple[str, ...] = ()
    """Kinds of faults that show a rare one: its seeds are directed at them."""
    paths: tuple[str, ...] = ()


BUGS: list[Bug] = []


def bug(
    name: str,
    sentence: str,
    *,
    held_back: bool = False,
    kinds: tuple[str, ...] = (),
    paths: tuple[str, ...] = (),
) -> Callable[[Plant], Plant]:
    def note(plant: Plant) -> Plant:
        BUGS.append(Bug(name, sentence, plant, held_back, kinds, paths))
        return plant

    return note
