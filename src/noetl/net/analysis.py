"""Static analysis: every check over one net, what they found in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from noetl.net.checks.admission import find_closed_gates
from noetl.net.checks.arcs import find_dead_arcs
from noetl.net.checks.cycles import find_endless_cycles
from noetl.net.checks.ends import find_missing_end
from noetl.net.checks.failures import find_unhandled_failures
from noetl.net.checks.growth import find_token_growth
from noetl.net.checks.joins import find_broken_joins
from noetl.net.checks.reachability import find_unreachable_steps
from noetl.net.finding import Finding
from noetl.net.flow import Flow
from noetl.net.net import Net

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


def analyse(net: Net) -> list[Finding]:
    """What can go wrong in the net, without running it.

    An error certainly ends badly once a token gets there; a warning probably is not
    what was meant; a hint is worth knowing.
    """
    flow = Flow(net)
    findings = [finding for check in CHECKS for finding in check(flow)]
    return sorted(findings, key=lambda item: (item.line, item.column, item.rule))
