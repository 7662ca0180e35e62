"""Executions that end only where no guard happens to be true."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.finding import Finding, found
from noetl.net.flow import Flow


def find_missing_end(flow: Flow) -> Iterator[Finding]:
    """Some way should lead to a step without ``next`` (STEP-05).

    Where no step can end at all, there is a cycle without exit, which says it better.
    """
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
        "no way leads to a terminal step; the execution ends only where no arc "
        f"fires, first after '{last}'",
        hint="add a step without next, so that the end can be seen",
        witness=flow.path_to(last),
    )
