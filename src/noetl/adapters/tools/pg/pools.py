"""Connections, shared by all calls with the same credential and limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from noetl.adapters.network import Network
from noetl.adapters.tools.pg.address import Address
from noetl.adapters.tools.pg.dialer import Dialer
from noetl.adapters.tools.pg.values import CODECS
from noetl.errors import ToolError

_IDLE = 60.0  # seconds after which a free connection is closed
_PATIENCE = 5.0  # for the server to say that it has stopped


class Pools:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._pools: dict[tuple[Address, int], Any] = {}
        self._opening = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def borrow(self, address: Address, most: int) -> AsyncIterator[Any]:
        """A connection as if it were new. What still runs on it then, is stopped."""
        pool = await self._pool(address, most)
        try:
            connection = await pool.acquire()
        except TimeoutError:
            message = f"no connection to {address} after {address.connect_timeout:g} s"
            raise ToolError("timeout", message, retryable=True) from None
        try:
            yield connection
        finally:
            # Whoever is cancelled twice must not leave a query behind.
            await asyncio.shield(give_back(pool, connection))

    async def close(self) -> None:
        for pool in self._pools.values():
            try:
                await asyncio.wait_for(pool.close(), _PATIENCE)
            except TimeoutError:
                pool.terminate()
        self._pools.clear()

    async def _pool(self, address: Address, most: int) -> Any:
        async with self._opening:
            pool = self._pools.get((address, most))
            if pool is None:
                dialer = Dialer(address, self._network)
                pool = await asyncpg.create_pool(
                    connect=dialer.connect,
                    loop=dialer.loop,
                    min_size=0,
                    max_size=most,
                    max_inactive_connection_lifetime=_IDLE,
                    init=set_up,
                    reset=forget,
                    statement_cache_size=0,  # poolers in between hand out others
                )
                self._pools[address, most] = pool
            return pool


async def set_up(connection: Any) -> None:
    for name, codec in CODECS.items():
        await connection.set_type_codec(
            name,
            schema="pg_catalog",
            encoder=codec.encode,
            decoder=codec.decode,
            format=codec.format,
        )


async def forget(connection: Any) -> None:
    """Settings, roles, temporary tables and locks are not for the next one."""
    await connection.execute("DISCARD ALL")


async def give_back(pool: Any, connection: Any) -> None:
    """For the next one, or closed; one that was lost is out of the pool already."""
    try:
        async with asyncio.timeout(_PATIENCE):
            # Waits for the server to acknowledge a cancelled query first.
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            await pool.release(connection)
    except (Exception, asyncio.CancelledError):
        with contextlib.suppress(asyncpg.InterfaceError):
            connection.terminate()
