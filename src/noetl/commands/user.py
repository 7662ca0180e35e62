"""``noetl user``: accounts of a server."""

from __future__ import annotations

import json
import sys

import click

from noetl.commands.remote.choose_server import (
    named_server,
    need_server,
    own_server,
    server_option,
)
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.types import JSON

MAX_BYTES = 64 * 1024


def read_password(whose: str) -> str:
    """Ask twice without echo on a terminal, else read the first line of stdin."""
    if sys.stdin.isatty():
        answer: str = click.prompt(
            f"password of {whose}", hide_input=True, confirmation_prompt=True, err=True
        )
        return answer
    data = sys.stdin.buffer.readline(MAX_BYTES)
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError("standard input is not UTF-8 text") from None
    if not text:
        message = f"standard input has no password for {whose}: nothing was changed"
        raise ConfigError(f"{message}; give the password as the first line")
    return text


_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_role = click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE[:WHERE]",
    help="viewer, operator:finance/*, worker:gpu, …; may be repeated.",
)


@click.group("user")
def command() -> None:
    """Create and change the accounts of a server and their roles.

    Passwords are asked for, or read from standard input: never from the command line,
    which other users can see. Each of the commands takes --json.

    \b
    Example:
      noetl user add ann --role operator:finance/*
    """


@command.command("add")
@click.argument("name")
@_role
@click.option(
    "--no-password", is_flag=True, help="Sign in with tokens only (noetl token)."
)
@click.option("--email", help="The email address.")
@click.option("--display-name", metavar="NAME", help="The name to show.")
@server_option
@_json
@pass_settings
def add(
    settings: Settings,
    name: str,
    roles: tuple[str, ...],
    no_password: bool,
    email: str | None,
    display_name: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Create an account. Without a role it has no rights yet.

    If no server is running under this home, the account is written to the store that
    the server will use: the home, or the database of the settings. So the first admin
    can be created before the first start.

    \b
    Examples:
      noetl user add ann --role admin
      noetl user add gpu-1 --role worker:gpu --no-password
    """
    client = named_server(settings, server) or own_server(settings)
    about: dict[str, JSON] = {
        "password": None if no_password else read_password(name),
        "email": email,
        "display_name": display_name,
    }
    if client is not None:
        body = {"name": name, "roles": list(roles), **about}
        made = client.post("/api/users", body)
    else:
        from noetl.commands.local.accounts import add_account

        made = add_account(settings, Home.of(settings), name, list(roles), **about)
    _report(made, "added", as_json=as_json)


@command.command("list")
@server_option
@_json
@pass_settings
def list_(settings: Settings, server: str | None, as_json: bool) -> None:
    """List accounts and their roles.

    \b
    Example:
      noetl user list
    """
    answer = need_server(settings, server).get("/api/users")
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["users"]:
        click.echo(_words(line))


@command.command("roles")
@click.argument("name")
@click.argument("roles", metavar="[ROLE[:WHERE]]...", nargs=-1)
@server_option
@_json
@pass_settings
def roles_(
    settings: Settings,
    name: str,
    roles: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Replace the roles of an account; its sessions end.

    Without a role, the account has no rights.

    \b
    Example:
      noetl user roles ann viewer operator:finance/*
    """
    answer = need_server(settings, server).post(
        f"/api/users/{name}/roles", {"roles": [*roles]}
    )
    _report(answer, "changed", as_json=as_json)


@command.command("password")
@click.argument("name")
@click.option("--none", "remove", is_flag=True, help="Remove the password.")
@server_option
@_json
@pass_settings
def password(
    settings: Settings, name: str, remove: bool, server: str | None, as_json: bool
) -> None:
    """Change the password of an account; its sessions end.

    \b
    Examples:
      noetl user password ann
      noetl user password ann < password.txt
    """
    client = need_server(settings, server)
    body = {"password": None if remove else read_password(name)}
    answer = client.post(f"/api/users/{name}/password", body)
    _report(answer, "changed", as_json=as_json)


@command.command("delete")
@click.argument("name")
@server_option
@_json
@pass_settings
def delete(settings: Settings, name: str, server: str | None, as_json: bool) -> None:
    """Delete an account, its tokens and its sessions.

    \b
    Example:
      noetl user delete ann
    """
    answer = need_server(settings, server).call("DELETE", f"/api/users/{name}")
    _report(answer, "deleted", as_json=as_json)


def _report(line: JSON, word: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(line, ensure_ascii=False))
    else:
        click.echo(f"{word}: {_words(line)}")


def _words(line: JSON) -> str:
    roles = ", ".join(line["roles"]) or "no roles"
    state = "" if line["has_password"] else "; no password"
    if line["issuer"] is not None:
        shown = line["email"] or line["display_name"] or "somebody"
        state = f"; {shown} by {line['issuer']}"
    state += "; disabled" if line["disabled"] else ""
    return f"{line['name']} ({roles}{state})"
