"""HTML report of an execution, written atomically."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from itertools import chain, islice

import click
import msgspec

from noetl import __version__
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.client.http import Client, Refused
from noetl.commands.files.atomic_write import writing
from noetl.commands.local.logs import Place, find_execution, read_pages
from noetl.commands.remote import executions
from noetl.commands.remote.download import mirrored
from noetl.config import Settings, read_plugins
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.errors import BlobCorrupt, BlobGone, StoreError, Unreachable
from noetl.local.home import Home
from noetl.report.fold import Record
from noetl.report.page import write_page
from noetl.report.runs import TaskLogSample
from noetl.service.executions.task_logs import (
    LineFilter,
    LogLine,
    Position,
    TaskLogQueries,
)
from noetl.types import JSON
from noetl.wiring.result_stores import make_blobs

MAX_LOG_LINES = 100_000
"""Lines of task logs that are read for a report."""


async def make_report(
    home: Home, settings: Settings, execution: str
) -> tuple[str, str]:
    """Find an execution in the home; return its complete id and its page."""
    place = await find_execution(home, execution)
    record = await fold_log(place)
    playbook, text = await read_pinned(settings, home, record.playbook)
    logs = await _read_logs(home, place.execution_id)
    page = write_page(record, playbook, text, version=__version__, logs=logs)
    return place.execution_id, page


async def report_of_server(
    settings: Settings, client: Client, execution: str
) -> tuple[str, str]:
    """Return the id and the page of an execution of a server."""
    execution_id = executions.whole_id(client, execution)
    record = Record()
    async with mirrored(client, [execution_id]) as home:
        async for page in read_pages(Place(home.log(1), execution_id)):
            record.take(page)
    playbook, text = None, None
    with suppress(Refused, Unreachable):  # the report works without the source text
        source = BytesIO()
        client.download(f"/api/executions/{execution_id}/playbook", source)
        playbook, text = load_pinned(settings, source.getvalue(), record.playbook)
    logs = TaskLogSample()
    with suppress(Refused, Unreachable):  # the report works without the logs
        pages = executions.logs_of(client, execution_id)
        for line in islice(chain.from_iterable(pages), MAX_LOG_LINES):
            _add(logs, msgspec.convert(line, LogLine))
    written = write_page(record, playbook, text, version=__version__, logs=logs)
    return execution_id, written


async def _read_logs(home: Home, execution_id: str) -> TaskLogSample:
    """Read the task logs, at most ``MAX_LOG_LINES`` lines."""
    logs, queries = TaskLogSample(), TaskLogQueries(TaskLogFiles(home.task_logs))
    start, read = Position(), 0
    while read < MAX_LOG_LINES:
        page = await queries.page(execution_id, LineFilter(), start)
        if not page.lines:
            break
        for line, _ in page.lines:
            _add(logs, line)
        start, read = page.position, read + len(page.lines)
    return logs


def _add(logs: TaskLogSample, line: LogLine) -> None:
    level = f"{line.level.upper()}: " if line.level is not None else ""
    logs.add(line.task_run_id, line.attempt, level + line.text)


def save_report(page: str, file: str) -> None:
    with writing(file) as stream:
        stream.write(page.encode())
    if file != "-":
        size = len(page.encode()) / 1024
        click.echo(f"report: {file} ({size:,.0f} KiB)", err=True)


async def fold_log(place: Place) -> Record:
    """Fold the events of an execution for a report or a graph."""
    record = Record()
    async for page in read_pages(place):
        record.take(page)
    return record


async def read_pinned(
    settings: Settings, home: Home, about: dict[str, JSON]
) -> tuple[Playbook | None, str | None]:
    """Load the playbook that ran; None if its text is lost or no longer valid."""
    try:
        source = await make_blobs(home, read_plugins(settings), settings).get(
            about["source"]
        )
    except (KeyError, BlobGone, BlobCorrupt, StoreError):
        return None, None
    return load_pinned(settings, source, about)


def load_pinned(
    settings: Settings, source: bytes, about: dict[str, JSON]
) -> tuple[Playbook | None, str]:
    """Load the stored text of a playbook that ran."""
    loaded = load(
        source, read_plugins(settings).kinds, frozenset(about.get("extensions", ()))
    )
    return loaded.playbook, source.decode("utf-8-sig", "replace")
