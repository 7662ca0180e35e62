"""Keys of a cluster's keychain, and secrets that move into it from a home."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

import click

from noetl.adapters.secrets.aes_gcm import Cipher
from noetl.adapters.secrets.home_keychain import StoredKeychain
from noetl.commands.local.keychain import OfServer, words_of
from noetl.commands.remote.choose_server import need_server, server_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.ports.keychain import Record
from noetl.types import JSON

POLL_S = 0.5
STUCK_S = 60.0
"""Seconds without progress after which a rotation is not waited for any more."""
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command("rotate")
@click.option(
    "--wait/--no-wait",
    default=True,
    help="Return when everything is sealed with the new key (--no-wait: at once).",
)
@server_option
@_json
@pass_settings
def rotate(settings: Settings, wait: bool, server: str | None, as_json: bool) -> None:
    """Seal the keychain of a cluster with a new key, without downtime.

    The key of the setting keychain_key seals the new one; if that has changed, first
    give it to all servers. Servers seal everything anew and remove the old keys, also
    if this command is interrupted. Needs the role admin.

    \b
    Example:
      noetl keychain rotate
    """
    client = need_server(settings, server)
    made = client.post("/api/keys", {})
    keys = client.get("/api/keys")["keys"]
    before, since = None, time.monotonic()
    while wait and (older := _older(keys)):
        left = sum(each["uses"] for each in older)
        if left != before:
            before, since = left, time.monotonic()
            if not as_json:
                click.echo(f"still sealed with older keys: {left}", err=True)
        elif time.monotonic() - since > STUCK_S:
            message = f"{left} of the secrets still have an older key, which stays; the"
            raise ConfigError(f"{message} servers' logs say what does not open")
        time.sleep(POLL_S)
        keys = client.get("/api/keys")["keys"]
    if as_json:
        click.echo(json.dumps({"key_id": made["key_id"], "keys": keys}))
        return
    if _older(keys):
        click.echo(f"new key: {made['key_id']}; watch it with: noetl keychain keys")
    else:
        click.echo(f"everything is sealed with the key {made['key_id']}")


def _older(keys: Sequence[Mapping[str, JSON]]) -> list[Mapping[str, JSON]]:
    return [each for each in keys if not each["is_current"]]


@click.command("keys")
@server_option
@_json
@pass_settings
def keys(settings: Settings, server: str | None, as_json: bool) -> None:
    """List the keys of a cluster's keychain, and how much each of them seals.

    \b
    Example:
      noetl keychain keys
    """
    found = need_server(settings, server).get("/api/keys")
    if as_json:
        click.echo(json.dumps(found))
        return
    for each in found["keys"]:
        state = "seals" if each["is_current"] else "opens"
        what = f"{state}, {each['uses']} sealed, itself sealed by {each['sealed_by']}"
        click.echo(f"{each['made_at']}  {each['key_id']}: {what}")


@click.command("move")
@server_option
@_json
@pass_settings
def move(settings: Settings, server: str | None, as_json: bool) -> None:
    """Move the secrets of this home into the keychain of a server.

    Kinds and bindings are kept. A name that the server has already is left in the home
    and reported. Run it once on each machine that has a server. Exit code: 0, or 1 if
    a secret was left.

    \b
    Examples:
      noetl keychain move
      noetl keychain move --server https://noetl.example.com
    """
    home = Home.of(settings)
    stored = StoredKeychain(home.keychain, Cipher(home.key))
    client = need_server(settings, server)
    client.get("/api/keys")  # refused if the server's keychain is in its home
    kept = OfServer(client)
    moved: list[str] = []
    left: list[str] = []
    # The server of this home lists what is in the home, too: that has no key.
    taken = {name for name, each in kept.list().items() if each.key is not None}
    for name, record in stored.list().items():
        if name in taken:
            left.append(name)
            continue
        _store(kept, stored, name, record)
        stored.delete(name)
        moved.append(name)
        if not as_json:
            click.echo(f"moved: {words_of(name, record)}")
    if as_json:
        click.echo(json.dumps({"moved": moved, "left": left}))
    elif not moved and not left:
        click.echo(f"{home.keychain} has no secrets")
    for name in left:
        message = f"'{name}' is in both keychains: delete it in one of them, and run "
        click.echo(f"error: {message}this again", err=True)
    if left:
        raise SystemExit(1)


def _store(kept: OfServer, stored: StoredKeychain, name: str, record: Record) -> None:
    """Store the entry on the server. Raises ``ConfigError`` if that is not in the
    keychain of a cluster then."""
    if record.declared is not None:
        change = kept.declare(name, record.kind, record.declared, record.bound)
    else:
        value = stored.open(name, record)
        change = kept.set(name, value, record.kind, record.bound)
    if change.record.key is None:
        raise ConfigError(f"'{name}' was not stored in the keychain of a cluster")
