"""Failures that no arc asks about."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.finding import Finding, found
from noetl.net.flow import Flow
from noetl.net.outcomes import fails_on_its_own


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
            "no arc asks about the failure",
            hint="if it should go on, add an arc with "
            "when: \"{{ event.name == 'step.failed' }}\"",
            witness=flow.path_to(name),
        )
