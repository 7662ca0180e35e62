"""How many sources of a join can deliver before it fires, at most."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.net.flow import Flow
from noetl.net.net import Edge
from noetl.net.walks import explore, find_components


def explore_before(flow: Flow, join: str) -> dict[str, str | None]:
    """The steps a token can get to before it has passed the join."""
    start = () if flow.net.entry is None else (flow.net.entry,)
    return explore(start, lambda step: () if step == join else flow.targets(step))


def count_deliveries(
    flow: Flow, join: str, sources: list[str]
) -> tuple[int, str | None]:
    """At most how many of ``sources`` one token at the entry can make deliver.

    An upper bound, never too low: an exclusive router takes its best branch, an
    inclusive one adds all that may fire together. With it comes the first step that
    has to choose between sources, if there is one.
    """
    counting = _Counting(flow, join, frozenset(sources))
    before = list(explore_before(flow, join))
    for group in find_components(before, counting.onward):
        counting.weigh(group)
    chooser = next((step for step in before if step in counting.choosers), None)
    return counting.most[before[0]], chooser


class _Counting:
    """Bounds per step, filled from the join backwards."""

    def __init__(self, flow: Flow, join: str, sources: frozenset[str]) -> None:
        self._flow = flow
        self._join = join
        self._sources = sources
        self.most: dict[str, int] = {join: 0}
        self.choosers: set[str] = set()

    def onward(self, step: str) -> tuple[str, ...]:
        return () if step == self._join else self._flow.targets(step)

    def weigh(self, group: list[str]) -> None:
        if group == [self._join]:
            return
        inside = set(group)
        best = max(self._weigh_step(step, inside) for step in group)
        self.most.update((step, best) for step in group)

    def _weigh_step(self, step: str, inside: set[str]) -> int:
        values = [self._weigh_arcs(arcs, inside) for arcs in self._choices(step)]
        if sum(value > 0 for value in values) > 1:
            self.choosers.add(step)
        return min(max(values, default=0), len(self._sources))

    def _choices(self, step: str) -> Iterable[tuple[Edge, ...]]:
        """What may fire together, each set of targets once."""
        choices: dict[frozenset[str], tuple[Edge, ...]] = {}
        for outcome in sorted(self._flow.net.outcomes(step)):
            for arcs in self._flow.fire_together(step, outcome):
                choices[frozenset(edge.target for edge in arcs)] = arcs
        return choices.values()

    def _weigh_arcs(self, arcs: tuple[Edge, ...], inside: set[str]) -> int:
        targets = {edge.target for edge in arcs}
        if len(targets) > 1 and targets & inside:
            return len(self._sources)  # a token stays behind and may deliver again
        total = int(self._join in targets and arcs[0].source in self._sources)
        return total + sum(self.most[to] for to in targets - inside - {self._join})
