"""Arcs that never fire, although their step runs."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.diagnostics import nearest
from noetl.net.finding import Finding, found, listed
from noetl.net.flow import Flow
from noetl.net.guards import Event, read_guard
from noetl.net.net import Edge
from noetl.net.outcomes import OUTCOMES, boundary_events

_SAYS = {"done": "finishes", "failed": "fails"}


def find_dead_arcs(flow: Flow) -> Iterator[Finding]:
    """An arc should fire after some end of its step."""
    for step in flow.reachable:
        if flow.net.outcomes(step) == frozenset({"skipped"}):
            continue  # said once, at the gate
        for edge in flow.net.arcs_from(step):
            if not flow.net.is_live(edge):
                yield _describe(flow, edge)


def _describe(flow: Flow, edge: Edge) -> Finding:
    witness = (*flow.path_to(edge.source), edge.target)
    events = _events(flow, edge.source)
    if any("true" in read_guard(edge.arc.when, event) for event in events):
        return _shadowed(flow, edge, witness)
    if edge.arc.when is not None and not edge.arc.when.references:
        return found(
            "hint",
            "NEXT-14",
            "arc-switched-off",
            edge.arc.at,
            f"the arc from '{edge.source}' to '{edge.target}' is switched off: "
            "its guard is never true",
            hint="remove the arc if it is not needed any more",
            witness=witness,
        )
    return _never_true(flow, edge, events, witness)


def _shadowed(flow: Flow, edge: Edge, witness: tuple[str, ...]) -> Finding:
    winners = [
        other.target for other in flow.live[edge.source] if other.number < edge.number
    ]
    before = "the arcs before it take" if winners[1:] else "the arc before it takes"
    return found(
        "warning",
        "NEXT-05",
        "arc-shadowed",
        edge.arc.at,
        f"the arc from '{edge.source}' to '{edge.target}' never fires: "
        f"{before} every token (to {listed(winners)})",
        hint="in exclusive mode the first match wins: put guarded arcs first, "
        "or set next.spec.mode: inclusive",
        witness=witness,
    )


def _never_true(
    flow: Flow, edge: Edge, events: list[Event], witness: tuple[str, ...]
) -> Finding:
    names = [event["name"] for event in events]
    return found(
        "warning",
        "NEXT-10",
        "arc-never-fires",
        edge.arc.at,
        f"the arc from '{edge.source}' to '{edge.target}' never fires: its guard is "
        f"true after none of the events that '{edge.source}' ends with "
        f"({', '.join(names)})",
        hint=_suggest(flow, edge, names),
        witness=witness,
    )


def _suggest(flow: Flow, edge: Edge, names: list[str]) -> str:
    source = edge.arc.when.source if edge.arc.when else ""
    if "step.failed" in source and "failed" not in flow.net.outcomes(edge.source):
        return f"nothing in '{edge.source}' can fail"
    if "loop.done" in source:
        return f"'{edge.source}' has no loop; its end is step.done"
    for word in source.replace('"', "'").split("'")[1::2]:
        if word not in names and (close := nearest(word, names)):
            return f"did you mean '{close}'?"
    return "arcs see event.name step.done, step.failed or, of a loop, loop.done"


def _events(flow: Flow, step: str) -> list[Event]:
    outcomes = flow.net.outcomes(step)
    return [
        event
        for outcome in OUTCOMES
        if outcome in outcomes
        for event in boundary_events(flow.net.steps[step], outcome)
    ]
