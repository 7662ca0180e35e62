"""Opens connections to an address, with or without TLS as its ``sslmode`` asks.

The driver knows ``prefer`` and ``allow`` itself, but then it loads a client certificate
from the environment and the home of its process. It never does with a TLS context that
it is given, so the second attempt of these two modes is made here.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import asyncpg

from noetl.adapters.network import Network
from noetl.adapters.network.loops import PinnedLoop
from noetl.adapters.tools.pg.address import Address

_DENIED = (
    asyncpg.InvalidAuthorizationSpecificationError,  # also of a wrong password
    asyncpg.ConnectionDoesNotExistError,
)
_BROKEN = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_NEXT_HOST = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)


class Dialer:
    """Remembers which hosts wanted the second choice: it is their first one then."""

    def __init__(self, address: Address, network: Network) -> None:
        self._address = address
        self._arguments = address.arguments()
        self._swapped: set[tuple[str, int]] = set()
        self.loop: Any = PinnedLoop(network)

    async def connect(self, *_: Any, **options: Any) -> Any:
        """A connection; a pool of the driver calls this with options of its own."""
        options = {**self._arguments, **options, "loop": self.loop}
        if self._address.sslmode not in ("allow", "prefer"):
            return await asyncpg.connect(**options)
        async with asyncio.timeout(options.pop("timeout")):
            return await self._first_host(options)

    async def _first_host(self, options: dict[str, Any]) -> Any:
        """The first host that answers and is as ``target_session_attrs`` asks."""
        wanted = [options["target_session_attrs"]]
        if wanted == ["prefer-standby"]:
            wanted = ["standby", "any"]
        failed: Exception | None = None
        for attribute in wanted:
            options["target_session_attrs"] = attribute
            for pair in zip(self._address.hosts, self._address.ports, strict=True):
                try:
                    return await self._host(*pair, options)
                except _NEXT_HOST as error:
                    if failed is None or not is_mismatch(error):
                        failed = error
        assert failed is not None
        raise failed

    async def _host(self, host: str, port: int, options: dict[str, Any]) -> Any:
        options = {**options, "host": [host], "port": [port], "timeout": None}
        plain = {**options, "ssl": False}
        if host.startswith("/"):  # a socket of the machine has no TLS
            return await asyncpg.connect(**plain)
        swapped = (host, port) in self._swapped
        if (self._address.sslmode == "prefer") is not swapped:
            first, second = options, plain
        else:
            first, second = plain, options
        try:
            return await asyncpg.connect(**first)
        except (*_DENIED, OSError) as error:
            if not (is_refusal(error) or (first is options and is_broken(error))):
                raise
            refused = error
        try:
            connection = await asyncpg.connect(**second)
        except (*_DENIED, OSError) as error:
            raise clearer(refused, error) from None
        if is_refusal(refused):  # not after a broken handshake: that may be chance
            self._swapped ^= {(host, port)}
        return connection


def is_refusal(error: Exception) -> bool:
    """Tell whether the server answered that it does not let us in this way."""
    return isinstance(error, _DENIED) or has_no_tls(error)


def has_no_tls(error: Exception) -> bool:
    return type(error) is ConnectionError and "rejected SSL" in str(error)


def is_broken(error: Exception) -> bool:
    return isinstance(error, _BROKEN)


def is_mismatch(error: Exception) -> bool:
    return isinstance(error, asyncpg.TargetServerAttributeNotMatched)


def clearer(first: Exception, second: Exception) -> Exception:
    """Choose the error that tells more: a wrong password, then the later one."""
    wrong = asyncpg.InvalidPasswordError
    takes_first = isinstance(first, wrong) or has_no_tls(second)
    return first if takes_first and not isinstance(second, wrong) else second
