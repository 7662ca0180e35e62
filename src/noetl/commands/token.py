"""``noetl token``: API tokens of a server's accounts."""

from __future__ import annotations

import json
import re

import click

from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.types import JSON

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_UNITS = {"m": 60, "h": 3600, "d": 86400}


@click.group("token")
def command() -> None:
    """Create, list and revoke API tokens for programs and workers.

    Each of the commands takes --json.

    \b
    Example:
      noetl token create gpu-1 --label "rack 7"
    """


@command.command("create")
@click.argument("user")
@click.option("--label", required=True, help="The purpose of the token.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="ROLE[:WHERE]",
    help="Limit the token to this role; may be repeated.",
)
@click.option("--expires", metavar="TIME", help="The lifetime: 12h, 90d.")
@server_option
@_json
@pass_settings
def create(
    settings: Settings,
    user: str,
    label: str,
    scopes: tuple[str, ...],
    expires: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Create a token of USER and print it. It is shown only once and not stored.

    It has the rights of its account, or fewer with --scope.

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
    answer = need_server(settings, server).post("/api/tokens", body)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    click.echo(answer["token"])
    click.echo(f"created: {_words(answer)}", err=True)


@command.command("list")
@click.option("--user", help="Only tokens of this account.")
@server_option
@_json
@pass_settings
def list_(
    settings: Settings, user: str | None, server: str | None, as_json: bool
) -> None:
    """List tokens with account, label and dates; never the tokens themselves.

    \b
    Example:
      noetl token list --user ann
    """
    answer = need_server(settings, server).get("/api/tokens", user=user)
    if as_json:
        click.echo(json.dumps(answer, ensure_ascii=False))
        return
    for line in answer["tokens"]:
        click.echo(_words(line))
    if not answer["tokens"]:
        click.echo("no tokens; create one with: noetl token create USER --label TEXT")


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@server_option
@_json
@pass_settings
def revoke(
    settings: Settings, token_id: str, server: str | None, as_json: bool
) -> None:
    """Revoke a token by its id, which `noetl token list` shows.

    \b
    Example:
      noetl token revoke 5f0c2a9be7d41c33
    """
    if token_id.startswith("ntl_"):
        message = "give the id of the token, not the token: see noetl token list"
        raise ConfigError(f"{message}; then revoke it, others may have seen it now")
    need_server(settings, server).call("DELETE", f"/api/tokens/{token_id}")
    click.echo(
        json.dumps({"token_id": token_id}) if as_json else f"revoked: {token_id}"
    )


def _seconds(text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhd])", text)
    if found is None:
        hint = "write it as 30m, 12h or 90d"
        raise ConfigError(f"--expires: '{text}' is not a valid duration; {hint}")
    return int(found[1]) * _UNITS[found[2]]


def _words(line: JSON) -> str:
    limits = "" if line["scopes"] is None else f", only {', '.join(line['scopes'])}"
    ends = f", until {line['expires_at']}" if line["expires_at"] else ""
    used = f", used {line['last_used_at']}" if line["last_used_at"] else ", never used"
    what = f"{line['user']}, {line['label']}{limits}{ends}{used}"
    return f"{line['token_id']} ({what})"
