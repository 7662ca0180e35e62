"""Executions that nobody asks about leave the memory: the log has them."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.runs import status_of
from noetl.runtime.live import Live

IDLE = 60.0
"""Seconds after which an execution that nobody asked about leaves the memory."""

MOST = 10_000
"""Executions in memory above which those that are idle do not stay so long."""


def idle_ones(lives: Mapping[str, Live], now: float, *, shared: bool) -> list[str]:
    """Those that need not stay in memory: the log has them.

    Where the tools run in this process (not ``shared``), only those that wait: a tool
    that is at work asks whether its execution still wants it.
    """
    return [
        name
        for name, live in lives.items()
        if not live.busy
        and (live.used < now - IDLE or len(lives) > MOST)
        and (live.state.finished or shared or status_of(live.state) == "waiting")
    ]
