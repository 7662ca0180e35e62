"""Connection pools, shared by calls with the same credential and limit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from noetl.adapters.network import Network
from noetl.adapters.network.network import PinnedLoop
from noetl.adapters.tools.postgres.dsn import Address
from noetl.adapters.tools.postgres.values import CODECS
from noetl.errors import ToolError

log = logging.getLogger("noetl.worker")

_DENIED = (
    asyncpg.InvalidAuthorizationSpecificationError,  # also for a wrong password
    asyncpg.ConnectionDoesNotExistError,
)
_BROKEN = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_NEXT_HOST = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.TargetServerAttributeNotMatched,
)


class Dialer:
    """Remembers the hosts that accepted the second mode, and tries it first then."""

    def __init__(self, address: Address, network: Network) -> None:
        self._address = address
        self._arguments = address.arguments()
        self._swapped: set[tuple[str, int]] = set()
        self.loop: Any = PinnedLoop(network)

    async def connect(self, *_: Any, **options: Any) -> Any:
        """Open a connection; the driver's pool calls this with further options."""
        options = {**self._arguments, **options, "loop": self.loop}
        if self._address.sslmode not in ("allow", "prefer"):
            return await asyncpg.connect(**options)
        async with asyncio.timeout(options.pop("timeout")):
            return await self._first_host(options)

    async def _first_host(self, options: dict[str, Any]) -> Any:
        """Connect to the first host that matches ``target_session_attrs``."""
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
        if is_refusal(refused):  # a broken handshake may be accidental
            self._swapped ^= {(host, port)}
        return connection


def is_refusal(error: Exception) -> bool:
    """Return whether the server refused this mode."""
    return isinstance(error, _DENIED) or has_no_tls(error)


def has_no_tls(error: Exception) -> bool:
    return type(error) is ConnectionError and "rejected SSL" in str(error)


def is_broken(error: Exception) -> bool:
    return isinstance(error, _BROKEN)


def is_mismatch(error: Exception) -> bool:
    return isinstance(error, asyncpg.TargetServerAttributeNotMatched)


def clearer(first: Exception, second: Exception) -> Exception:
    """Choose the more useful error: a wrong password, then the later one."""
    wrong = asyncpg.InvalidPasswordError
    takes_first = isinstance(first, wrong) or has_no_tls(second)
    return first if takes_first and not isinstance(second, wrong) else second


_MAX_IDLE_S = 60.0  # a free connection is closed after this time
_CLOSE_TIMEOUT_S = 5.0  # for the server to acknowledge a cancelled query
_STOP_TIMEOUT_S = 5.0  # for another connection to stop a query that was not cancelled
_STOP = """
SELECT pg_terminate_backend(pid{wait}) FROM pg_stat_activity
WHERE pid = {backend} AND usename = current_user AND state = 'active'
"""


class Pools:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._pools: dict[tuple[Address, int], tuple[Any, Dialer]] = {}
        self._returning: set[asyncio.Task[None]] = set()
        self._opening = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def borrow(self, address: Address, most: int) -> AsyncIterator[Any]:
        """Borrow a reset connection; a query that still runs at the end is stopped."""
        pool, dialer = await self._pool(address, most)
        try:
            connection = await pool.acquire()
        except TimeoutError:
            message = f"no connection to {address} after {address.connect_timeout:g} s"
            raise ToolError("timeout", message, retryable=True) from None
        try:
            yield connection
        finally:
            # A second cancellation must not leave a running query behind.
            task = asyncio.create_task(give_back(pool, connection, dialer))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
            await asyncio.shield(task)

    async def close(self) -> None:
        for pool, _ in self._pools.values():
            try:
                await asyncio.wait_for(pool.close(), _CLOSE_TIMEOUT_S)
            except TimeoutError:
                pool.terminate()
        self._pools.clear()
        if self._returning:
            await asyncio.wait(self._returning)

    async def _pool(self, address: Address, most: int) -> tuple[Any, Dialer]:
        async with self._opening:
            found = self._pools.get((address, most))
            if found is None:
                dialer = Dialer(address, self._network)
                pool = await asyncpg.create_pool(
                    connect=dialer.connect,
                    loop=dialer.loop,
                    min_size=0,
                    max_size=most,
                    max_inactive_connection_lifetime=_MAX_IDLE_S,
                    init=set_up,
                    reset=forget,
                    statement_cache_size=0,  # an external pooler may switch servers
                )
                found = self._pools[address, most] = pool, dialer
            return found


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
    """Reset settings, roles, temporary tables and locks for the next call."""
    await connection.execute("DISCARD ALL")


async def give_back(pool: Any, connection: Any, dialer: Dialer) -> None:
    """Release a connection, or close it if it cannot be reset in time."""
    backend = connection.get_server_pid()
    try:
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            # Waits for the server to acknowledge a cancelled query first.
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            await pool.release(connection)
    except (Exception, asyncio.CancelledError) as error:
        with contextlib.suppress(asyncpg.InterfaceError):
            connection.terminate()
        if isinstance(error, TimeoutError):
            await stop_backend(dialer, backend)


async def stop_backend(dialer: Dialer, backend: int) -> None:
    """Stop a query whose cancellation was lost, by a connection of its own.

    PostgreSQL drops a cancellation that arrives before it reads the query, and does not
    notice that a client has left while a query runs.
    """
    try:
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            connection = await dialer.connect()
            try:
                waits = connection.get_server_version().major >= 14
                wait = ", 4000" if waits else ""  # milliseconds, until it has ended
                await connection.execute(_STOP.format(backend=backend, wait=wait))
            finally:
                connection.terminate()
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        log.warning(
            "the query of PostgreSQL process %s may still run: it acknowledged no"
            " cancellation, and another connection could not stop it",
            backend,
        )
