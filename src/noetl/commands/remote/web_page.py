"""One-time links that open a page of the web UI, signed in."""

from __future__ import annotations

import os
import socket
import webbrowser
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

import click

from noetl.client.http import Client
from noetl.commands.remote.choose_server import own_server
from noetl.commands.server import start_server
from noetl.commands.server_options import Door
from noetl.config import PORT, Settings
from noetl.errors import ConfigError, NoetlError
from noetl.local.home import Home
from noetl.local.process_files import find_server

HOST = "127.0.0.1"
DESKTOPS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
"""Variables of an environment in which a browser can be opened."""


class Link(NamedTuple):
    """A link that signs in once, within a minute."""

    url: str
    expires_at: str


def make_link(client: Client, page: str = "/") -> Link:
    """Ask the server for a link to a page. Raises ``NoetlError``."""
    made = client.post("/api/sessions/invitations")
    code = quote(str(made["code"]), safe="")
    place = "" if page == "/" else f"?next={quote(page, safe='')}"
    return Link(f"{client.url}/sign-in{place}#code={code}", made["expires_at"])


def find_or_start(settings: Settings, port: int | None = None) -> tuple[Client, bool]:
    """Return the server of this home, and whether it was started for this."""
    home = Home.of(settings)
    running = find_server(home.server)
    started = running is None or running.url is None
    if started:
        # It is for the owner of the home alone, like that of ``noetl up``.
        start_server(home, Door(port=_port(settings, port), personal=os.getcwd()))
    elif port not in (None, 0) and not str(running and running.url).endswith(
        f":{port}"
    ):
        message = f"the server already runs at {running and running.url}"
        raise ConfigError(f"{message}; to move it: noetl server stop")
    client = own_server(settings)
    if client is None:
        raise ConfigError("the server has ended; see noetl server status")
    return client, started


def _port(settings: Settings, port: int | None) -> int:
    """Return the port to listen on: that of the settings, or a free one if another
    program has it."""
    if port is not None:
        return port
    wanted: int = settings[PORT]
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((HOST, wanted))
        except OSError:
            return 0
    return wanted


def show_page(settings: Settings, page: str) -> None:
    """Print and open a link to a page; a failure is a warning."""
    try:
        client, _ = find_or_start(settings)
        link = make_link(client, page)
    except NoetlError as error:
        click.echo(f"warning: the web UI cannot be opened: {error}", err=True)
        return
    click.echo(f"live: {link.url}", err=True)
    open_browser(link)


def open_browser(link: Link) -> bool:
    """Open the link in the person's browser; return whether there is one."""
    if not any(os.environ.get(name) for name in DESKTOPS):
        return False
    with suppress(webbrowser.Error, OSError):
        return webbrowser.open(link.url)
    return False
