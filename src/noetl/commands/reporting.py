"""An execution of this home as an HTML page, written whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

import click

from noetl import __version__
from noetl.client import Client, Refused
from noetl.commands import remote
from noetl.commands.logs import Place, find_execution, read_pages
from noetl.commands.mirror import mirrored
from noetl.commands.writing import writing
from noetl.config import read_plugins
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.errors import BlobCorrupt, BlobGone, StoreError, Unreachable
from noetl.home import Home
from noetl.report.page import write_page
from noetl.report.record import Record
from noetl.results import make_blobs
from noetl.types import JSON


async def make_report(home: Home, execution: str) -> tuple[str, str]:
    """The whole id and the page of what ``find_execution`` finds."""
    place = await find_execution(home, execution)
    record = await fold_log(place)
    playbook, text = await read_pinned(home, record.playbook)
    page = write_page(record, playbook, text, version=__version__)
    return place.execution_id, page


async def report_of_server(client: Client, execution: str) -> tuple[str, str]:
    """The same for an execution of a server."""
    execution_id = remote.whole_id(client, execution)
    record = Record()
    async with mirrored(client, [execution_id]) as home:
        async for page in read_pages(Place(home.log(1), execution_id)):
            record.take(page)
    playbook, text = None, None
    with suppress(Refused, Unreachable):  # an old or lost text is not worth failing
        source = BytesIO()
        client.download(f"/api/executions/{execution_id}/playbook", source)
        playbook, text = _load(source.getvalue(), record.playbook)
    written = write_page(record, playbook, text, version=__version__)
    return execution_id, written


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
    return _load(source, about)


def _load(source: bytes, about: dict[str, JSON]) -> tuple[Playbook | None, str]:
    loaded = load(source, read_plugins().kinds, frozenset(about.get("extensions", ())))
    return loaded.playbook, source.decode("utf-8-sig", "replace")
