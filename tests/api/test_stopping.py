"""A server that is told to stop does so at once, not at the next look at a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.applications import Starlette

from noetl.api.http.quotas import Connections
from noetl.api.http.server import HttpServer


async def ends_without_waiting(work: Coroutine[Any, Any, None]) -> bool:
    task = asyncio.create_task(work)
    for _ in range(5):
        await asyncio.sleep(0)
    if not task.done():
        task.cancel()
    return task.done()


async def test_the_main_loop_ends_at_once_after_exit() -> None:
    server = HttpServer(Starlette(), Connections(10, 10))
    serving = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0)
    assert not serving.done()

    server.exit()

    await asyncio.sleep(0)
    assert await ends_without_waiting(asyncio.wait_for(serving, 60))


async def test_without_a_connection_the_shutdown_waits_for_nothing() -> None:
    server = HttpServer(Starlette(), Connections(10, 10))
    server.servers = []

    assert await ends_without_waiting(server.shutdown())
