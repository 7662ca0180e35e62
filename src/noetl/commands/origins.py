"""The execution that is forked, and what somebody wants to be different."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import click
import msgspec

from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.commands.hints import warn_of_new_names
from noetl.commands.logs import find_execution, reading
from noetl.commands.printing import count_words, format_diagnostic
from noetl.commands.reading import folder_of, read_file
from noetl.commands.run import read_duration, read_inputs, read_setting
from noetl.config import read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.embedded import make_blobs, new_execution_id
from noetl.engine.forking import Fork
from noetl.engine.succession import find_obstacles
from noetl.errors import BlobGone, ConfigError
from noetl.home import Home
from noetl.ports import Blobs, Summary
from noetl.runtime.forks import edited_workload
from noetl.runtime.loading import Loader
from noetl.runtime.origins import Point, Start, find_point
from noetl.types import JSON


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say."""

    settings: tuple[str, ...] = ()
    workload: str | None = None
    set_ctx: tuple[str, ...] = ()
    playbook: str | None = None
    playbooks: tuple[str, ...] = ()
    extensions: str | None = None
    timeout: str | None = None


class Origin(msgspec.Struct, frozen=True):
    """It is only read. ``playbook`` is None if its text is gone."""

    execution_id: str
    log: SqliteStore
    blobs: Blobs
    summary: Summary
    about: dict[str, JSON]
    playbook: Playbook | None


class Plan(msgspec.Struct, frozen=True):
    """Everything that a fork needs; nothing was written yet."""

    fork: Fork
    point: Point
    playbook: Playbook


class _Successor(msgspec.Struct, frozen=True):
    """A newer playbook, and what is recorded about it."""

    playbook: Playbook
    about: dict[str, JSON]


@asynccontextmanager
async def open_origin(home: Home, execution: str) -> AsyncIterator[Origin]:
    place = await find_execution(home, execution)
    plugins = read_plugins()
    blobs = make_blobs(home, plugins)
    async with reading(place.log) as log:
        summary = await log.summary(place.execution_id)
        [first] = await log.read(place.execution_id, limit=1)
        about, playbook = first.payload["playbook"], None
        with suppress(BlobGone, ConfigError):  # who brings a newer one needs no other
            catalog = FileCatalog([], blobs, kinds=plugins.kinds)
            playbook = await catalog.pinned(about)
        yield Origin(place.execution_id, log, blobs, summary, about, playbook)


async def make_plan(origin: Origin, start: Start, wishes: Wishes) -> Plan:
    """Check everything that can be checked before anything is written."""
    inputs = read_inputs(wishes.workload, wishes.settings)
    patch = dict(read_setting("--set-ctx", each) for each in wishes.set_ctx)
    timeout = read_duration(wishes.timeout)
    point = await find_point(origin.log, origin.execution_id, start)
    newer = None
    if wishes.playbook is not None:
        newer = await _read_successor(wishes, origin, point, start)
    playbook = newer.playbook if newer is not None else origin.playbook
    if playbook is None:
        message = f"the playbook of {origin.execution_id} cannot be read any more"
        raise ConfigError(f"{message}; bring one with --playbook")
    workload = await edited_workload(
        Loader(origin.log, origin.blobs),
        point.state.workload,
        inputs,
        origin.playbook or playbook,
        newer.playbook if newer is not None else None,
    )
    warn_of_new_names(
        inputs, [*point.state.workload, *playbook.workload], "--set", "workload"
    )
    warn_of_new_names(patch, point.state.ctx, "--set-ctx", "ctx")
    if point.seq < start.at:
        text = f"event {start.at} is half of a decision; event {point.seq} is the last"
        text += " one that is kept, and nothing that was done is lost"
        click.echo(text, err=True)
    fork = Fork(
        new_execution_id(),
        origin.execution_id,
        point.seq,
        newer.about if newer is not None else origin.about,
        newer is not None,
        workload,
        patch,
        start.again,
        timeout,
    )
    return Plan(fork, point, playbook)


async def _read_successor(
    wishes: Wishes, origin: Origin, point: Point, start: Start
) -> _Successor:
    """A playbook that what is under way can go on with; leaves if it is invalid."""
    source = read_file(wishes.playbook or "")
    loaded = load(
        source.content, read_plugins().kinds, read_extensions(wishes.extensions)
    )
    if loaded.playbook is None:
        for found in loaded.diagnostics:
            click.echo(format_diagnostic(found, source.name, source.lines), err=True)
        words = count_words(loaded.diagnostics)
        click.echo(f"{source.name}: not forked: {words}", err=True)
        sys.exit(2)
    again = [token["step"] for token in start.again.values()]
    obstacles = find_obstacles(loaded.playbook, point.state, again)
    if obstacles:
        reasons = "".join(f"\n  {obstacle}" for obstacle in obstacles)
        raise ConfigError(
            f"{source.name} cannot take over at event {point.seq}:{reasons}\n"
            "keep fewer or more events, or mend the playbook (noetl fork --dry-run)"
        )
    folder = folder_of(source.name) or origin.about.get("folder")
    about = await pin(loaded, source.content, folder, origin.blobs)
    return _Successor(loaded.playbook, about)
