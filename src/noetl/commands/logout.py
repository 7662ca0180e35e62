"""``noetl logout``: end what ``noetl login`` has begun."""

from __future__ import annotations

import json

import click

from noetl.client.http import Client, Refused
from noetl.commands.local.logins import (
    find_login,
    forget_login,
    origin_of,
    read_logins,
)
from noetl.commands.remote.choose_server import need_server, server_option, trust_of
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError, Unreachable
from noetl.local.home import Home

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command("logout")
@click.option("--all", "everywhere", is_flag=True, help="At all servers.")
@server_option
@_json
@pass_settings
def command(
    settings: Settings, everywhere: bool, server: str | None, as_json: bool
) -> None:
    """Revoke the token that `noetl login` has got, and delete it here.

    Exit code: 0, or 3 if a server does not answer: the token is deleted here, and ends
    there by itself.

    \b
    Examples:
      noetl logout --server https://noetl.example.com
      noetl logout --all
    """
    file = Home.of(settings).logins
    urls = [*read_logins(file)] if everywhere else [need_server(settings, server).url]
    ended: list[str] = []
    lost: list[Unreachable] = []
    for url in urls:
        login = find_login(file, url)
        if login is None:
            message = f"there is no login at {url}"
            raise ConfigError(f"{message}; sign in with: noetl login --server {url}")
        forget_login(file, url)
        try:
            _revoke(Client(url, login.token, trust_of(settings)))
        except Unreachable as error:
            lost.append(error)
        ended.append(origin_of(url))
        if not as_json:
            click.echo(f"signed out of {url}")
    if as_json:
        click.echo(json.dumps({"ended": ended}))
    if lost:
        raise lost[0]


def _revoke(client: Client) -> None:
    try:
        client.call("DELETE", "/api/sessions/current")
    except Refused as refused:
        if refused.status != 401:  # the token has ended already
            raise
