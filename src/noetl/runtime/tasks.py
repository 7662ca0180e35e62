"""Tasks in the background, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress


async def end_tasks(tasks: Iterable[asyncio.Future[None]]) -> None:
    """Cancel them, and wait until they are gone; how they end matters to nobody."""
    ended = list(tasks)
    for task in ended:
        task.cancel()
    for task in ended:
        with suppress(asyncio.CancelledError, Exception):
            await task
