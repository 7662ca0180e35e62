"""Flow of tokens: the net without the arcs that never fire."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from noetl.net.finding import ELLIPSIS, SHOWN
from noetl.net.graph_search import explore, find_components, find_cycle
from noetl.net.net import Edge, Net
from noetl.net.step_outcomes import Outcome


class Flow:
    """State shared by the checks: live arcs, reachable steps, paths, cycles."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.live: dict[str, tuple[Edge, ...]] = {
            step: tuple(edge for edge in net.arcs_from(step) if net.is_live(edge))
            for step in net.steps
        }

    @cached_property
    def parents(self) -> dict[str, str | None]:
        """Reachable steps, nearest first, each with its predecessor."""
        start = () if self.net.entry is None else (self.net.entry,)
        return explore(start, self.targets)

    @property
    def reachable(self) -> Iterator[str]:
        return iter(self.parents)

    def targets(self, step: str) -> tuple[str, ...]:
        return tuple(edge.target for edge in self.live[step])

    def path_to(self, step: str) -> tuple[str, ...]:
        """Return the shortest path from the entry, elided if long.

        The cost is that of the shown part, however deep the net is.
        """
        tail = [step]
        while (parent := self.parents.get(tail[-1])) is not None:
            if len(tail) == SHOWN + 1:
                return (*self._heads[step], ELLIPSIS, *reversed(tail[:-1]))
            tail.append(parent)
        return tuple(reversed(tail))

    @cached_property
    def _heads(self) -> dict[str, tuple[str, ...]]:
        """Beginnings of the paths to the steps; most steps share one."""
        heads: dict[str, tuple[str, ...]] = {}
        for step, parent in self.parents.items():
            head = heads[parent] if parent is not None else ()
            heads[step] = head if len(head) == SHOWN else (*head, step)
        return heads

    @cached_property
    def components(self) -> list[list[str]]:
        """Strongly connected reachable steps, each group after those it leads to."""
        return find_components(self.parents, self.targets)

    @cached_property
    def cycles(self) -> list[list[str]]:
        """Components in which a token can return to the same step."""
        return [
            group
            for group in self.components
            if len(group) > 1 or group[0] in self.targets(group[0])
        ]

    def path_around(self, group: list[str]) -> tuple[str, ...]:
        """Return the path from the entry into the cycle and once around it."""
        inside = set(group)
        gate = next(step for step in self.parents if step in inside)
        cycle = find_cycle(
            gate, lambda step: (name for name in self.targets(step) if name in inside)
        )
        return (*self.path_to(gate), *cycle[1:])

    def fire_together(self, step: str, outcome: Outcome) -> list[tuple[Edge, ...]]:
        """Return groups of arcs that may all fire after the same event."""
        by_number = {edge.number: edge for edge in self.net.arcs_from(step)}
        groups: list[tuple[Edge, ...]] = []
        for answer in self.net.answers(step, outcome):
            arcs = tuple(by_number[n] for n in answer.may if n in by_number)
            if arcs and arcs[0].mode == "inclusive":
                groups.append(arcs)
            else:
                groups.extend((arc,) for arc in arcs)
        return groups

    def may_end(self, step: str) -> bool:
        """Return whether some outcome of the step sends no token on."""
        return any(
            not any(answer.settled for answer in self.net.answers(step, outcome))
            for outcome in self.net.outcomes(step)
        )

    def may_leave(self, step: str, inside: set[str]) -> bool:
        """Return whether some outcome leaves no token of this step in ``inside``."""
        return any(
            self._outcome_leaves(step, outcome, inside)
            for outcome in self.net.outcomes(step)
        )

    def _outcome_leaves(self, step: str, outcome: Outcome, inside: set[str]) -> bool:
        stays = {
            edge.number for edge in self.net.arcs_from(step) if edge.target in inside
        }
        for answer in self.net.answers(step, outcome):
            if answer.must & stays:
                return False
            if not stays.issuperset(answer.may):
                return True
            if answer.settled:
                return False
        return True
