"""Verification of the stores of this home: its logs, and the database of its server."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import click
import msgspec

from noetl.commands.local.logs import PAGE, find_execution, reading
from noetl.commands.output.diagnostics import count_of
from noetl.config import DATABASE, Settings, read_plugins
from noetl.dialects import load_validated
from noetl.dsl.model import Playbook
from noetl.engine.invariants import Breach
from noetl.engine.invariants.catalog import cure_of
from noetl.errors import ConfigError, StoreError, Unreachable
from noetl.local.home import Home
from noetl.local.process_files import slot_of
from noetl.local.services.postgres import Postgres
from noetl.ports import Stray
from noetl.service.executions.verification import (
    Load,
    StoreCheck,
    Verified,
    VerifiedStore,
)
from noetl.types import JSON
from noetl.wiring.backend import reading_database
from noetl.wiring.result_stores import make_blobs

REPORT_EVERY_S = 2.0
"""Seconds between two lines of progress."""


class Place(msgspec.Struct, frozen=True):
    """A store that is verified: its name in messages, and its check."""

    name: str
    store: VerifiedStore
    check: StoreCheck


async def verify_executions(
    home: Home, settings: Settings, wanted: str, *, as_json: bool
) -> bool:
    """Verify an execution, or all of this home and of the database of its server, and
    print what is found.

    Return whether all are intact. Raises ``ConfigError`` or ``StoreError``.
    """
    with _Report(as_json=as_json) as report:
        if wanted != "all":
            async with _place_of(home, settings, wanted) as (place, execution_id):
                report.take(await place.check.verify(execution_id, report.progress))
            return report.intact
        async for place in _places(home, settings):
            async for found in place.check.all(report.progress):
                report.take(found)
            for stray in await place.store.strays():
                report.stray(stray, place.name)
    return report.intact


# -- the stores ------------------------------------------------------------------


async def _places(home: Home, settings: Settings) -> AsyncIterator[Place]:
    for path in home.logs():
        try:
            async with _home_log(home, settings, path) as place:
                yield place
        except StoreError as error:
            if error.kind != "store.missing":  # another process is creating it
                raise
    async with _database(home, settings) as found:
        if found is not None:
            yield found


@asynccontextmanager
async def _place_of(
    home: Home, settings: Settings, wanted: str
) -> AsyncIterator[tuple[Place, str]]:
    """Open the store of an execution: a log of the home, or else the database."""
    if wanted == "last":
        async with _database(home, settings) as place:
            if place is not None:
                yield place, await _newest(place)
                return
    try:
        found = await find_execution(home, wanted)
    except ConfigError as missing:
        async with _database(home, settings) as place:
            yield await _in_database(place, wanted, missing)
        return
    async with _home_log(home, settings, found.log) as place:
        yield place, found.execution_id


async def _in_database(
    place: Place | None, wanted: str, missing: ConfigError
) -> tuple[Place, str]:
    if place is None:
        hint = "verify reads stores: run it where the server's database is set"
        raise ConfigError(f"{missing}; {hint} (NOETL_DATABASE)")
    names = await place.store.resolve(wanted)
    if not names:
        raise ConfigError(f"no execution '{wanted}' in {place.name}") from missing
    if len(names) > 1:
        some = ", ".join(names[:3])
        raise ConfigError(f"'{wanted}' is not unique: {some}, …")
    return place, names[0]


async def _newest(place: Place) -> str:
    """Return the newest execution that no other one called."""
    cursor = None
    while page := await place.store.find(before=cursor, limit=PAGE):
        for each in page:
            if each.parent_id is None:
                return each.execution_id
        cursor = page[-1].execution_id
    raise ConfigError(f"there is no execution in {place.name} yet")


@asynccontextmanager
async def _home_log(home: Home, settings: Settings, path: Path) -> AsyncIterator[Place]:
    async with reading(path) as store:
        values = make_blobs(home, read_plugins(settings), settings)
        yield Place(str(path), store, StoreCheck(store, values, _loader(settings)))


@asynccontextmanager
async def _database(home: Home, settings: Settings) -> AsyncIterator[Place | None]:
    """Open the database that the settings name, or that of ``noetl up``, if there is
    one. Raises ``Unreachable``."""
    address = settings[DATABASE] or Postgres(home).address()
    if address is None:
        if home.has_cluster:
            message = f"the PostgreSQL of {home.folder} is not running"
            raise Unreachable(f"{message}; start it: noetl up")
        yield None
        return
    plugins = read_plugins(settings)
    async with reading_database(home, address, plugins, settings) as (store, values):
        check = StoreCheck(store, values, _loader(settings))
        yield Place(f"the database {slot_of(address)}", store, check)


def _loader(settings: Settings) -> Load:
    kinds = read_plugins(settings).kinds

    def load(about: dict[str, JSON], body: bytes) -> Playbook | None:
        extensions = frozenset(about.get("extensions") or ())
        return load_validated(body, kinds, extensions).playbook

    return load


# -- the report ------------------------------------------------------------------


_HEAD = '{"executions": ['


class _Report:
    """Prints what is found as it is found: the executions may be more than memory
    holds."""

    def __init__(self, *, as_json: bool) -> None:
        self.intact = True
        self._as_json = as_json
        self._executions = self._broken = self._events = 0
        self._strays: list[dict[str, JSON]] = []
        self._began = self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = max(time.monotonic() - self._began, 1e-6)
        rate = round(self._events / seconds)
        if self._as_json and (self._executions or error is None):
            rest: dict[str, JSON] = {
                "rows": self._strays,
                "intact": self.intact and error is None,
                "events": self._events,
                "seconds": round(seconds, 3),
                "events_per_second": rate,
            }
            head = "" if self._executions else _HEAD
            click.echo(f"{head}], {json.dumps(rest, ensure_ascii=False)[1:]}")
        elif error is None and not self._as_json and self._executions != 1:
            count = count_of(self._executions, "execution")
            words = f"{count}, {self._broken} broken; {self._events:,} events"
            click.echo(f"{words} in {seconds:.1f} s ({rate:,} a second)")

    async def progress(self, events: int) -> None:
        self._events += events
        now = time.monotonic()
        if now - self._told >= REPORT_EVERY_S:
            self._told = now
            words = f"verified {self._executions:,} executions, {self._events:,} events"
            click.echo(words, err=True)

    def take(self, found: Verified) -> None:
        broken = bool(found.breaches)
        self.intact = self.intact and not broken
        if self._as_json:
            before = ", " if self._executions else _HEAD
            text = json.dumps(_document(found), ensure_ascii=False)
            click.echo(f"{before}{text}", nl=False)
        else:
            _print(found)
        self._executions += 1
        self._broken += broken

    def stray(self, stray: Stray, place: str) -> None:
        self.intact = False
        invariant = _invariant_of(stray)
        if self._as_json:
            line: dict[str, JSON] = msgspec.to_builtins(stray)
            more = {"store": place, "invariant": invariant, "cure": cure_of(invariant)}
            self._strays.append({**line, **more})
            return
        row = f"{place}: {stray.table} {stray.name}"
        click.echo(f"{row}: {stray.message} [{invariant}]")
        click.echo(f"    do: {cure_of(invariant)}")


def _invariant_of(stray: Stray) -> str:
    return {"place": "I-21", "execution": "I-02"}.get(stray.table, "I-52")


def _document(found: Verified) -> dict[str, JSON]:
    breaches = [
        {**msgspec.to_builtins(breach), "cure": cure_of(breach.invariant)}
        for breach in found.breaches
    ]
    document: dict[str, JSON] = msgspec.to_builtins(found)
    return {**document, "breaches": breaches, "intact": not breaches}


def _print(found: Verified) -> None:
    for breach in found.breaches:
        _print_breach(found.execution_id, breach)
    if found.omitted:
        click.echo(f"{found.execution_id}: … and {found.omitted:,} more findings")
    broken = bool(found.breaches)
    word, colour = ("broken", "red") if broken else ("intact", "green")
    shown = click.style(word, fg=colour, bold=True)
    click.echo(f"{found.execution_id}: {count_of(found.events, 'event')}: {shown}")


def _print_breach(execution_id: str, breach: Breach) -> None:
    where = f"{execution_id}: event {breach.seq}"
    click.echo(f"{where}: {breach.message} [{breach.invariant}]")
    if breach.expected:
        click.echo(f"    expected: {breach.expected}")
    click.echo(f"    do: {cure_of(breach.invariant)}")
