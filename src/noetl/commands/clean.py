"""``noetl clean``: remove old executions and unreferenced results."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.retention import compact
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.client.http import Client
from noetl.commands.local.logs import PAGE, each_log
from noetl.commands.output.diagnostics import bytes_of, count_of
from noetl.commands.remote.choose_server import (
    named_server,
    own_cluster,
    own_server,
    server_option,
)
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_plugins
from noetl.dsl.times import parse_duration
from noetl.engine.retention import removable_at
from noetl.errors import ConfigError, StoreError
from noetl.local.home import Home
from noetl.ports import Blob, Blobs, LocalStore, Summary
from noetl.service.executions.results import LOG, execution_of, keys_in
from noetl.service.retention.values import sources_in
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs

GRACE_S = 24 * 3600.0
"""Seconds before an unreferenced result is removed: its task may still be running."""


class Kept(msgspec.Struct, frozen=True):
    """An execution, and the blobs and other logs that its log references."""

    log: Path
    summary: Summary
    blobs: frozenset[str]
    logs: frozenset[str]


class Removal(msgspec.Struct, frozen=True):
    """The executions and results that were removed, or would be by a dry run.

    ``busy`` executions are old enough, but another process uses their log.
    ``unlisted`` is the reason why results were not examined.
    """

    executions: Sequence[str]
    busy: Sequence[str]
    blobs: Sequence[Blob]
    drafts: Sequence[Blob]
    unlisted: str | None = None


async def collect(
    home: Home, blobs: Blobs, now: float, age: float | None, *, dry_run: bool
) -> Removal:
    """Remove executions that ended more than ``age`` seconds ago, then results.

    Every log is read first. A log that cannot be read raises an error, because its
    references are unknown. If the result store cannot be listed, all results stay;
    without ``age`` that raises an error, because nothing else could be removed.
    """
    unlisted = await _why_not_listed(blobs)
    if unlisted is not None and age is None:
        raise ConfigError(unlisted)
    found = [kept async for kept in _survey(home)]
    old = _old(found, now, age) if age is not None else []
    busy: list[Kept] = []
    if not dry_run:
        busy = await _remove(home, old)
    removed = [kept for kept in old if kept not in busy]
    gone = {kept.summary.execution_id for kept in removed}
    left = [kept for kept in found if kept.summary.execution_id not in gone]
    named = frozenset[str]().union(*(kept.blobs for kept in left))
    named |= await _registered(home)
    return Removal(
        sorted(gone),
        [kept.summary.execution_id for kept in busy],
        await _sweep(blobs, named, now - GRACE_S, dry_run=dry_run)
        if unlisted is None
        else [],
        await blobs.sweep(now - GRACE_S, dry_run=dry_run),
        unlisted,
    )


async def _registered(home: Home) -> set[str]:
    """Return the keys of the playbooks that the server of the home has registered."""
    if not home.catalog.exists():
        return set()
    catalog = SqliteCatalogRows(home.catalog)
    try:
        return await sources_in(catalog)
    finally:
        await catalog.close()


async def _why_not_listed(blobs: Blobs) -> str | None:
    try:
        others = await blobs.others()
    except StoreError as error:
        if error.kind != "store.unlisted":
            raise
        return str(error)
    if others:
        raise ConfigError(
            f"{blobs.place} holds the results of {others} other homes, whose logs "
            "are not known here; give each home its own results folder"
        )
    return None


async def _survey(home: Home) -> AsyncIterator[Kept]:
    async for store in each_log(home):
        cursor = None
        while page := await store.find(before=cursor, limit=PAGE):
            for summary in page:
                yield await _read(store, summary)
            cursor = page[-1].execution_id


async def _read(store: LocalStore, summary: Summary) -> Kept:
    keys: set[str] = set()
    async for page in store.pages(summary.execution_id, size=PAGE):
        for event in page:
            keys.update(keys_in(event))
    logs = {execution_of(key) for key in keys if key.startswith(LOG)}
    blobs = frozenset(key for key in keys if not key.startswith(LOG))
    return Kept(store.path, summary, blobs, frozenset(logs - {summary.execution_id}))


def _old(found: Sequence[Kept], now: float, age: float) -> list[Kept]:
    """Return families that have finished and whose logs no remaining log reads."""
    parents = {kept.summary.execution_id: kept.summary.parent_id for kept in found}

    def root(execution_id: str) -> str:
        parent = parents.get(execution_id)
        return execution_id if parent is None else root(parent)

    families: dict[str, list[Kept]] = {}
    for kept in found:
        families.setdefault(root(kept.summary.execution_id), []).append(kept)
    young = {
        name
        for name, family in families.items()
        if any(_removable(kept.summary, age) >= now for kept in family)
    }
    waiting = list(young)
    while waiting:  # a log that a kept log reads must be kept, too
        needed = {root(name) for kept in families[waiting.pop()] for name in kept.logs}
        new = (needed & families.keys()) - young
        young |= new
        waiting += new
    return [kept for name in families.keys() - young for kept in families[name]]


def _removable(summary: Summary, age: float) -> float:
    own = summary.playbook.get("retention")
    return removable_at(summary.finished_at, own, age, at_least=True)


async def _remove(home: Home, old: Sequence[Kept]) -> list[Kept]:
    """Remove executions with their task logs; return those whose log another process
    uses."""
    busy: list[Kept] = []
    task_logs = TaskLogFiles(home.task_logs)
    logs: dict[Path, list[Kept]] = {}
    for kept in old:
        logs.setdefault(kept.log, []).append(kept)
    for log, executions in logs.items():
        try:
            store = SqliteStore.open(log)
        except StoreError as error:
            if error.kind != "store.locked":
                raise
            busy += executions
            continue
        try:
            names = [kept.summary.execution_id for kept in executions]
            await store.remove(names)
            await task_logs.remove(names)
        finally:
            await store.close()
        with suppress(StoreError):  # another process has opened it: it is smaller later
            await asyncio.to_thread(compact, log)
    return busy


async def _sweep(
    blobs: Blobs, named: frozenset[str], before: float, *, dry_run: bool
) -> list[Blob]:
    """Remove unreferenced blobs; a blob that is stored again during the sweep stays."""
    unnamed = [
        blob
        async for blob in blobs.each()
        if blob.key not in named and blob.at < before
    ]
    if dry_run:
        return unnamed
    return [blob for blob in unnamed if await blobs.remove(blob.key, before)]


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if value.strip().replace(".", "").isdigit():  # days? removal cannot be undone
            self.fail(f"'{value}' has no unit; write {value.strip()}d", param, ctx)
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(f"{error}; write 30d, 12h or 90m", param, ctx)


@click.command("clean")
@click.option(
    "--older-than",
    type=Duration(),
    metavar="DURATION",
    help="Remove executions that ended longer ago than this, such as 30d.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    older_than: float | None,
    dry_run: bool,
    server: str | None,
    as_json: bool,
) -> None:
    """Remove unreferenced results, and with --older-than old executions.

    A result that no log references was left by a task that never ended, or by an
    execution that was removed. It is removed after a day. With --older-than, executions
    that ended longer ago are removed with their children. Running and waiting
    executions stay, and so does every result that a remaining log references. A
    playbook may keep its executions longer (executor.spec.retention).

    Executions of a server are removed by the server, which needs --older-than and the
    role admin; those with a fork stay. It removes old ones by itself with
    NOETL_RETENTION.

    \b
    Examples:
      noetl clean --dry-run
      noetl clean --older-than 30d
      noetl clean --older-than 90d --server https://noetl.example.com
    """
    home = Home.of(settings)
    client = named_server(settings, server) or own_cluster(settings)
    if client is not None:
        _clean_server(client, older_than, dry_run=dry_run, as_json=as_json)
        return
    local = own_server(settings)
    served = Served()
    if local is not None and older_than is not None:
        served = ask_server(local, older_than, dry_run=dry_run)
    removal = asyncio.run(
        collect(
            home,
            make_blobs(home, read_plugins(settings), settings),
            time.time(),
            older_than,
            dry_run=dry_run,
        )
    )
    if as_json:
        click.echo(json.dumps(_document(removal, served, dry_run)))
        return
    verb = "would remove" if dry_run else "removed"
    if served.executions:
        click.echo(_line(served, verb))
    click.echo(
        f"{verb} {count_of(len(removal.executions), 'execution')}, "
        f"{count_of(len(removal.blobs), 'result')} ({_size(removal.blobs)}) and "
        f"{count_of(len(removal.drafts), 'draft')} ({_size(removal.drafts)})"
    )
    if removal.unlisted is not None:
        click.echo(f"kept all results: {removal.unlisted}", err=True)
    if removal.busy:
        many = count_of(len(removal.busy), "execution")
        click.echo(f"kept {many}: another process is using their log", err=True)


class Served(msgspec.Struct):
    """Removals of a server from its own log, done or planned."""

    url: str | None = None
    executions: int = 0
    events: int = 0


def ask_server(client: Client, age: float, *, dry_run: bool) -> Served:
    """Let a server remove its old executions. Raises ``Refused`` or ``Unreachable``."""
    done = Served(client.url)
    after: int | None = 0
    while after is not None:
        body = {"older_than": age, "dry_run": dry_run, "after": after}
        answer = client.post("/api/retention/clean", body)
        done.executions += answer["executions"]
        done.events += answer["events"]
        after = answer["after"]
    return done


def _clean_server(
    client: Client, age: float | None, *, dry_run: bool, as_json: bool
) -> None:
    if age is None:
        message = f"{client.url} removes unreferenced results by itself"
        raise ConfigError(f"{message}; say which executions with --older-than 90d")
    served = ask_server(client, age, dry_run=dry_run)
    if as_json:
        nothing = Removal([], [], [], [])
        click.echo(json.dumps(_document(nothing, served, dry_run)))
        return
    click.echo(_line(served, "would remove" if dry_run else "removed"))


def _line(served: Served, verb: str) -> str:
    what = count_of(served.executions, "execution")
    return f"{served.url}: {verb} {what} with {count_of(served.events, 'event')}"


def _size(blobs: Sequence[Blob]) -> str:
    return bytes_of(sum(blob.size for blob in blobs))


def _document(removal: Removal, served: Served, dry_run: bool) -> dict[str, JSON]:
    return {
        "dry_run": dry_run,
        "server": None if served.url is None else msgspec.to_builtins(served),
        "executions": list(removal.executions),
        "busy": list(removal.busy),
        "results": {
            "count": len(removal.blobs),
            "bytes": sum(blob.size for blob in removal.blobs),
            "keys": sorted(blob.key for blob in removal.blobs),
        },
        "drafts": {
            "count": len(removal.drafts),
            "bytes": sum(blob.size for blob in removal.drafts),
        },
    }
