"""Steps that no token ever gets to."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.finding import Finding, found, listed
from noetl.net.flow import Flow


def find_unreachable_steps(flow: Flow) -> Iterator[Finding]:
    """Every step should be on some way from the entry (S-51)."""
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
            "repair the way to it first",
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
