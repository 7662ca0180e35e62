"""``noetl user``: the accounts of a server."""

from __future__ import annotations

import json

import click

from noetl.commands.asking import read_password
from noetl.commands.targets import (
    named_server,
    need_server,
    own_server,
    server_option,
)
from noetl.home import Home
from noetl.types import JSON

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
    """Make and change the accounts of a server: who may do what.

    Passwords are asked for, or read from standard input: never from the command line,
    where others can see them. Each of the commands takes --json.

    \b
    Example:
      noetl user add ann --role operator:finance/*
    """


@command.command("add")
@click.argument("name")
@_role
@click.option(
    "--no-password", is_flag=True, help="It comes with tokens alone (noetl token)."
)
@click.option("--email", help="An address of theirs.")
@click.option("--display-name", metavar="NAME", help="What others call them.")
@server_option
@_json
def add(
    name: str,
    roles: tuple[str, ...],
    no_password: bool,
    email: str | None,
    display_name: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Make an account. Without a role it can do nothing yet.

    If no server runs under this home, the account is made where it will look for it:
    in the home, or in the database of the settings. So the first admin is there before
    the first start.

    \b
    Examples:
      noetl user add ann --role admin
      noetl user add gpu-1 --role worker:gpu --no-password
    """
    client = named_server(server) or own_server()
    about: dict[str, JSON] = {
        "password": None if no_password else read_password(name),
        "email": email,
        "display_name": display_name,
    }
    if client is not None:
        body = {"name": name, "roles": list(roles), **about}
        made = client.post("/api/users", body)
    else:
        from noetl.commands.accounts import add_account

        made = add_account(Home.of(), name, list(roles), **about)
    _report(made, "added", as_json=as_json)


@command.command("list")
@server_option
@_json
def list_(server: str | None, as_json: bool) -> None:
    """List accounts and their roles.

    \b
    Example:
      noetl user list
    """
    answer = need_server(server).get("/api/users")
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
def roles_(
    name: str, roles: tuple[str, ...], server: str | None, as_json: bool
) -> None:
    """Give an account these roles and no others; its sessions end.

    Without a role, it can do nothing any more.

    \b
    Example:
      noetl user roles ann viewer operator:finance/*
    """
    answer = need_server(server).post(f"/api/users/{name}/roles", {"roles": [*roles]})
    _report(answer, "changed", as_json=as_json)


@command.command("password")
@click.argument("name")
@click.option("--none", "remove", is_flag=True, help="Take the password away.")
@server_option
@_json
def password(name: str, remove: bool, server: str | None, as_json: bool) -> None:
    """Give an account another password; its sessions end.

    \b
    Examples:
      noetl user password ann
      noetl user password ann < password.txt
    """
    client = need_server(server)
    body = {"password": None if remove else read_password(name)}
    answer = client.post(f"/api/users/{name}/password", body)
    _report(answer, "changed", as_json=as_json)


@command.command("delete")
@click.argument("name")
@server_option
@_json
def delete(name: str, server: str | None, as_json: bool) -> None:
    """Delete an account, its tokens and its sessions.

    \b
    Example:
      noetl user delete ann
    """
    answer = need_server(server).call("DELETE", f"/api/users/{name}")
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
