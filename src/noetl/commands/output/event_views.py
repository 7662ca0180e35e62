"""Views of a log: sentences, other dialects, and selection by ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import BinaryIO

import click

from noetl.adapters.analytics.tables import event_lines
from noetl.client.http import Client, Refused
from noetl.commands.files.atomic_write import check_target, replacing, writing
from noetl.commands.local.logs import each_log, find_execution, read_pages, reading
from noetl.commands.output.diagnostics import count_of, where_of
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of
from noetl.config import Settings, read_plugins
from noetl.dialects import load_validated
from noetl.dialects.views import make_view
from noetl.dialects.views.formal import IDS, NAMED, fits
from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.model import Playbook
from noetl.dsl.node import printable
from noetl.dsl.secret_patterns import mask
from noetl.engine.events import Event
from noetl.engine.times import seconds_of
from noetl.engine.undone import Undone
from noetl.errors import BlobCorrupt, BlobGone, ConfigError, StoreError, Unreachable
from noetl.local.home import Home
from noetl.ports import LocalStore
from noetl.report.format import duration
from noetl.report.runs import measured_times
from noetl.testing.describe_events import Narrator
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs

PLAIN = "001"


class Sentences:
    """Describes events, one line each: position, time since the start, what happened
    and why. Without the playbook the reasons are missing."""

    def __init__(self, first: Event, playbook: Playbook | None) -> None:
        self._began = seconds_of(first.timestamp)
        self._waiting: set[str | None] = set()
        self._narrator = None
        self._undone = Undone.of(first)
        if playbook is not None:
            self._narrator = Narrator(playbook, first.timestamp)

    def lines(self, events: Sequence[Event]) -> Iterator[str]:
        """Yield a line for each event; errors are red.

        Events that were committed together have one timestamp. A call whose beginning
        and end are among ``events`` is shown at the times that its worker measured.
        """
        measured = _measured(events)
        for event in events:
            at = measured.get(event.seq, seconds_of(event.timestamp))
            text = " ".join(printable(mask(self._words(event))).split())
            if self._undone is not None and self._undone.covers(event):
                text = click.style(f"{text} (undone by the retry)", dim=True)
            elif event.status == "error":
                text = click.style(text, fg="red")
            yield f"{event.seq:>6} {max(0.0, at - self._began):>9.3f} s  {text}"

    def _words(self, event: Event) -> str:
        if self._narrator is None:
            return raw_words(event)
        words = self._narrator.words(event)
        if event.name == "task.suspended":
            self._waiting.add(event.task_run_id)
        elif event.name == "task.done" and event.task_run_id in self._waiting:
            self._waiting.discard(event.task_run_id)
        elif event.name == "task.done" and (times := measured_times(event)) is not None:
            words += f", took {duration(times[1] - times[0])}"
        return words


def _measured(events: Iterable[Event]) -> dict[int, float]:
    """Return the measured times of calls, by the positions of their events. A run that
    was reported with its first call began when that call did."""
    started: dict[tuple[str | None, int | None], Event] = {}
    runs: dict[str | None, Event] = {}
    found: dict[int, float] = {}
    for event in events:
        key = event.task_run_id, event.attempt
        if event.name == "step.started":
            runs[event.step_run_id] = event
        elif event.name == "task.started":
            started[key] = event
        elif event.name == "task.suspended":
            started.pop(key, None)
        elif (
            event.name == "task.done"
            and key in started
            and (times := measured_times(event)) is not None
        ):
            begun, run = started.pop(key), runs.pop(event.step_run_id, None)
            found[begun.seq], found[event.seq] = times
            if run is not None and run.timestamp == begun.timestamp:
                found[run.seq] = times[0]
    return found


def raw_line(event: Event) -> str:
    """Format the name, the time and the ids of an event."""
    return f"{event.seq:>6} {event.timestamp} {raw_words(event)}".rstrip()


def raw_words(event: Event) -> str:
    task = f" {event.task_label}" if event.task_label else ""
    attempt = f" #{event.attempt}" if event.attempt else ""
    return f"{event.name} {where_of(event)}{task}{attempt}"


async def read_playbook(
    settings: Settings, home: Home, first: Event
) -> Playbook | None:
    """Load the playbook of an execution in the home; None if its text is lost."""
    about = first.payload["playbook"]
    try:
        blobs = make_blobs(home, read_plugins(settings), settings)
        return _load(settings, await blobs.get(about["source"]), about)
    except (KeyError, BlobGone, BlobCorrupt, StoreError):
        return None


def fetch_playbook(settings: Settings, client: Client, first: Event) -> Playbook | None:
    """Load the playbook of an execution of a server; None if the caller may not."""
    source = BytesIO()
    try:
        client.download(f"/api/executions/{first.execution_id}/playbook", source)
    except (Refused, Unreachable):
        return None
    return _load(settings, source.getvalue(), first.payload["playbook"])


def _load(settings: Settings, source: bytes, about: dict[str, JSON]) -> Playbook | None:
    kinds, extensions = read_plugins(settings).kinds, about.get("extensions", ())
    return load_validated(source, kinds, frozenset(extensions)).playbook


def read_where(asked: Iterable[str]) -> dict[str, str]:
    """Parse ``ID=VALUE`` pairs. Raises ``click.UsageError``."""
    wanted: dict[str, str] = {}
    for each in asked:
        name, sign, value = each.partition("=")
        if not sign or not value:
            raise click.UsageError(f"--where takes ID=VALUE, found '{each}'")
        if name not in (*IDS, *NAMED):
            hint = did_you_mean(name, (*IDS, *NAMED)) or f"known: {', '.join(IDS)}"
            raise click.UsageError(f"unknown id '{name}'; {hint}")
        wanted[name] = value
    return wanted


def print_view(
    settings: Settings,
    execution: str,
    server: str | None,
    dialect: str,
    wanted: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    client = asyncio.run(server_of(settings, server, execution))
    if client is None:
        asyncio.run(_print(settings, execution, dialect, wanted, as_json=as_json))
        return
    execution_id = executions.whole_id(client, execution)
    query = {**wanted, "dialect": dialect}
    _echo(executions.events_of(client, execution_id, **query), as_json=as_json)


async def _print(
    settings: Settings,
    execution: str,
    dialect: str,
    wanted: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    view = make_view(dialect)
    async for page in read_pages(await find_execution(Home.of(settings), execution)):
        for event in page:
            documents = list(view.take(event))
            found = (each for each in documents if fits(event, each, wanted))
            _echo(found, as_json=as_json)


def _echo(documents: Iterable[dict[str, JSON]], *, as_json: bool) -> None:
    for document in documents:
        if as_json:
            click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
        else:
            click.echo(_line(document))


def _line(document: dict[str, JSON]) -> str:
    """Format position, time, name and place; other members are in the JSON."""
    called = document.get("event_type") or document["name"]
    payload = document.get("payload") or document.get("data") or {}
    task = document.get("task_label") or payload.get("task")
    attempt = document.get("attempt")
    where = [document.get("step"), task, f"#{attempt}" if attempt else None]
    text = " ".join([str(called), *(str(each) for each in where if each)])
    return f"{document['seq']:>6} {document['timestamp']} {text}"


FORMATS = ("parquet", "jsonl")


async def export_events(home: Home, execution: str, form: str, file: str) -> None:
    """Write the events of one execution, or of ``all``, to ``file``."""
    check_export(form, file)
    if form == "parquet":
        count = await _write_parquet(home, execution, file)
    else:
        with writing(file) as stream:
            count = await _write_lines(home, execution, stream)
    if file != "-":
        click.echo(f"{count_of(count, 'event')} written to {file}", err=True)


def check_export(form: str, file: str) -> None:
    """Check the target before reading. Raises ``ConfigError``."""
    if form == "parquet" and file == "-":
        raise ConfigError("--export parquet -: name a file; only jsonl can be streamed")
    check_target(f"--export {form}", file)


async def _sources(
    home: Home, execution: str
) -> AsyncIterator[tuple[LocalStore, str | None]]:
    """Yield the logs to read, each with one execution id, or None for all."""
    if execution != "all":
        place = await find_execution(home, execution)
        async with reading(place.log) as store:
            yield store, place.execution_id
        return
    async for store in each_log(home):
        yield store, None


async def _write_lines(home: Home, execution: str, stream: BinaryIO) -> int:
    count = 0
    async for store, execution_id in _sources(home, execution):
        after = 0
        while heads := await store.heads(after=after):
            for head in heads:
                found = head.summary.execution_id
                if execution_id in (None, found):
                    async for lines in event_lines(store, found, head.last_seq):
                        stream.write(lines)
                    count += head.last_seq
            after = heads[-1].number
    return count


async def _write_parquet(home: Home, execution: str, file: str) -> int:
    from noetl.adapters.analytics.duckdb_copy import Warehouse, write_parquet

    home.make()
    with replacing(file) as part, Warehouse(home.folder) as warehouse:
        async for store, execution_id in _sources(home, execution):
            await warehouse.add(store, execution_id, events=True)
        return write_parquet(warehouse, part, file)
