"""``noetl session``: who is signed in to a server."""

from __future__ import annotations

import json

import click

from noetl.commands.targets import need_server, server_option
from noetl.errors import ConfigError

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("session")
def command() -> None:
    """List and end sessions: who is signed in with a browser.

    Each of the commands takes --json.

    \b
    Example:
      noetl session list
    """


@command.command("list")
@click.option("--user", help="Only those of this account.")
@server_option
@_json
def list_(user: str | None, server: str | None, as_json: bool) -> None:
    """List sessions: whose, from where, and since when.

    \b
    Example:
      noetl session list --user ann
    """
    answer = need_server(server).get("/api/sessions", user=user)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["sessions"]:
        where = f"from {line['client_ip']}" if line["client_ip"] else "from somewhere"
        since = f"since {line['created_at']}, until {line['expires_at']}"
        click.echo(f"{line['session_id']} ({line['user']}, {where}, {since})")
    if not answer["sessions"]:
        click.echo("nobody is signed in")


@command.command("means")
@server_option
@_json
def means(server: str | None, as_json: bool) -> None:
    """Say how people sign in to the server: by password, or by a provider, too.

    \b
    Example:
      noetl session means
    """
    client = need_server(server)
    answer = client.get("/api/sessions/means")
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"by password: POST {client.url}/api/sessions")
    if answer["oidc"] is not None:
        click.echo(f"by {answer['oidc']}: {client.url}{answer['sign_in']}")
    else:
        click.echo("by a provider: none is set (oidc_issuer)")


@command.command("end")
@click.argument("session_id", metavar="[ID]", required=False)
@click.option("--user", help="All sessions of this account.")
@server_option
@_json
def end(
    session_id: str | None, user: str | None, server: str | None, as_json: bool
) -> None:
    """End a session, or all of an account.

    \b
    Examples:
      noetl session end 7c41d3f0a2b94e6f8a1b2c3d4e5f6071
      noetl session end --user ann
    """
    if (session_id is None) == (user is None):
        raise ConfigError("name one session by its id, or an account by --user")
    client = need_server(server)
    ended = 1
    if user is not None:
        ended = client.call("DELETE", f"/api/users/{user}/sessions")["ended"]
    else:
        client.call("DELETE", f"/api/sessions/{session_id}")
    if as_json:
        click.echo(json.dumps({"ended": ended}))
    else:
        click.echo(f"ended: {ended} session{'' if ended == 1 else 's'}")
