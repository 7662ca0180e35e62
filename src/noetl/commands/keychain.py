"""``noetl keychain``: secrets, stored sealed and never printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from noetl.commands.local.keychain import for_option, line_of, open_kept, words_of
from noetl.commands.output.diagnostics import warn_of_new_names
from noetl.commands.remote import keychain_keys
from noetl.commands.remote.choose_server import ca_option
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.dsl.diagnostics import nearest
from noetl.dsl.grammar.keychain import KEYCHAIN
from noetl.errors import ConfigError
from noetl.ports.keychain import Change
from noetl.types import JSON

DEFAULT_KIND = "secret_manager"
KINDS = (DEFAULT_KIND, "postgres_credential", "http_credential", "oauth2")
FIELDS = {
    "postgres_credential": ("host", "port", "user", "password", "database", "dsn"),
    "http_credential": ("username", "password", "token", "name", "value"),
    "oauth2": tuple(KEYCHAIN["oauth2"].fields),
}
"""Fields that tools read from a credential; templates may use others."""
SECRET = frozenset(
    {"password", "token", "value", "dsn", "client_secret", "refresh_token"}
    | {"private_key"}
)
MAX_BYTES = 1024 * 1024
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_server = click.option(
    "--server", metavar="URL", help="Use the keychain of this server."
)


def _writes_an_entry(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that store or declare an entry."""
    return for_option(_server(ca_option(_json(function))))


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
    "--kind",
    type=click.Choice(KINDS),
    default=DEFAULT_KIND,
    help=f"The kind ({DEFAULT_KIND}).",
)
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="K[=V]",
    help="A field of a credential; without =V its value is asked for.",
)
@_writes_an_entry
@pass_settings
def set_(
    settings: Settings,
    name: str,
    kind: str,
    fields: tuple[str, ...],
    bound: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Store a secret, or replace it.

    The value is read from standard input, or asked for without echo on a terminal:
    never from the command line, which other users can see. A credential has fields.

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
    change = open_kept(settings, server).set(name, value, kind, bound)
    _show_change(name, change, "stored", as_json)


@command.command("declare")
@click.argument("name")
@click.option("--kind", required=True, help="env, file, vault, aws, gcp, azure, …")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="K=V",
    help="The place of the secret: path=…, variable=…, address=… (no secret).",
)
@_writes_an_entry
@pass_settings
def declare(
    settings: Settings,
    name: str,
    kind: str,
    fields: tuple[str, ...],
    bound: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Declare a secret of a server's host, so that playbooks can use it by name.

    On a server, kinds that read the host or use its credentials (env, file, vault, aws,
    gcp, azure, and those of plug-ins) work only through declared entries. A playbook
    names the entry: keychain: [{name: finance_db, kind: vault}]. The command needs the
    role admin.

    \b
    Example:
      noetl keychain declare finance_db --kind vault --for 'finance/*' \\
        --field path=secret/data/finance --field address=https://vault.example.com
    """
    _check_name(name)
    change = open_kept(settings, server).declare(
        name, kind, _read_settings(fields), bound
    )
    _show_change(name, change, "declared", as_json)


@command.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@_writes_an_entry
@pass_settings
def import_(
    settings: Settings,
    files: tuple[str, ...],
    bound: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Store the credentials of files that the original NoETL registers.

    A file is JSON or YAML: {name, type, data}, or a list of these. Nothing is stored
    unless all files can be read. Delete the files afterwards: they are not sealed.

    \b
    Example:
      noetl keychain import pg_local.json nats.yaml
    """
    found = [each for file in files for each in _read_credentials(file)]
    kept = open_kept(settings, server)
    for name, kind, value in found:
        _show_change(name, kept.set(name, value, kind, bound), "stored", as_json)


@command.command("list")
@_server
@ca_option
@_json
@pass_settings
def list_(settings: Settings, server: str | None, as_json: bool) -> None:
    """List stored and declared entries: names, kinds, fields and bindings, no values.

    \b
    Example:
      noetl keychain list
    """
    records = open_kept(settings, server).list()
    if as_json:
        lines = [line_of(name, record) for name, record in records.items()]
        click.echo(json.dumps({"keychain": lines}, ensure_ascii=False))
        return
    if not records:
        click.echo("the keychain is empty; start with: noetl keychain set NAME")
    for name, record in records.items():
        click.echo(f"{record.updated_at}  {words_of(name, record)}")


@command.command("delete")
@click.argument("name")
@_server
@ca_option
@_json
@pass_settings
def delete(settings: Settings, name: str, server: str | None, as_json: bool) -> None:
    """Delete a secret. Running executions keep their copy.

    \b
    Example:
      noetl keychain delete api_token
    """
    kept = open_kept(settings, server)
    if not kept.delete(name):
        match = nearest(name, kept.list())
        hint = f"did you mean '{match}'?" if match else "see noetl keychain list"
        raise ConfigError(f"the keychain has no '{name}'; {hint}")
    click.echo(json.dumps({"name": name}) if as_json else f"deleted: {name}")


for each in (keychain_keys.rotate, keychain_keys.keys, keychain_keys.move):
    command.add_command(each)

_RENAMED = {
    **{f"db_{name}": name for name in ("host", "port", "user", "password")},
    "db_name": "database",
    "dbname": "database",
    **{f"nats_{name}": name for name in ("url", "user", "password", "token")},
    "access_token": "token",
    "bearer_token": "token",
}
"""Fields of the original's credentials, and what the tools call them."""


def _read_credentials(file: str) -> Iterator[tuple[str, str, JSON]]:
    """Yield name, kind and value of each credential. Raises ``ConfigError``."""
    for entry in _entries_of(file):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        data = entry.get("data") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not data:
            message = f"{file}: a credential needs 'name' and 'data'"
            raise ConfigError(f"{message}, as the original NoETL registers it")
        _check_name(name)
        if not isinstance(data, Mapping):
            yield name, DEFAULT_KIND, str(data)
            continue
        kind = "http_credential"
        if str(entry.get("type")).startswith("postgres"):
            kind = "postgres_credential"
        yield name, kind, {_RENAMED.get(key, key): each for key, each in data.items()}


def _entries_of(file: str) -> Sequence[JSON]:
    from noetl.commands.files.playbook_files import read_file
    from noetl.dsl.diagnostics import Report
    from noetl.dsl.source import read_source

    content = read_file(file).content
    try:
        document = json.loads(content)
    except ValueError:
        report = Report()
        root = read_source(
            b"entries:\n" + content if content[:1] == b"-" else content, report
        )
        if root is None:
            why = next((each.message for each in report), "it is empty")
            raise ConfigError(f"{file}: not a credential: {why}") from None
        document = root.plain()
    if isinstance(document, Mapping):
        inner = document.get("entries") or document.get("credentials")
        document = inner if isinstance(inner, list) else [document]
    return document if isinstance(document, list) else [document]


def _check_name(name: str) -> None:
    if not name or len(name) > 255 or not name.isprintable():
        raise ConfigError("a name must have 1 to 255 printable characters")


def _show_change(name: str, change: Change, verb: str, as_json: bool) -> None:
    if as_json:
        line = {**line_of(name, change.record), "replaced": change.replaced}
        click.echo(json.dumps(line))
    else:
        verb = "replaced" if change.replaced else verb
        click.echo(f"{verb}: {words_of(name, change.record)}")


def _read_settings(settings: Sequence[str]) -> dict[str, str]:
    """Parse ``K=V`` fields of a declaration. Raises ``ConfigError``."""
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not key or not equals:
            raise ConfigError("--field: write it as name=value")
        if key in found:
            raise ConfigError(f"--field {key} is given twice")
        found[key] = value
    return found


def _read_value(name: str, kind: str) -> JSON:
    if kind == DEFAULT_KIND:
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
            raise ConfigError(f"--field {name} is given twice")
        if equals and name in SECRET:
            text = f"--field {name}=…: other users can read a command line; without =…"
            click.echo(f"warning: {text} the value is asked for, or piped", err=True)
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
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"standard input has more than {MAX_BYTES:,} bytes")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError("standard input is not UTF-8 text") from None


def _checked(value: str, name: str) -> str:
    if not value.strip():
        raise ConfigError(f"the value of '{name}' is empty: nothing was stored")
    return value
