"""The listening socket and the HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from noetl.access.request_guard import LOOPBACK, Hosts
from noetl.api.http.protocol import BoundedProtocol
from noetl.api.http.quotas import Connections
from noetl.errors import ConfigError


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program."""

    def __init__(
        self,
        app: ASGIApp,
        admission: Connections,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        config = _config(app, admission)
        config.load()
        config.ssl = tls
        super().__init__(config)
        self.ready = asyncio.Event()
        self._exiting = asyncio.Event()

    def exit(self) -> None:
        """Let ``serve`` end as soon as the answers under way are sent."""
        self.should_exit = True
        self._exiting.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Refresh the header ``Date`` each second, until ``exit``."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._exiting.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the sockets, and wait for connections that have an answer to send.

        The method of uvicorn sleeps in between, also if there is no connection.
        """
        for server in self.servers:
            server.close()
        for bound in sockets or []:
            bound.close()
        for connection in [*self.server_state.connections]:
            connection.shutdown()
        await asyncio.sleep(0)  # connections without an answer are closed now
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._wait_tasks_to_complete()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp, admission: Connections) -> uvicorn.Config:
    protocol: Any = partial(BoundedProtocol, admission=admission)
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # headers must not set the client's address
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )


def check_address(host: str) -> None:
    """Raise ``ConfigError`` if the host is not an address."""
    try:
        if host != "localhost":
            ip_address(host)
    except ValueError:
        message = f"'{host}' is not a valid address; the default is 127.0.0.1"
        raise ConfigError(message) from None


def known_names(host: str, hosts: Iterable[str]) -> Hosts:
    """Return the host names of a server that listens at this address."""
    own = [host] if host != "localhost" and not ip_address(host).is_unspecified else []
    own = [f"[{each}]" if ":" in each else each for each in own]
    return Hosts([*LOOPBACK, *own, *hosts])


@contextlib.contextmanager
def bind(host: str, port: int) -> Iterator[socket.socket]:
    """Open the listening socket. Raises ``ConfigError`` if the address is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is explicit: asyncio sets TCP_NODELAY only on TCP sockets, and
    # without it an answer in two parts waits 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit this option. Without it the second part of an answer
        # waits until the first one is acknowledged: 40 ms for each call.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            bound.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "choose another one, for example with --port 8083"
            message = f"cannot listen at {host}:{port}: {reason}; {hint}"
            raise ConfigError(message) from None
        yield bound


def url_of(bound: socket.socket, scheme: str = "http") -> str:
    """Return the local URL; a server on all addresses also listens on loopback."""
    host, port = bound.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
