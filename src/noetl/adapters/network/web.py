"""HTTP clients that connect to checked addresses only."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from noetl.adapters.network.network import BlockedAddress, Network, read_address


class PinnedResolver(AbstractResolver):
    """Resolver for aiohttp that returns only the allowed addresses of a name."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await self._network.resolve(host, port)
        ]

    async def close(self) -> None:
        pass


def open_session(
    network: Network, *, connections: int = 0, **options: Any
) -> aiohttp.ClientSession:
    """Open a session without cookies and environment.

    ``connections`` is the limit per host, 0 for none.

    A literal address is not resolved: call ``check_literal`` before each request.
    """
    connector = aiohttp.TCPConnector(
        resolver=PinnedResolver(network),
        use_dns_cache=False,  # an address is checked when it is used
        limit=0,
        limit_per_host=connections,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        **options,
    )


async def check_literal(network: Network, host: str, port: int) -> None:
    """Check an address that aiohttp would not resolve. Raises ``BlockedAddress``."""
    if read_address(host) is not None:
        await network.resolve(host, port)


def find_blocked(error: BaseException | None) -> BlockedAddress | None:
    """Find a ``BlockedAddress`` that aiohttp has wrapped."""
    while error is not None and not isinstance(error, BlockedAddress):
        error = getattr(error, "os_error", None) or error.__cause__
    return error
