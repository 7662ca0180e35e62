"""An execution of this home as an HTML page, written whole or not at all."""

from __future__ import annotations

import click

from noetl import __version__
from noetl.commands.logs import Place, find_execution, read_pages
from noetl.commands.writing import writing
from noetl.config import read_plugins
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.embedded import make_blobs
from noetl.errors import BlobCorrupt, BlobGone, StoreError
from noetl.home import Home
from noetl.report.page import write_page
from noetl.report.record import Record
from noetl.types import JSON


async def make_report(home: Home, execution: str) -> tuple[str, str]:
    """The whole id and the page of what ``find_execution`` finds."""
    place = await find_execution(home, execution)
    record = await fold_log(place)
    playbook, text = await read_pinned(home, record.playbook)
    page = write_page(record, playbook, text, version=__version__)
    return place.execution_id, page


def save_report(page: str, file: str) -> None:
    with writing(file) as stream:
        stream.write(page.encode())
    if file != "-":
        size = len(page.encode()) / 1024
        click.echo(f"report: {file} ({size:,.0f} KiB)", err=True)


async def fold_log(place: Place) -> Record:
    """What a report or a picture needs of an execution."""
    record = Record()
    async for page in read_pages(place):
        record.take(page)
    return record


async def read_pinned(
    home: Home, about: dict[str, JSON]
) -> tuple[Playbook | None, str | None]:
    """What was run, from its pinned text; an old or lost text is not worth failing."""
    try:
        source = await make_blobs(home, read_plugins()).get(about["source"])
    except (KeyError, BlobGone, BlobCorrupt, StoreError):
        return None, None
    loaded = load(source, read_plugins().kinds, frozenset(about.get("extensions", ())))
    return loaded.playbook, source.decode("utf-8-sig", "replace")
