"""Check for arcs that never fire, although their step runs."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.diagnostics import nearest
from noetl.net.finding import Finding, found, listed
from noetl.net.flow import Flow
from noetl.net.guards import Event, read_guard
from noetl.net.net import Edge
from noetl.net.step_outcomes import OUTCOMES, boundary_events, fails_on_its_own

_SAYS = {"done": "finishes", "failed": "fails"}


def find_dead_arcs(flow: Flow) -> Iterator[Finding]:
    """An arc should fire after some end of its step."""
    for step in flow.reachable:
        if flow.net.outcomes(step) == frozenset({"skipped"}):
            continue  # reported once, at the gate
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
            "warning",
            "S-75",
            "arc-switched-off",
            edge.arc.at["when"],
            f"the arc from '{edge.source}' to '{edge.target}' never fires: its guard "
            "is constant, and false",
            hint="compare something in the guard, or remove the arc",
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
        "hint" if _asks_for_impossible_failure(flow, edge) else "warning",
        "NEXT-10",
        "arc-never-fires",
        edge.arc.at,
        f"the arc from '{edge.source}' to '{edge.target}' never fires: its guard is "
        f"true after none of the events that '{edge.source}' ends with "
        f"({', '.join(names)})",
        hint=_suggest(flow, edge, names),
        witness=witness,
    )


def _asks_for_impossible_failure(flow: Flow, edge: Edge) -> bool:
    source = edge.arc.when.source if edge.arc.when else ""
    outcomes = flow.net.outcomes(edge.source)
    return "step.failed" in source and "failed" not in outcomes


def _suggest(flow: Flow, edge: Edge, names: list[str]) -> str:
    source = edge.arc.when.source if edge.arc.when else ""
    if _asks_for_impossible_failure(flow, edge):
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


def find_closed_gates(flow: Flow) -> Iterator[Finding]:
    """A step whose admission rules deny every token never runs (ADM-04, S-61)."""
    for name in flow.reachable:
        rules = flow.net.steps[name].admit
        if not rules or flow.net.outcomes(name) != frozenset({"skipped"}):
            continue
        fallback = next((rule for rule in rules if rule.when is None), None)
        whitelist = fallback is None and any(rule.allow for rule in rules)
        yield found(
            "warning",
            "S-61" if whitelist else "ADM-04",
            "step-never-admitted",
            rules[0].at,
            f"step '{name}' never runs: its admission rules deny every token",
            hint="no rule that allows can match, and without else the rest is denied"
            if whitelist
            else "the first match wins: look for a guard that is always true, "
            "or an else that denies",
            witness=flow.path_to(name),
        )


def find_missing_end(flow: Flow) -> Iterator[Finding]:
    """Some path should lead to a step without ``next`` (STEP-05). Where no step can
    end at all, the check for cycles reports it."""
    if any(not flow.net.arcs_from(step) for step in flow.reachable):
        return
    last = next((step for step in flow.reachable if flow.may_end(step)), None)
    if last is None:
        return
    yield found(
        "hint",
        "STEP-05",
        "no-terminal-step",
        flow.net.steps[last].at,
        "no path leads to a terminal step; the execution ends only where no arc "
        f"fires, first after '{last}'",
        hint="add a step without next, so that the end is explicit",
        witness=flow.path_to(last),
    )


def find_unhandled_failures(flow: Flow) -> Iterator[Finding]:
    """A failure is handled only by an arc with a ``when`` that fires on it (S-09)."""
    for name in flow.reachable:
        step = flow.net.steps[name]
        if "failed" not in flow.net.outcomes(name) or not fails_on_its_own(step):
            continue
        firing = [
            edge
            for edge in flow.live[name]
            if flow.net.firing(edge, "failed") != "never"
        ]
        if any(edge.arc.when is not None for edge in firing):
            continue
        goes_on = f" (after '{firing[0].target}' has run)" if firing else ""
        yield found(
            "hint",
            "S-09",
            "failure-unhandled",
            step.at,
            f"when step '{name}' fails, the execution ends in error{goes_on}: "
            "no arc handles the failure",
            hint="if it should go on, add an arc with "
            "when: \"{{ event.name == 'step.failed' }}\"",
            witness=flow.path_to(name),
        )
