"""The execution that is forked, and what somebody wants to be different."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import click
import msgspec

from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.commands.hints import warn_of_new_names
from noetl.commands.logs import find_execution, reading
from noetl.commands.printing import count_words, format_diagnostic
from noetl.commands.reading import folder_of, read_file
from noetl.commands.run import read_duration, read_inputs, read_setting
from noetl.config import read_extensions, read_plugins
from noetl.dialects import load
from noetl.embedded import new_execution_id
from noetl.errors import BlobGone, ConfigError
from noetl.home import Home
from noetl.results import make_blobs
from noetl.runtime.fork_plans import Edits, Origin, Plan, Successor, make_plan
from noetl.runtime.origins import Start


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the options say."""

    settings: tuple[str, ...] = ()
    workload: str | None = None
    set_ctx: tuple[str, ...] = ()
    playbook: str | None = None
    playbooks: tuple[str, ...] = ()
    extensions: str | None = None
    timeout: str | None = None


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


async def plan_fork(origin: Origin, start: Start, wishes: Wishes) -> Plan:
    """Check everything that can be checked before anything is written."""
    edits = read_edits(wishes)
    newer = None
    if wishes.playbook is not None:
        newer = await _read_successor(wishes, origin)
    plan = await make_plan(origin, start, edits, new_execution_id(), newer)
    point, playbook = plan.point, plan.playbook
    warn_of_new_names(
        edits.workload, [*point.state.workload, *playbook.workload], "--set", "workload"
    )
    warn_of_new_names(edits.set_ctx, point.state.ctx, "--set-ctx", "ctx")
    if point.seq < start.at:
        text = f"event {start.at} is half of a decision; event {point.seq} is the last"
        text += " one that is kept, and nothing that was done is lost"
        click.echo(text, err=True)
    return plan


def read_edits(wishes: Wishes) -> Edits:
    return Edits(
        read_inputs(wishes.workload, wishes.settings),
        dict(read_setting("--set-ctx", each) for each in wishes.set_ctx),
        read_duration(wishes.timeout),
    )


async def _read_successor(wishes: Wishes, origin: Origin) -> Successor:
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
    folder = folder_of(source.name) or origin.about.get("folder")
    about = await pin(loaded, source.content, folder, origin.blobs)
    return Successor(loaded.playbook, about, source.name)
