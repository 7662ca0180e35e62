"""An event loop whose connections go to checked addresses, for asyncpg.

asyncpg takes host names and a loop, and nothing in between. The driver keeps the name,
so TLS verifies it and SNI shows it; only the connection goes to a checked address. The
request that cancels a query takes the same way.
"""

from __future__ import annotations

import asyncio
from typing import Any

from noetl.adapters.network.network import Network


class PinnedLoop:
    """Everything but connections is the running loop's own."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(
        self, factory: Any, host: str, port: int, **options: Any
    ) -> Any:
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        failed: OSError | None = None
        for address in await self._network.resolve(host, port):
            try:
                return await self._loop.create_connection(
                    factory, address, port, **options
                )
            except OSError as error:
                failed = error
        assert failed is not None
        raise failed

    async def create_unix_connection(
        self, factory: Any, path: str, **options: Any
    ) -> Any:
        self._network.check_socket(path)
        return await self._loop.create_unix_connection(factory, path, **options)
