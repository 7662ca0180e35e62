"""The server of a command: named by an option or setting, or of this home."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click

from noetl.adapters.secrets.private_files import read_token
from noetl.client.http import LOGIN, Client
from noetl.client.tls import Trust, trusted
from noetl.commands.local.logins import find_login
from noetl.commands.local.logs import find_execution
from noetl.config import CA, SERVER, TOKEN, Settings
from noetl.errors import ConfigError, Unreachable
from noetl.local.home import Home
from noetl.local.process_files import find_server

F = TypeVar("F", bound=Callable[..., Any])


def ca_option(command: F) -> F:
    """Add ``--ca FILE``, which also applies to processes that the command starts."""

    def set_ca(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            os.environ[CA.variable] = os.path.abspath(value)

    return click.option(
        "--ca",
        metavar="FILE",
        expose_value=False,
        callback=set_ca,
        help="Trust this certificate authority for the server (NOETL_CA).",
    )(command)


def server_option(command: F) -> F:
    """Add ``--server URL`` and ``--ca FILE``."""
    return click.option(
        "--server", metavar="URL", help="Use this server (NOETL_SERVER)."
    )(ca_option(command))


def named_server(settings: Settings, url: str | None) -> Client | None:
    """Return the server of ``--server`` or ``NOETL_SERVER``, if one is named."""
    found = url.rstrip("/") if url else settings[SERVER]
    if found is None:
        return None
    if not found.startswith(("http://", "https://")):
        hint = "write it as http://127.0.0.1:8082"
        raise ConfigError(f"--server {found}: not a valid server address; {hint}")
    return _client(settings, found, f" --server {found}" if url else "")


def own_server(settings: Settings) -> Client | None:
    """Return the server that runs under this home, if one does."""
    running = find_server(Home.of(settings).server)
    if running is None or running.url is None:
        return None
    return _client(settings, running.url)


def trust_of(settings: Settings) -> Trust:
    """Trust the server of this home by its certificate, others by an authority."""
    file, authority = Home.of(settings).server, settings[CA]

    def trust(url: str) -> ssl.SSLContext:
        running = find_server(file)
        if running is None or running.url != url or running.certificate is None:
            return trusted(authority)
        return trusted(pinned=running.certificate)

    return trust


def own_cluster(settings: Settings) -> Client | None:
    """Return the server of this home if it uses a database.

    Its executions are in no log of the home.
    """
    running = find_server(Home.of(settings).server)
    return own_server(settings) if running is not None and running.shared else None


async def server_of(
    settings: Settings, url: str | None, execution: str
) -> Client | None:
    """Find the server of an execution; None if a log of this home has it."""
    client = named_server(settings, url)
    if client is not None:
        return client
    cluster = own_cluster(settings)
    if cluster is not None and execution != "last":
        with suppress(ConfigError):
            await find_execution(Home.of(settings), execution)
            return None
    return cluster


def need_server(settings: Settings, url: str | None) -> Client:
    """Return the named server or that of this home. Raises ``Unreachable``."""
    client = named_server(settings, url) or own_server(settings)
    if client is None:
        message = f"no server is running under {Home.of(settings).folder}"
        raise Unreachable(f"{message}; start one: noetl server start, or use --server")
    return client


def need_own_server(settings: Settings) -> Client:
    """Return the server of this home, the only writer of its log.

    Raises ``Unreachable`` if it is not running.
    """
    client = own_server(settings)
    if client is None:
        message = "the execution needs the server of this home, which is not running"
        raise Unreachable(f"{message}; start it: noetl server start")
    return client


def _client(settings: Settings, url: str, option: str = "") -> Client:
    token = settings.value(TOKEN)
    if token.value is not None:
        place = token.place or "NOETL_TOKEN"
        return Client(url, token.value, trust_of(settings), place, option)
    home = Home.of(settings)
    if login := find_login(home.logins, url):
        return Client(url, login.token, trust_of(settings), LOGIN, option)
    trust = trust_of(settings)
    return Client(url, token_of_home(settings), trust, str(home.token), option)


def stranger_at(settings: Settings, url: str | None) -> Client:
    """Return the server of a command that signs in: it sends no token yet."""
    return Client(need_server(settings, url).url, None, trust_of(settings))


def token_of_home(settings: Settings) -> str | None:
    given = settings[TOKEN]
    if given is not None:
        return given
    file = Home.of(settings).token
    return read_token(file) if file.is_file() else None
