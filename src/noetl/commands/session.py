"""``noetl session``: browser sessions of a server."""

from __future__ import annotations

import json

import click

from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("session")
def command() -> None:
    """List and end browser sessions of a server.

    Each of the commands takes --json.

    \b
    Example:
      noetl session list
    """


@command.command("list")
@click.option("--user", help="Only sessions of this account.")
@server_option
@_json
@pass_settings
def list_(
    settings: Settings, user: str | None, server: str | None, as_json: bool
) -> None:
    """List sessions with their account, address, start and end.

    \b
    Example:
      noetl session list --user ann
    """
    answer = need_server(settings, server).get("/api/sessions", user=user)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["sessions"]:
        where = f"from {line['client_ip'] or 'an unknown address'}"
        since = f"since {line['created_at']}, until {line['expires_at']}"
        click.echo(f"{line['session_id']} ({line['user']}, {where}, {since})")
    if not answer["sessions"]:
        click.echo("no session is open")


@command.command("means")
@server_option
@_json
@pass_settings
def means(settings: Settings, server: str | None, as_json: bool) -> None:
    """Show the ways to sign in to the server: password, and OpenID Connect if set.

    \b
    Example:
      noetl session means
    """
    client = need_server(settings, server)
    answer = client.get("/api/sessions/means")
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"by password: POST {client.url}/api/sessions")
    if answer["oidc"] is not None:
        click.echo(f"by {answer['oidc']}: {client.url}{answer['sign_in']}")
    else:
        click.echo("by a provider: not configured (setting oidc_issuer)")


@command.command("end")
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--user", help="All sessions of this account.")
@server_option
@_json
@pass_settings
def end(
    settings: Settings,
    session_id: str | None,
    user: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """End a session, or all sessions of an account.

    \b
    Examples:
      noetl session end 7c41d3f0a2b94e6f8a1b2c3d4e5f6071
      noetl session end --user ann
    """
    if (session_id is None) == (user is None):
        raise ConfigError("give the id of one session, or an account with --user")
    client = need_server(settings, server)
    ended = 1
    if user is not None:
        ended = client.call("DELETE", f"/api/users/{user}/sessions")["ended"]
    else:
        client.call("DELETE", f"/api/sessions/{session_id}")
    if as_json:
        click.echo(json.dumps({"ended": ended}))
    else:
        click.echo(f"ended: {ended} session{'' if ended == 1 else 's'}")
