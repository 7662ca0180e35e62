"""``noetl catalog``: registered playbooks of a server or of this home."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable

import click
import msgspec

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.client.http import Client, Refused
from noetl.commands.files.playbook_files import SourceFile, find_playbooks
from noetl.commands.output.diagnostics import (
    format_diagnostic,
    hints_option,
    print_findings,
)
from noetl.commands.remote.choose_server import named_server, own_server, server_option
from noetl.commands.settings import pass_settings
from noetl.config import EXTENSIONS, Settings
from noetl.dsl.diagnostics import Diagnostic
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.ports import Registered
from noetl.runtime.event_loop import SystemClock
from noetl.service.catalog import CatalogService
from noetl.service.errors import RequestRefused
from noetl.types import JSON
from noetl.wiring.identifiers import new_execution_id

PREFIX = "/api/catalog"


class LocalCatalog:
    """Answers the calls of the API's catalog from the home, without a server."""

    def __init__(self, settings: Settings) -> None:
        home = Home.of(settings)
        self._playbooks = CatalogService(
            SqliteCatalogRows(home.catalog),
            FileBlobs(home.blobs),
            SystemClock(),
            new_execution_id,
            extensions=settings[EXTENSIONS],
        )

    def get(self, path: str, **query: JSON) -> JSON:
        name, _, what = path.removeprefix(PREFIX).strip("/").partition("/-/")
        if not name:
            return _run(self._list(query))
        if what == "versions":
            return _run(self._versions(name))
        if what == "diff":
            return _run(self._diff(name, query))
        return _run(self._show(name, query.get("version")))

    def post(self, path: str, body: dict[str, JSON]) -> JSON:
        return _run(self._register(body["playbook"]))

    async def _register(self, text: str) -> JSON:
        loaded = await self._playbooks.validate(text)
        found, created = await self._playbooks.register(loaded, text, None)
        diagnostics = msgspec.to_builtins(loaded.diagnostics)
        return {**_line(found), "created": created, "diagnostics": diagnostics}

    async def _list(self, query: dict[str, JSON]) -> JSON:
        prefix, cursor = query.get("prefix") or "", query.get("cursor") or ""
        found, cursor = await self._playbooks.latest(
            prefix, cursor, query["limit"], lambda path: True
        )
        return {"playbooks": [_line(each) for each in found], "cursor": cursor}

    async def _versions(self, path: str) -> JSON:
        found = await self._playbooks.versions(path)
        return {"versions": [_line(each) for each in found]}

    async def _diff(self, path: str, query: dict[str, JSON]) -> JSON:
        diff = await self._playbooks.diff(path, query.get("from"), query.get("to"))
        return {"path": path, "diff": diff}

    async def _show(self, path: str, version: str | None) -> JSON:
        found = await self._playbooks.show(path, version)
        return {**_line(found.registered), "source": found.source}


def _run(work: Awaitable[JSON]) -> JSON:
    async def done() -> JSON:
        return await work

    try:
        return asyncio.run(done())
    except RequestRefused as error:
        problem = {"kind": error.kind, "message": error.message, "hint": error.hint}
        raise Refused({**problem, **error.more}, 422) from None


def _line(found: Registered) -> dict[str, JSON]:
    line: dict[str, JSON] = msgspec.to_builtins(found)
    del line["source"]
    return line


_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("catalog")
def command() -> None:
    """Register playbooks, list them, and compare their versions.

    Without a server the commands use the catalog of this home: `noetl run` finds child
    playbooks there, and the server of this home uses it.
    Each of the commands takes --json.

    \b
    Example:
      noetl catalog register orders.yaml
    """


