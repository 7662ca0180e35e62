"""Cycles in which tokens may multiply."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.finding import Finding, found
from noetl.net.flow import Flow
from noetl.net.net import Edge
from noetl.net.walks import find_components, find_cycle


def find_token_growth(flow: Flow) -> Iterator[Finding]:
    """A step that sends two tokens into its own cycle doubles them on every turn.

    Nothing merges them (S-05), unless all ways back lead through one join.
    """
    for group in flow.cycles:
        forks = [fork for step in group if (fork := _find_fork(flow, step, set(group)))]
        if not forks:
            continue
        unmerged = _find_unmerged(flow, group)
        for first, second in forks:
            together = unmerged[first.source]
            if first.target in together or second.target in together:
                yield _describe(flow, group, first, second)


def _find_fork(flow: Flow, step: str, inside: set[str]) -> tuple[Edge, Edge] | None:
    for outcome in sorted(flow.net.outcomes(step)):
        for arcs in flow.fire_together(step, outcome):
            staying = [edge for edge in arcs if edge.target in inside]
            if len(staying) > 1:
                return staying[0], staying[1]
    return None


def _find_unmerged(flow: Flow, group: list[str]) -> dict[str, set[str]]:
    """For each step, the ones it is in a cycle with that no join merges."""
    inside = set(group)
    merging = {
        step
        for step in group
        if flow.net.steps[step].join
        and len(inside.intersection(flow.net.sources(step))) > 1
    }

    def onward(step: str) -> Iterator[str]:
        if step in merging:
            return
        for target in flow.targets(step):
            if target in inside and target not in merging:
                yield target

    together: dict[str, set[str]] = {}
    for component in find_components(group, onward):
        members = set(component)
        together.update((step, members) for step in component)
    return together


def _describe(flow: Flow, group: list[str], first: Edge, second: Edge) -> Finding:
    inside = set(group)
    step = first.source
    cycle = find_cycle(
        step, lambda name: (to for to in flow.targets(name) if to in inside)
    )
    return found(
        "warning",
        "S-05",
        "tokens-unbounded",
        second.arc.at,
        f"'{step}' may send tokens to '{first.target}' and '{second.target}' at once, "
        f"and both can come back to '{step}': the number of tokens may grow without "
        "bound",
        hint="let one of them leave the cycle, merge them with spec.join, or use "
        "mode: exclusive",
        witness=(*flow.path_to(step), *cycle[1:]),
    )
