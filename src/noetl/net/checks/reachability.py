"""Check for cycles in which tokens may multiply."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.diagnostics import Severity
from noetl.net.finding import Finding, found, listed
from noetl.net.flow import Flow
from noetl.net.graph_search import find_components, find_cycle
from noetl.net.net import Edge


def find_token_growth(flow: Flow) -> Iterator[Finding]:
    """A step that sends two tokens into its own cycle doubles them on every turn.
    Nothing merges them (S-05), unless all paths back lead through one join."""
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
    """Return, for each step, the steps of its cycle that no join merges."""
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


def find_endless_cycles(flow: Flow) -> Iterator[Finding]:
    """In a cycle, some step must be able to stop, or to send its token elsewhere.
    Otherwise the execution repeats it until its step runs are used up (S-36). With
    `executor.spec.limits` or `deadline` the cycle may be intended (S-75)."""
    for group in flow.cycles:
        inside = set(group)
        if any(flow.may_leave(step, inside) for step in group):
            continue
        witness = flow.path_around(group)
        gate = witness[-1]
        yield found(
            _weigh_cycle(flow, group),
            "S-36",
            "cycle-without-exit",
            flow.net.steps[gate].at,
            f"step '{gate}' is in a cycle that no token ever leaves; "
            "it repeats until limit.exceeded",
            hint="guard the arc that closes the cycle, e.g. with an attempt count in "
            "args, add an arc that leads out, or set executor.spec.deadline",
            witness=witness,
        )


def _weigh_cycle(flow: Flow, group: list[str]) -> Severity:
    if flow.net.bounded:
        return "hint"
    # A join may hold or discard tokens, and so end the cycle.
    joins = any(flow.net.steps[step].join for step in group)
    return "warning" if joins else "error"


def find_unreachable_steps(flow: Flow) -> Iterator[Finding]:
    """Every step should be on a path from the entry (S-51)."""
    for name, step in flow.net.steps.items():
        if name not in flow.parents:
            reason, hint, witness = _explain(flow, name)
            yield found(
                "warning",
                "S-51",
                "step-unreachable",
                step.at,
                f"no token ever reaches step '{name}': {reason}",
                hint=hint,
                witness=witness,
            )


def _explain(flow: Flow, name: str) -> tuple[str, str, tuple[str, ...]]:
    sources = [source for source in flow.net.predecessors(name) if source != name]
    reached = [source for source in sources if source in flow.parents]
    if not sources:
        return (
            "no other step has an arc to it",
            "add an arc to it, or remove it",
            (name,),
        )
    if not reached:
        return (
            f"only {listed(sources)} can send one, and nothing reaches that either",
            "repair the path to that step first",
            (sources[0], name),
        )
    first = reached[0]
    witness = (*flow.path_to(first), name)
    if flow.net.outcomes(first) == frozenset({"skipped"}):
        return f"'{first}' never lets one in", f"repair the gate of '{first}'", witness
    return (
        f"the arc from {listed(reached)} never fires",
        "repair that arc's guard, or its place in the list",
        witness,
    )
