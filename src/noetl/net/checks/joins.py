"""Checks for joins that can never fill, and for sources that never deliver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl.dsl.model import Join
from noetl.net.finding import Finding, found, listed
from noetl.net.flow import Flow
from noetl.net.graph_search import explore, find_components, trace
from noetl.net.net import Edge


def explore_before(flow: Flow, join: str) -> dict[str, str | None]:
    """Return the steps that a token can reach before it has passed the join."""
    start = () if flow.net.entry is None else (flow.net.entry,)
    return explore(start, lambda step: () if step == join else flow.targets(step))


def count_deliveries(
    flow: Flow, join: str, sources: list[str]
) -> tuple[int, str | None]:
    """Return how many of ``sources`` one token at the entry can make deliver, at most.

    An upper bound, never too low: an exclusive router takes its best branch, an
    inclusive one adds all that may fire together. The second value is the first step
    that has to choose between sources, if there is one.
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
        """Return the sets of targets that may fire together, each once."""
        choices: dict[frozenset[str], tuple[Edge, ...]] = {}
        for outcome in sorted(self._flow.net.outcomes(step)):
            for arcs in self._flow.fire_together(step, outcome):
                choices[frozenset(edge.target for edge in arcs)] = arcs
        return choices.values()

    def _weigh_arcs(self, arcs: tuple[Edge, ...], inside: set[str]) -> int:
        targets = {edge.target for edge in arcs}
        if len(targets) > 1 and targets & inside:
            return len(
                self._sources
            )  # one token stays in the cycle and may deliver again
        total = int(self._join in targets and arcs[0].source in self._sources)
        return total + sum(self.most[to] for to in targets - inside - {self._join})


def find_broken_joins(flow: Flow) -> Iterator[Finding]:
    """A join must be able to get the tokens that it waits for (S-04)."""
    for name in flow.reachable:
        join = flow.net.steps[name].join
        if join is None:
            continue
        if name == flow.net.entry:
            yield _warn_of_entry(join, name)
            continue
        able = _find_deliverers(flow, name)
        yield from _check_count(flow, join, name, able)
        if join.sources is not None and able:
            yield from _check_sources(flow, join, name, able)


def _warn_of_entry(join: Join, name: str) -> Finding:
    return found(
        "warning",
        "S-04",
        "join-at-entry",
        join.at,
        f"the first token comes from no step, so the join of '{name}' has nothing to "
        "wait for",
        hint="begin with a step that has no join",
        witness=(name,),
    )


def _find_deliverers(flow: Flow, name: str) -> list[str]:
    """Return the sources that can send a token before the join has fired once."""
    before = explore_before(flow, name)
    return [
        source
        for source in flow.net.sources(name)
        if source in before and source != name and name in flow.targets(source)
    ]


def _check_count(
    flow: Flow, join: Join, name: str, able: list[str]
) -> Iterator[Finding]:
    need = join.need if isinstance(join.need, int) else 1
    if not able:
        yield _never_fills(flow, join, name, _explain_silence(flow, name))
    elif need > len(able):
        who = f"only {listed(able)} can send one"
        if len(able) < len(flow.net.sources(name)):
            who += " before it has fired"
        yield _never_fills(flow, join, name, f"it waits for {need} tokens, but {who}")
    elif need > 1:
        most, chooser = count_deliveries(flow, name, able)
        if need > most:
            why = f"it waits for {need} tokens, but at most {most} can arrive"
            if chooser:
                why += f": '{chooser}' sends each token to only one step"
            yield _never_fills(flow, join, name, why, chooser)


def _explain_silence(flow: Flow, name: str) -> str:
    sources = flow.net.sources(name)
    if sources == (name,):
        return "it waits only for itself"
    if all(source not in flow.net.predecessors(name) for source in sources):
        return f"{listed(sources)} sends it no token: there is no arc"
    if any(source in flow.parents for source in sources):
        return f"{listed(sources)} can send one only after the join has fired"
    return f"no token ever reaches {listed(sources)}"


def _never_fills(
    flow: Flow, join: Join, name: str, why: str, chooser: str | None = None
) -> Finding:
    witness = flow.path_to(name)
    if chooser is not None:
        onward = trace(explore([chooser], flow.targets), name)
        witness = (*flow.path_to(chooser), *onward[1:])
    return found(
        "error",
        "S-04",
        "join-never-fills",
        join.at,
        f"the join of '{name}' can never fill: {why}; the execution ends in error "
        "join.unreachable",
        hint="list under 'from' the steps that have an arc here, and wait for no more "
        "than can arrive (mode: all never waits for a branch that was not taken)",
        witness=witness,
    )


def _check_sources(
    flow: Flow, join: Join, name: str, able: list[str]
) -> Iterator[Finding]:
    listed_sources = flow.net.sources(name)
    for source in listed_sources:
        why = None if source in able else _explain_source(flow, name, source)
        if why is not None:
            yield found(
                "warning",
                "S-04",
                "join-source-silent",
                join.at,
                f"the join of '{name}' names '{source}', {why}",
                hint=f"add an arc from '{source}' to '{name}', or do not name it",
                witness=flow.path_to(name),
            )
    for stranger in flow.net.predecessors(name):
        if (
            stranger not in listed_sources
            and stranger in flow.parents
            and name in flow.targets(stranger)
        ):
            yield found(
                "warning",
                "S-04",
                "join-stranger",
                join.at,
                f"'{stranger}' has an arc to '{name}', whose join does not wait for it",
                hint=f"add '{stranger}' to 'from', or change the target of its arc",
                witness=(*flow.path_to(stranger), name),
            )


def _explain_source(flow: Flow, name: str, source: str) -> str | None:
    """Return why a source never delivers; None if it may, once the join has fired."""
    if source not in flow.net.predecessors(name):
        return "which has no arc to it"
    if source not in flow.parents:
        return "which no token ever reaches"
    if name not in flow.targets(source):
        return "whose arc to it never fires"
    return None
