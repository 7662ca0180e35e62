"""Gates that let nobody in."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.finding import Finding, found
from noetl.net.flow import Flow


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
