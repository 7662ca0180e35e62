"""What nobody needs any more: old executions, and results that no log names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.commands.logs import PAGE, each_log
from noetl.engine.times import seconds_of
from noetl.errors import ConfigError, StoreError
from noetl.home import Home
from noetl.ports import Blob, Blobs, Summary
from noetl.service.naming import LOG, execution_of, keys_in

GRACE = 24 * 3600.0
"""Seconds that a result may be unnamed: its task may still be at work."""


class Kept(msgspec.Struct, frozen=True):
    """An execution, and what its log names: blobs, and logs of others."""

    log: Path
    summary: Summary
    blobs: frozenset[str]
    logs: frozenset[str]


class Removal(msgspec.Struct, frozen=True):
    """What is to be removed, or was; ``busy`` executions are old enough, but their
    log is in use. ``unlisted`` says why no result was looked at."""

    executions: Sequence[str]
    busy: Sequence[str]
    blobs: Sequence[Blob]
    drafts: Sequence[Blob]
    unlisted: str | None = None


async def collect(
    home: Home, blobs: Blobs, now: float, age: float | None, *, dry_run: bool
) -> Removal:
    """Remove executions that ended before ``age`` seconds, and what is unnamed then.

    Every log is read first: one that cannot be read stops it, for what it names is
    not known. Of a store that cannot be listed the results stay; without ``age``
    nothing is left to do then, and that is an error.
    """
    unlisted = await _why_not_listed(blobs)
    if unlisted is not None and age is None:
        raise ConfigError(unlisted)
    found = [kept async for kept in _survey(home)]
    old = _old(found, now - age) if age is not None else []
    busy: list[Kept] = []
    if not dry_run:
        busy = await _remove(old)
    removed = [kept for kept in old if kept not in busy]
    gone = {kept.summary.execution_id for kept in removed}
    left = [kept for kept in found if kept.summary.execution_id not in gone]
    named = frozenset[str]().union(*(kept.blobs for kept in left))
    return Removal(
        sorted(gone),
        [kept.summary.execution_id for kept in busy],
        await _sweep(blobs, named, now - GRACE, dry_run=dry_run)
        if unlisted is None
        else [],
        await blobs.sweep(now - GRACE, dry_run=dry_run),
        unlisted,
    )


async def _why_not_listed(blobs: Blobs) -> str | None:
    try:
        others = await blobs.others()
    except StoreError as error:
        if error.kind != "store.unlisted":
            raise
        return str(error)
    if others:
        raise ConfigError(
            f"{blobs.place} holds the results of {others} other homes, too: which of "
            "them are needed is not known here; give each home a folder of its own"
        )
    return None


async def _survey(home: Home) -> AsyncIterator[Kept]:
    async for store in each_log(home):
        cursor = None
        while page := await store.find(before=cursor, limit=PAGE):
            for summary in page:
                yield await _read(store, summary)
            cursor = page[-1].execution_id


async def _read(store: SqliteStore, summary: Summary) -> Kept:
    keys: set[str] = set()
    async for page in store.pages(summary.execution_id, size=PAGE):
        for event in page:
            keys.update(keys_in(event))
    logs = {execution_of(key) for key in keys if key.startswith(LOG)}
    blobs = frozenset(key for key in keys if not key.startswith(LOG))
    return Kept(store.path, summary, blobs, frozenset(logs - {summary.execution_id}))


def _old(found: Sequence[Kept], before: float) -> list[Kept]:
    """Whole families that are over, and whose logs nobody else's log needs."""
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
        if any(_ended(kept.summary) >= before for kept in family)
    }
    waiting = list(young)
    while waiting:  # what a kept log reads from must be kept, too
        needed = {root(name) for kept in families[waiting.pop()] for name in kept.logs}
        new = (needed & families.keys()) - young
        young |= new
        waiting += new
    return [kept for name in families.keys() - young for kept in families[name]]


def _ended(summary: Summary) -> float:
    if summary.finished_at is None:
        return float("inf")
    return seconds_of(summary.finished_at)


async def _remove(old: Sequence[Kept]) -> list[Kept]:
    """Those that could not be: another process has their log."""
    busy: list[Kept] = []
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
            await store.remove([kept.summary.execution_id for kept in executions])
        finally:
            await store.close()
    return busy


async def _sweep(
    blobs: Blobs, named: frozenset[str], before: float, *, dry_run: bool
) -> list[Blob]:
    """Who puts one of them again meanwhile makes it young: it stays."""
    unnamed = [
        blob
        async for blob in blobs.each()
        if blob.key not in named and blob.at < before
    ]
    if dry_run:
        return unnamed
    return [blob for blob in unnamed if await blobs.remove(blob.key, before)]
