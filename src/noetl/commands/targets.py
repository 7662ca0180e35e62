"""Which server a command talks to: named, running under this home, or none."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from noetl.adapters.secrets.token import read_token
from noetl.client import Client
from noetl.commands.logs import find_execution
from noetl.config import CA, SERVER, TOKEN, read_settings
from noetl.errors import ConfigError, Unreachable
from noetl.home import Home
from noetl.presence import find_server
from noetl.trust import trusted

F = TypeVar("F", bound=Callable[..., Any])


def ca_option(command: F) -> F:
    """``--ca FILE``: a setting of this one call, and of what it starts."""

    def set_ca(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            os.environ[CA.variable] = os.path.abspath(value)

    return click.option(
        "--ca",
        metavar="FILE",
        expose_value=False,
        callback=set_ca,
        help="Trust this authority of the server's certificate (NOETL_CA).",
    )(command)


def server_option(command: F) -> F:
    """``--server URL`` and ``--ca FILE``."""
    return click.option(
        "--server", metavar="URL", help="Ask this server (NOETL_SERVER)."
    )(ca_option(command))


def named_server(url: str | None) -> Client | None:
    """The server of ``--server`` or ``NOETL_SERVER``, if one is named."""
    found = url.rstrip("/") if url else read_settings()[SERVER]
    if found is None:
        return None
    if not found.startswith(("http://", "https://")):
        hint = "write it as http://127.0.0.1:8082"
        raise ConfigError(f"--server {found}: no address of a server; {hint}")
    return Client(found, token_of_home(), trust_of)


def own_server() -> Client | None:
    """The server that runs under this home."""
    running = find_server(Home.of().server)
    if running is None or running.url is None:
        return None
    return Client(running.url, token_of_home(), trust_of)


def trust_of(url: str) -> ssl.SSLContext:
    """The server of this home by its very certificate, others by their authority."""
    running = find_server(Home.of().server)
    if running is not None and running.url == url and running.certificate is not None:
        return trusted(pinned=running.certificate)
    return trusted(read_settings()[CA])


def own_cluster() -> Client | None:
    """The server that runs under this home, on a database: no log of the home has its
    executions."""
    running = find_server(Home.of().server)
    return own_server() if running is not None and running.shared else None


async def server_of(url: str | None, execution: str) -> Client | None:
    """The server to ask about an execution; None if a log of this home has it."""
    client = named_server(url)
    if client is not None:
        return client
    cluster = own_cluster()
    if cluster is not None and execution != "last":
        with suppress(ConfigError):
            await find_execution(Home.of(), execution)
            return None
    return cluster


def need_server(url: str | None) -> Client:
    """Raises ``Unreachable`` if none is named and none runs."""
    client = named_server(url) or own_server()
    if client is None:
        message = f"no server runs under {Home.of().folder}"
        raise Unreachable(f"{message}; start one: noetl server start, or use --server")
    return client


def need_own_server() -> Client:
    """Whoever else writes its log would be in its way."""
    client = own_server()
    if client is None:
        message = "the execution belongs to the server of this home, which does not run"
        raise Unreachable(f"{message}; start it: noetl server start")
    return client


def token_of_home() -> str | None:
    given = read_settings()[TOKEN]
    if given is not None:
        return given
    file = Home.of().token
    return read_token(file) if file.is_file() else None
