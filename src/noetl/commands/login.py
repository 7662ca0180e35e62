"""``noetl login``: a token of one's own account at a server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

import click

from noetl.client.http import Client, Refused
from noetl.commands.local.logins import KeptLogin, keep_login, origin_of
from noetl.commands.remote.choose_server import server_option, stranger_at
from noetl.commands.settings import pass_settings
from noetl.config import TOKEN, Settings
from noetl.dsl.node import printable
from noetl.errors import ConfigError, Unreachable
from noetl.local.home import Home
from noetl.types import JSON

SLOWER_S = 5.0
"""Seconds that a provider's `slow_down` adds to the interval."""
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command("login")
@click.option(
    "--label", metavar="TEXT", help="What the token is for (this machine's name)."
)
@server_option
@_json
@pass_settings
def command(
    settings: Settings, label: str | None, server: str | None, as_json: bool
) -> None:
    """Sign in to a server through its OpenID Connect provider.

    Open the address that is printed, in any browser, and check that the page shows the
    same code. The token has the roles of your account, ends after 7 days, and is kept
    in the home's file `logins.json`, which only you can read. Other commands send it to
    that server alone. Exit code: 0, or 2 if the sign-in is refused.

    \b
    Example:
      noetl login --server https://noetl.example.com
    """
    client = stranger_at(settings, server)
    begun = client.post("/api/logins")
    _show(begun)
    body = {"handle": begun["handle"], "label": (label or os.uname().nodename)[:200]}
    given = _await_token(client, body, begun)
    login = KeptLogin(
        given["token"], given["token_id"], given["user"], given["expires_at"]
    )
    keep_login(Home.of(settings).logins, client.url, login)
    if as_json:
        shown = {k: given[k] for k in ("token_id", "user", "expires_at")}
        click.echo(json.dumps({"server": origin_of(client.url), **shown}))
    else:
        until = f"until {login.expires_at}"
        click.echo(f"signed in to {client.url} as {printable(login.user)}, {until}")
    if settings[TOKEN] is not None:
        click.echo("warning: NOETL_TOKEN is set, and goes before the login", err=True)


def _show(begun: Mapping[str, JSON]) -> None:
    place = begun["verification_uri_complete"] or begun["verification_uri"]
    click.echo(f"open this page: {printable(place)}", err=True)
    said = "and check that it shows, or enter there, the code"
    click.echo(f"{said}: {printable(begun['user_code'])}", err=True)


def _await_token(
    client: Client, body: Mapping[str, str], begun: Mapping[str, JSON]
) -> Mapping[str, JSON]:
    """Ask until the user has decided. Raises ``Refused`` or ``ConfigError``."""
    interval = float(begun["interval"])
    ends = time.monotonic() + float(begun["expires_in"])
    while time.monotonic() < ends:
        try:
            answer: Mapping[str, JSON] = client.post("/api/logins/token", dict(body))
        except Unreachable:
            answer = {"state": "pending"}
        except Refused as refused:
            if refused.status != 429:
                raise
            answer = {"state": "slow_down"}
        if "token" in answer:
            return answer
        interval += SLOWER_S if answer["state"] == "slow_down" else 0.0
        time.sleep(interval)
    raise ConfigError("nothing was decided in time; sign in again: noetl login")
