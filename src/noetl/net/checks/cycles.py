"""Cycles that a token can enter but not leave."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.net.finding import Finding, found
from noetl.net.flow import Flow


def find_endless_cycles(flow: Flow) -> Iterator[Finding]:
    """In a cycle, some step must be able to stop, or to send its token elsewhere.

    Otherwise the execution goes round until it has used up its step runs (S-36).
    """
    for group in flow.cycles:
        inside = set(group)
        if any(flow.may_leave(step, inside) for step in group):
            continue
        witness = flow.path_around(group)
        gate = witness[-1]
        joins = any(flow.net.steps[step].join for step in group)
        yield found(
            # A join may hold or discard tokens, and so end what has no other end.
            "warning" if joins else "error",
            "S-36",
            "cycle-without-exit",
            flow.net.steps[gate].at,
            f"step '{gate}' is in a cycle that no token ever leaves; "
            "it goes round until limit.exceeded",
            hint="guard the arc that closes the cycle, e.g. with an attempt count in "
            "args, or add an arc that leads out",
            witness=witness,
        )
