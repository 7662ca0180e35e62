"""The event loop of processes that serve others: long-lived, and mostly sockets."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine

SELDOM = (50_000, 20, 100)
"""What is made for one event is freed with it: cycles are few, and looking for them
is a tenth of the work."""


def run_long(main: Coroutine[None, None, None]) -> None:
    """Run it to its end, on a faster loop where there is one."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(*SELDOM)
    try:
        from uvloop import new_event_loop
    except ImportError:  # it comes with the extras `server` and `cluster`
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)
