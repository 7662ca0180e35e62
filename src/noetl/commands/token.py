"""``noetl token``: API tokens of the accounts of a server."""

from __future__ import annotations

import json
import re

import click

from noetl.commands.targets import need_server, server_option
from noetl.errors import ConfigError
from noetl.types import JSON

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_UNITS = {"m": 60, "h": 3600, "d": 86400}


@click.group("token")
def command() -> None:
    """Make, list and revoke API tokens: for programs and workers.

    Each of the commands takes --json.

    \b
    Example:
      noetl token create gpu-1 --label "rack 7"
    """


@command.command("create")
@click.argument("user")
@click.option("--label", required=True, help="What it is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="ROLE[:WHERE]",
    help="It can do no more than this; may be repeated.",
)
@click.option("--expires", metavar="TIME", help="How long it is valid: 12h, 90d.")
@server_option
@_json
def create(
    user: str,
    label: str,
    scopes: tuple[str, ...],
    expires: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Make a token of USER and print it: this once, it is kept nowhere.

    It has the rights of its account, or fewer by --scope.

    \b
    Examples:
      noetl token create gpu-1 --label "rack 7" > gpu-1.token
      noetl token create ann --label ci --scope viewer --expires 90d
    """
    seconds = _seconds(expires) if expires is not None else None
    body = {
        "user": user,
        "label": label,
        "scopes": [*scopes] or None,
        "expires_in": seconds,
    }
    answer = need_server(server).post("/api/tokens", body)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    click.echo(answer["token"])
    click.echo(f"created: {_words(answer)}", err=True)


@command.command("list")
@click.option("--user", help="Only those of this account.")
@server_option
@_json
def list_(user: str | None, server: str | None, as_json: bool) -> None:
    """List tokens: whose, what for, since when; never the tokens themselves.

    \b
    Example:
      noetl token list --user ann
    """
    answer = need_server(server).get("/api/tokens", user=user)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["tokens"]:
        click.echo(_words(line))
    if not answer["tokens"]:
        click.echo("no tokens; begin with: noetl token create USER --label WHAT")


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@server_option
@_json
def revoke(token_id: str, server: str | None, as_json: bool) -> None:
    """End a token by its id, which `noetl token list` shows.

    \b
    Example:
      noetl token revoke 5f0c2a9be7d41c33
    """
    if token_id.startswith("ntl_"):
        message = "name a token by its id, not by itself: see noetl token list"
        raise ConfigError(f"{message}; and revoke it, for others may have seen it now")
    need_server(server).call("DELETE", f"/api/tokens/{token_id}")
    click.echo(
        json.dumps({"token_id": token_id}) if as_json else f"revoked: {token_id}"
    )


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if found is None:
        hint = "write it as 30m, 12h or 90d"
        raise ConfigError(f"--expires: '{text}' is no time; {hint}")
    return int(found[1]) * _UNITS[found[2]]


def _words(line: JSON) -> str:
    limits = "" if line["scopes"] is None else f", only {', '.join(line['scopes'])}"
    ends = f", until {line['expires_at']}" if line["expires_at"] else ""
    used = f", used {line['last_used_at']}" if line["last_used_at"] else ", never used"
    what = f"{line['user']}, {line['label']}{limits}{ends}{used}"
    return f"{line['token_id']} ({what})"
