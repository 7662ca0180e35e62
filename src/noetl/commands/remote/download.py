"""Copies of a server's executions as a temporary home, for readers of local logs."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import msgspec

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.client.http import Client, Refused
from noetl.commands.remote import executions as remote
from noetl.engine.events import Event
from noetl.local.home import Home
from noetl.ports import Append, EventLog, Summary, Transition

PAGE = 500
MAX_COPIED = 100
"""Number of executions that are copied if none is named."""


@asynccontextmanager
async def mirrored(client: Client, executions: Sequence[str]) -> AsyncIterator[Home]:
    """Copy executions, by ids or prefixes, or else the newest, to a temporary home.

    The home is removed afterwards.
    """
    summaries = await asyncio.to_thread(_find, client, executions)
    with tempfile.TemporaryDirectory(prefix="noetl-") as folder:
        home = Home(Path(folder))
        store = SqliteStore.open(home.log(1))
        try:
            for summary in summaries:
                try:
                    await _copy(client, summary, store)
                except Refused as refused:  # a sensitive execution must be named
                    if executions or refused.kind != "auth.role":
                        raise
        finally:
            await store.close()
        yield home


def _find(client: Client, executions: Sequence[str]) -> list[Summary]:
    if executions:
        names = [remote.whole_id(client, each) for each in executions]
        return [remote.summary_of(client, each) for each in dict.fromkeys(names)]
    page = client.get("/api/executions", limit=MAX_COPIED)
    return msgspec.convert(page["executions"], list[Summary])


async def _copy(client: Client, summary: Summary, store: EventLog) -> None:
    name, after = summary.execution_id, 0
    events = _events(client, name)
    while page := await asyncio.to_thread(lambda: list(islice(events, PAGE))):
        await store.commit(
            [Transition(execution_id=name, log=Append(after, page), summary=summary)]
        )
        after = page[-1].seq


def _events(client: Client, execution_id: str) -> Iterator[Event]:
    for event in remote.events_of(client, execution_id):
        yield msgspec.convert(event, Event)
