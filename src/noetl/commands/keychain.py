"""``noetl keychain``: secrets of this home, stored sealed and never shown."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import click

from noetl.adapters.secrets.cipher import Cipher
from noetl.adapters.secrets.stored import Record, StoredKeychain
from noetl.client import Client, Refused
from noetl.commands.hints import warn_of_new_names
from noetl.commands.targets import ca_option, need_server
from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.engine.times import rfc3339
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.types import JSON

SINGLE = "secret_manager"
KINDS = (SINGLE, "postgres_credential", "http_credential", "oauth2")
FIELDS = {
    "postgres_credential": ("host", "port", "user", "password", "database", "dsn"),
    "http_credential": ("username", "password", "token", "name", "value"),
    "oauth2": tuple(KEYCHAIN["oauth2"].fields),
}
"""What the tools read of a credential; it may have others, for templates."""
SECRET = frozenset({"password", "token", "value", "dsn", "client_secret"})
LARGEST = 1024 * 1024
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_server = click.option(
    "--server", metavar="URL", help="The keychain of this server, not of the home."
)


@click.group("keychain")
def command() -> None:
    """Store secrets for playbooks: sealed at rest, never printed.

    A playbook reads them by name: keychain: [{name: api_token, kind: secret_manager}].
    Each of the commands takes --json.

    \b
    Example:
      noetl keychain set api_token
    """


@command.command("set")
@click.argument("name")
@click.option(
    "--kind", type=click.Choice(KINDS), default=SINGLE, help=f"What it is ({SINGLE})."
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="K[=V]",
    help="A field of a credential; without =V its value is asked for.",
)
@_server
@ca_option
@_json
def set_(
    name: str,
    kind: str,
    fields: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Store a secret, or replace it.

    The value is read from standard input, or asked for without echo on a terminal:
    never from the command line, where others can see it. A credential has fields.

    \b
    Examples:
      noetl keychain set api_token < token.txt
      noetl keychain set pg --kind postgres_credential \\
        --field host=db --field user=me --field password
    """
    if not name or len(name) > 255 or not name.isprintable():
        raise ConfigError("a name has 1 to 255 printable characters")
    value = _read_fields(fields) if fields else _read_value(name, kind)
    if kind in FIELDS and isinstance(value, Mapping):
        warn_of_new_names(value, FIELDS[kind], "--field", kind)
    kept = _kept(server)
    replaced = kept.set(name, value, kind, rfc3339(time.time()))
    record = kept.list()[name]
    if as_json:
        click.echo(json.dumps({**_line(name, record), "replaced": replaced}))
    else:
        click.echo(f"{'replaced' if replaced else 'stored'}: {_words(name, record)}")


@command.command("list")
@_server
@ca_option
@_json
def list_(server: str | None, as_json: bool) -> None:
    """List what is stored: names, kinds and fields, no values.

    \b
    Example:
      noetl keychain list
    """
    records = _kept(server).list()
    if as_json:
        lines = [_line(name, record) for name, record in records.items()]
        click.echo(json.dumps({"keychain": lines}, ensure_ascii=False))
        return
    if not records:
        click.echo("nothing is stored; begin with: noetl keychain set NAME")
    for name, record in records.items():
        click.echo(f"{record.updated_at}  {_words(name, record)}")


@command.command("delete")
@click.argument("name")
@_server
@ca_option
@_json
def delete(name: str, server: str | None, as_json: bool) -> None:
    """Forget a secret. Executions that are under way keep theirs.

    \b
    Example:
      noetl keychain delete api_token
    """
    kept = _kept(server)
    if not kept.delete(name):
        match = nearest(name, kept.list())
        hint = f"did you mean '{match}'?" if match else "see noetl keychain list"
        raise ConfigError(f"the keychain has no '{name}'; {hint}")
    click.echo(json.dumps({"name": name}) if as_json else f"deleted: {name}")


class _OfServer:
    """The keychain of a server, by its API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def set(self, name: str, value: JSON, kind: str, now: str) -> bool:
        replaced = name in self.list()
        self._client.post(f"/api/keychain/{name}", {"value": value, "kind": kind})
        return replaced

    def list(self) -> dict[str, Record]:
        found = self._client.get("/api/keychain")["keychain"]
        return {
            each["name"]: Record(each["kind"], each["fields"], each["updated_at"], "")
            for each in found
        }

    def delete(self, name: str) -> bool:
        try:
            self._client.call("DELETE", f"/api/keychain/{name}")
        except Refused as refused:
            if refused.kind == "keychain.unknown":
                return False
            raise
        return True


def _kept(server: str | None) -> StoredKeychain | _OfServer:
    if server is not None:
        return _OfServer(need_server(server))
    home = Home.of()
    return StoredKeychain(home.keychain, Cipher(home.key))


def _read_value(name: str, kind: str) -> JSON:
    if kind == SINGLE:
        return _checked(_asked(name) if sys.stdin.isatty() else _piped(), name)
    if sys.stdin.isatty():
        raise ConfigError(f"{kind} has fields: --field user=me --field password …")
    try:
        value = json.loads(_piped())
    except ValueError:
        value = None
    if not isinstance(value, Mapping) or not value:
        message = f"{kind} has fields: give --field K=V, or a JSON mapping on stdin"
        raise ConfigError(message)
    return value


def _read_fields(settings: Sequence[str]) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    lines: Iterator[str] | None = None
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not name:
            raise ConfigError("--field: write it as name=value, or as name")
        if name in found:
            raise ConfigError(f"--field {name} stands twice")
        if equals and name in SECRET:
            text = f"--field {name}=…: others can read a command line; without =… the"
            click.echo(f"warning: {text} value is asked for, or piped", err=True)
        if not equals and sys.stdin.isatty():
            value = _asked(name)
        elif not equals:
            lines = lines if lines is not None else iter(_piped().splitlines())
            value = next(lines, "")
        found[name] = _checked(value, name)
    return found


def _asked(name: str) -> str:
    answer: str = click.prompt(name, hide_input=True, err=True)
    return answer


def _piped() -> str:
    data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ConfigError(f"standard input has more than {LARGEST:,} bytes")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError("standard input is not UTF-8 text") from None


def _checked(value: str, name: str) -> str:
    if not value.strip():
        raise ConfigError(f"the value of '{name}' is empty: nothing was stored")
    return value


def _line(name: str, record: Record) -> dict[str, JSON]:
    return {
        "name": name,
        "kind": record.kind,
        "fields": record.fields,
        "updated_at": record.updated_at,
    }


def _words(name: str, record: Record) -> str:
    fields = f" ({', '.join(record.fields)})" if record.fields is not None else ""
    return f"{name}: {record.kind}{fields}"
