"""Client of NATS, a connection that is reopened whenever it ends, and wake-ups."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport

from noetl.adapters.nats.permissions import WAKEUPS

_BETWEEN = re.compile(",(?=nats://|tls://)")
"""Commas between the servers of an address."""
_VIOLATION = "permissions violation"


class CarefulClient(Client):
    """Refuses a server that does not offer TLS, if ``tls`` is given.

    The library would send the password in plain text then, also to an attacker on the
    way who removes the offer.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._wanted = tls

    async def join(self, address: str, **options: object) -> None:
        """Connect to one of the servers, by TLS if a context was given."""
        if self._wanted is not None:
            options["tls"] = self._wanted
        servers = _BETWEEN.split(address)
        await super().connect(servers, **options)  # type: ignore[arg-type]

    async def _process_info(
        self, info: dict[str, Any], initial_connection: bool = False
    ) -> None:
        """Use no server that the settings do not name: it would get the credential."""
        known = {name: info[name] for name in info if name != "connect_urls"}
        await super()._process_info(known, initial_connection)

    async def _process_connect_init(self) -> None:
        """Abort the connection if the handshake fails.

        The library would wait for its end, which never comes.
        """
        try:
            await super()._process_connect_init()
        except Exception:
            broken, self._transport = self._transport, None
            if isinstance(broken, TcpTransport) and broken._io_writer is not None:
                broken._io_writer.transport.abort()
            raise

    async def _process_pong(self) -> None:
        """Accept the answer to a ping whose caller has given up.

        The library would end its reading, and notice that minutes later.
        """
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    def _connect_command(self) -> bytes:
        """Make the command with the credential, after the server's greeting."""
        if self._wanted is not None and not self._server_info.get("tls_required"):
            raise nats.errors.SecureConnWantedError
        return super()._connect_command()


def is_denied(error: Exception) -> bool:
    """Return whether NATS denied a subject; the request gets no answer then."""
    return _VIOLATION in str(error).lower()


log = logging.getLogger("noetl.nats")

RECONNECT_S = 1
"""Time between two attempts to connect to NATS."""


class NatsLink:
    """Connected while ``serve`` runs, except while NATS is unreachable.

    ``no_echo`` suppresses our own messages. With ``tls``, nothing is sent in plain
    text.
    """

    def __init__(
        self, address: str, *, tls: ssl.SSLContext | None = None, no_echo: bool = False
    ) -> None:
        self._address = address
        self._tls = tls
        self._no_echo = no_echo
        self._joined = asyncio.Event()
        self.client = CarefulClient(tls)

    async def serve(
        self,
        joined: Callable[[Client], Awaitable[None]] | None = None,
        back: Callable[[], None] | None = None,
    ) -> None:
        """Stay connected until cancelled.

        Calls ``joined`` with each new client, ``back`` after each reconnect.
        """
        while True:
            try:
                await self._stay(joined, back)
            except (nats.errors.Error, OSError) as error:
                await _ignore(error)
            finally:
                with suppress(nats.errors.Error, OSError):
                    await self.client.close()
            await asyncio.sleep(RECONNECT_S)
            self.client = CarefulClient(self._tls)

    async def wait(self, seconds: float) -> bool:
        """Return whether it was connected within this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._joined.wait()
        return self._joined.is_set()

    async def _stay(
        self,
        joined: Callable[[Client], Awaitable[None]] | None,
        back: Callable[[], None] | None,
    ) -> None:
        closed = asyncio.Event()

        async def reconnected() -> None:
            if back is not None:
                back()

        async def end() -> None:
            closed.set()

        await self.client.join(
            self._address,
            name="noetl",
            no_echo=self._no_echo,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_S,
            connect_timeout=2,
            error_cb=_ignore,
            reconnected_cb=reconnected,
            closed_cb=end,
        )
        if joined is not None:
            await joined(self.client)
        self._joined.set()
        await closed.wait()


async def _ignore(error: Exception) -> None:
    """Log the type only: the text may quote the address and its password."""
    log.debug("NATS is unreachable: %s", type(error).__name__)


_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class NatsWakeups:
    """Sends wake-ups while ``serve`` runs; counts those that could not be sent.

    A server that made work ready notifies the others. NATS does not store the messages:
    a server that missed one finds the work in the database when it polls the next time.
    """

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self._link = NatsLink(address, tls=tls, no_echo=True)
        self._pools: set[str] = set()
        self._publishing: asyncio.Task[None] | None = None
        self._missed = 0

    def count_missed(self) -> float:
        return float(self._missed)

    def wake(self, pools: Collection[str]) -> None:
        if not self._link.client.is_connected:
            self._missed += 1
            return
        self._pools.update(pools)
        if self._publishing is None or self._publishing.done():
            self._publishing = asyncio.create_task(self._publish())

    async def serve(self, wake: Callable[[], None]) -> None:
        """Listen until cancelled.

        Calls ``wake`` when another server publishes one, and after each reconnect:
        one may have been missed.
        """

        async def receive(_: Msg) -> None:
            wake()

        async def listen(client: Client) -> None:
            await client.subscribe(f"{WAKEUPS}.*", cb=receive)

        await self._link.serve(listen, wake)

    async def _publish(self) -> None:
        """Publish the rung pools; pools rung while one message is sent follow it."""
        client = self._link.client
        try:
            while self._pools:
                pools, self._pools = self._pools, set()
                for pool in sorted(pools):
                    await client.publish(f"{WAKEUPS}.{_OTHER.sub('_', pool)}")
                await client.flush(timeout=2)
        except (nats.errors.Error, OSError, TimeoutError):
            self._missed += 1
