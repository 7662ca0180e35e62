"""Static analysis of a net: runs every check, and returns findings in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.model import Playbook
from noetl.net.checks.arcs import (
    find_closed_gates,
    find_dead_arcs,
    find_missing_end,
    find_unhandled_failures,
)
from noetl.net.checks.joins import find_broken_joins
from noetl.net.checks.reachability import (
    find_endless_cycles,
    find_token_growth,
    find_unreachable_steps,
)
from noetl.net.finding import Finding
from noetl.net.flow import Flow
from noetl.net.net import Net, build_net

Check = Callable[[Flow], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    find_unreachable_steps,
    find_dead_arcs,
    find_closed_gates,
    find_broken_joins,
    find_endless_cycles,
    find_token_growth,
    find_unhandled_failures,
    find_missing_end,
)


CERTAIN: tuple[Check, ...] = (find_dead_arcs, find_endless_cycles)
"""Checks whose findings are certain, so that ``noetl validate`` reports them (S-75)."""


def find_certain(playbook: Playbook) -> list[Diagnostic]:
    """Return what is certain about the net of a playbook without errors (S-75)."""
    if not any(step.next for step in playbook.workflow):
        return []
    return [found.plain for found in _run(CERTAIN, build_net(playbook))]


def analyse(net: Net) -> list[Finding]:
    """Return the problems of the net, without running it.

    An error certainly ends badly once a token gets there; a warning is probably not
    intended; a hint is worth knowing.
    """
    return _run(CHECKS, net)


def _run(checks: tuple[Check, ...], net: Net) -> list[Finding]:
    flow = Flow(net)
    findings = [finding for check in checks for finding in check(flow)]
    return sorted(findings, key=lambda item: (item.line, item.column, item.rule))