@command.command("register")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@hints_option
@server_option
@_json
@pass_settings
def register(
    settings: Settings,
    files: tuple[str, ...],
    hints: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """Register playbooks under their paths; folders are searched for playbooks.

    A registered version never changes: a changed playbook needs another
    `metadata.version`, or none, then versions are numbered. Exit code: 0, or 2 if a
    playbook was refused.

    \b
    Examples:
      noetl catalog register orders.yaml
      noetl catalog register playbooks/ --server http://127.0.0.1:8082
    """
    catalog = _catalog(settings, server)
    sources, _ = find_playbooks(files)
    if not sources:
        raise ConfigError(f"no playbook found in {', '.join(files)}")
    done = [
        _register(catalog, source, as_json=as_json, hints=hints) for source in sources
    ]
    if as_json:
        click.echo(json.dumps({"playbooks": done}, ensure_ascii=False))
    sys.exit(2 if any("error" in each for each in done) else 0)


@command.command("list")
@click.option("--prefix", metavar="PATH", help="Only paths that begin with this.")
@server_option
@_json
@pass_settings
def list_(
    settings: Settings, prefix: str | None, server: str | None, as_json: bool
) -> None:
    """List the latest version of each playbook.

    \b
    Example:
      noetl catalog list --prefix sales/
    """
    catalog, cursor, lines = _catalog(settings, server), None, []
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
        click.echo("no playbook is registered; start with: noetl catalog register FILE")
    for line in lines:
        click.echo(_version_line(line))


@command.command("show")
@click.argument("playbook", metavar="PATH[@VERSION]")
@click.option("--versions", is_flag=True, help="List the versions instead.")
@server_option
@_json
@pass_settings
def show(
    settings: Settings, playbook: str, versions: bool, server: str | None, as_json: bool
) -> None:
    """Print the source text of a registered playbook, or its versions.

    \b
    Examples:
      noetl catalog show sales/orders@1.2
      noetl catalog show sales/orders --versions
    """
    catalog = _catalog(settings, server)
    path, _, version = playbook.partition("@")
    if versions:
        found = catalog.get(f"/api/catalog/{path}/-/versions")
        if as_json:
            click.echo(json.dumps(found, ensure_ascii=False))
        else:
            for line in found["versions"]:
                click.echo(_version_line(line))
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
@pass_settings
def diff(
    settings: Settings,
    playbook: str,
    other: str | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Show the differences of two versions (default: the latest two).

    \b
    Examples:
      noetl catalog diff sales/orders
      noetl catalog diff sales/orders@1.1 1.2
    """
    path, _, version = playbook.partition("@")
    query = {"from": version or None, "to": other}
    found = _catalog(settings, server).get(f"/api/catalog/{path}/-/diff", **query)
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
    elif not found["diff"]:
        click.echo("the two versions are the same")
    else:
        click.echo(found["diff"], nl=False)


def _catalog(settings: Settings, server: str | None) -> Client | LocalCatalog:
    return (
        named_server(settings, server) or own_server(settings) or LocalCatalog(settings)
    )


def _register(
    catalog: Client | LocalCatalog, source: SourceFile, *, as_json: bool, hints: bool
) -> dict[str, JSON]:
    try:
        text = source.content.decode()
        found: dict[str, JSON] = catalog.post("/api/catalog", {"playbook": text})
    except UnicodeDecodeError:
        return _refused(source, {"message": "not UTF-8"}, as_json=as_json)
    except Refused as error:
        return _refused(source, error.problem, as_json=as_json)
    if not as_json:
        word = "registered" if found["created"] else "is already registered"
        diagnostics = msgspec.convert(found["diagnostics"], list[Diagnostic])
        print_findings(diagnostics, source.name, source.lines, hints=hints)
        click.echo(f"{source.name}: {word}: {found['path']}@{found['version']}")
    return {"file": source.name, **found}


def _refused(
    source: SourceFile, problem: dict[str, JSON], *, as_json: bool
) -> dict[str, JSON]:
    hint = f"; {problem['hint']}" if problem.get("hint") else ""
    if not as_json:
        click.echo(f"{source.name}: refused: {problem['message']}{hint}", err=True)
        for found in msgspec.convert(problem.get("diagnostics", ()), list[Diagnostic]):
            click.echo(format_diagnostic(found, source.name, source.lines), err=True)
    return {"file": source.name, "error": problem}


def _version_line(line: dict[str, JSON]) -> str:
    return f"{line['registered_at']}  {line['path']}@{line['version']}"
