"""``noetl catalog``: the playbooks that a server, or this home, has registered."""

from __future__ import annotations

import json
import sys

import click

from noetl.client import Client, Refused
from noetl.commands.local_catalog import LocalCatalog
from noetl.commands.reading import SourceFile, find_playbooks
from noetl.commands.targets import named_server, own_server, server_option
from noetl.errors import ConfigError
from noetl.types import JSON

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("catalog")
def command() -> None:
    """Register playbooks, list them, and compare their versions.

    Without a server it is the catalog of this home, which `noetl run` looks into for
    child playbooks, and which the server of this home uses.
    Each of the commands takes --json.

    \b
    Example:
      noetl catalog register orders.yaml
    """


@command.command("register")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@server_option
@_json
def register(files: tuple[str, ...], server: str | None, as_json: bool) -> None:
    """Register playbooks under their paths; of folders, all that are in them.

    What is registered stays as it is: a change needs another `metadata.version`, or
    none, then versions are numbered. Exit code: 0, or 2 if one was refused.

    \b
    Examples:
      noetl catalog register orders.yaml
      noetl catalog register playbooks/ --server http://127.0.0.1:8082
    """
    catalog = _catalog(server)
    sources, _ = find_playbooks(files)
    if not sources:
        raise ConfigError(f"no playbook in {', '.join(files)}")
    done = [_register(catalog, source, as_json=as_json) for source in sources]
    if as_json:
        click.echo(json.dumps({"playbooks": done}, ensure_ascii=False))
    sys.exit(2 if any("error" in each for each in done) else 0)


@command.command("list")
@click.option("--prefix", metavar="PATH", help="Only paths that begin so.")
@server_option
@_json
def list_(prefix: str | None, server: str | None, as_json: bool) -> None:
    """List the latest version of each playbook.

    \b
    Example:
      noetl catalog list --prefix sales/
    """
    catalog, cursor, lines = _catalog(server), None, []
    while True:
        page = catalog.get("/api/catalog", prefix=prefix, cursor=cursor, limit=1000)
        lines += page["playbooks"]
        cursor = page["cursor"]
        if cursor is None:
            break
    if as_json:
        click.echo(json.dumps({"playbooks": lines}, ensure_ascii=False))
        return
    if not lines:
        click.echo("nothing is registered; begin with: noetl catalog register FILE")
    for line in lines:
        click.echo(_line(line))


@command.command("show")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.option("--versions", is_flag=True, help="List its versions instead.")
@server_option
@_json
def show(playbook: str, versions: bool, server: str | None, as_json: bool) -> None:
    """Print a registered playbook as it was written, or its versions.

    \b
    Examples:
      noetl catalog show sales/orders@1.2
      noetl catalog show sales/orders --versions
    """
    catalog = _catalog(server)
    path, _, version = playbook.partition("@")
    if versions:
        found = catalog.get(f"/api/catalog/{path}/-/versions")
        if as_json:
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            for line in found["versions"]:
                click.echo(_line(line))
        return
    found = catalog.get(f"/api/catalog/{path}", version=version or None)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    else:
        click.echo(found["source"], nl=not found["source"].endswith("\n"))


@command.command("diff")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.argument("other", metavar="[VERSION]", required=False)
@server_option
@_json
def diff(playbook: str, other: str | None, server: str | None, as_json: bool) -> None:
    """Show what differs between two versions; the latest two, if none is named.

    \b
    Examples:
      noetl catalog diff sales/orders
      noetl catalog diff sales/orders@1.1 1.2
    """
    path, _, version = playbook.partition("@")
    query = {"from": version or None, "to": other}
    found = _catalog(server).get(f"/api/catalog/{path}/-/diff", **query)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    elif not found["diff"]:
        click.echo("they are the same")
    else:
        click.echo(found["diff"], nl=False)


def _catalog(server: str | None) -> Client | LocalCatalog:
    return named_server(server) or own_server() or LocalCatalog()


def _register(
    catalog: Client | LocalCatalog, source: SourceFile, *, as_json: bool
) -> dict[str, JSON]:
    try:
        text = source.content.decode()
        found: dict[str, JSON] = catalog.post("/api/catalog", {"playbook": text})
    except UnicodeDecodeError:
        return _refused(source, {"message": "not UTF-8"}, as_json=as_json)
    except Refused as error:
        return _refused(source, error.problem, as_json=as_json)
    if not as_json:
        word = "registered" if found["created"] else "is registered already"
        click.echo(f"{source.name}: {word}: {found['path']}@{found['version']}")
    return {"file": source.name, **found}


def _refused(
    source: SourceFile, problem: dict[str, JSON], *, as_json: bool
) -> dict[str, JSON]:
    hint = f"; {problem['hint']}" if problem.get("hint") else ""
    if not as_json:
        click.echo(f"{source.name}: refused: {problem['message']}{hint}", err=True)
        if problem.get("diagnostics"):
            click.echo(f"  see noetl validate {source.name}", err=True)
    return {"file": source.name, "error": problem}


def _line(line: dict[str, JSON]) -> str:
    return f"{line['registered_at']}  {line['path']}@{line['version']}"
