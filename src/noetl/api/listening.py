"""Where the server listens, and the HTTP server that does it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from noetl.api.protocol import BoundedProtocol
from noetl.errors import ConfigError


class HttpServer(uvicorn.Server):
    """Signals are for whoever started us."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(_config(app))
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody may say who they are by a header
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )


def check_bind(host: str) -> None:
    """Raises ``ConfigError`` for an address that others can reach."""
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        raise ConfigError(f"'{host}' is no address; the default is 127.0.0.1") from None
    if not local:
        message = f"others can reach {host}, and only the local token guards it"
        raise ConfigError(f"{message}; bind 127.0.0.1 (auth.required_for_bind)")


@contextlib.contextmanager
def bind(host: str, port: int) -> Iterator[socket.socket]:
    """Raises ``ConfigError`` if the place is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            hint = "choose another one: noetl server start --port 8083"
            message = f"cannot listen at {host}:{port}: {reason}; {hint}"
            raise ConfigError(message) from None
        yield bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
