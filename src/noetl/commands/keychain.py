"""``noetl keychain``: secrets of this home, stored sealed and never shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence

import click

from noetl.adapters.secrets.stored import Change
from noetl.commands.hints import warn_of_new_names
from noetl.commands.kept import for_option, line_of, open_kept, words_of
from noetl.commands.targets import ca_option
from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.errors import ConfigError
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
@for_option
@_server
@ca_option
@_json
def set_(
    name: str,
    kind: str,
    fields: tuple[str, ...],
    bound: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Store a secret, or replace it.

    The value is read from standard input, or asked for without echo on a terminal:
    never from the command line, where others can see it. A credential has fields.

    \b
    Examples:
      noetl keychain set api_token < token.txt
      noetl keychain set finance_api --for 'finance/*' < token.txt
      noetl keychain set pg --kind postgres_credential \\
        --field host=db --field user=me --field password
    """
    _check_name(name)
    value = _read_fields(fields) if fields else _read_value(name, kind)
    if kind in FIELDS and isinstance(value, Mapping):
        warn_of_new_names(value, FIELDS[kind], "--field", kind)
    change = open_kept(server).set(name, value, kind, bound)
    _show_change(name, change, "stored", as_json)


@command.command("declare")
@click.argument("name")
@click.option("--kind", required=True, help="env, file, vault, aws, gcp, azure, …")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="K=V",
    help="Where the secret is: path=…, variable=…, address=… (no secret).",
)
@for_option
@_server
@ca_option
@_json
def declare(
    name: str,
    kind: str,
    fields: tuple[str, ...],
    bound: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Let playbooks of a server use a secret of its host, by this name.

    On a server, kinds that read the host or use its credentials (env, file, vault, aws,
    gcp, azure, and those of plug-ins) work only through entries that are declared. A
    playbook names one: keychain: [{name: finance_db, kind: vault}]. It needs the role
    admin.

    \b
    Example:
      noetl keychain declare finance_db --kind vault --for 'finance/*' \\
        --field path=secret/data/finance --field address=https://vault.example.com
    """
    _check_name(name)
    change = open_kept(server).declare(name, kind, _read_settings(fields), bound)
    _show_change(name, change, "declared", as_json)


@command.command("list")
@_server
@ca_option
@_json
def list_(server: str | None, as_json: bool) -> None:
    """List what is stored or declared: names, kinds, fields and bindings, no values.

    \b
    Example:
      noetl keychain list
    """
    records = open_kept(server).list()
    if as_json:
        lines = [line_of(name, record) for name, record in records.items()]
        click.echo(json.dumps({"keychain": lines}, ensure_ascii=False))
        return
    if not records:
        click.echo("nothing is stored; begin with: noetl keychain set NAME")
    for name, record in records.items():
        click.echo(f"{record.updated_at}  {words_of(name, record)}")


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
    kept = open_kept(server)
    if not kept.delete(name):
        match = nearest(name, kept.list())
        hint = f"did you mean '{match}'?" if match else "see noetl keychain list"
        raise ConfigError(f"the keychain has no '{name}'; {hint}")
    click.echo(json.dumps({"name": name}) if as_json else f"deleted: {name}")


def _check_name(name: str) -> None:
    if not name or len(name) > 255 or not name.isprintable():
        raise ConfigError("a name has 1 to 255 printable characters")


def _show_change(name: str, change: Change, verb: str, as_json: bool) -> None:
    if as_json:
        line = {**line_of(name, change.record), "replaced": change.replaced}
        click.echo(json.dumps(line))
    else:
        verb = "replaced" if change.replaced else verb
        click.echo(f"{verb}: {words_of(name, change.record)}")


def _read_settings(settings: Sequence[str]) -> dict[str, str]:
    """``K=V`` of a declaration. Raises ``ConfigError``."""
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise ConfigError("--field: write it as name=value")
        if key in found:
            raise ConfigError(f"--field {key} stands twice")
        found[key] = value
    return found


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
