"""Executions of a server as a home of this machine: what reads logs can read them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path

import msgspec

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.client import Client, Refused
from noetl.commands import remote
from noetl.engine.events import Event
from noetl.home import Home
from noetl.ports import Summary, Transition

PAGE = 500
NEWEST = 100
"""Executions that are copied if none is named."""


@asynccontextmanager
async def mirrored(client: Client, executions: Sequence[str]) -> AsyncIterator[Home]:
    """These, by ids or prefixes, or else the newest, as they are at this moment.

    The home is gone afterwards.
    """
    summaries = await asyncio.to_thread(_find, client, executions)
    with tempfile.TemporaryDirectory(prefix="noetl-") as folder:
        home = Home(Path(folder))
        store = SqliteStore.open(home.log(1))
        try:
            for summary in summaries:
                try:
                    await _copy(client, summary, store)
                except Refused as refused:  # sensitive, and not named
                    if executions or refused.kind != "auth.role":
                        raise
        finally:
            await store.close()
        yield home


def _find(client: Client, executions: Sequence[str]) -> list[Summary]:
    if executions:
        names = [remote.whole_id(client, each) for each in executions]
        return [remote.summary_of(client, each) for each in dict.fromkeys(names)]
    page = client.get("/api/executions", limit=NEWEST)
    return msgspec.convert(page["executions"], list[Summary])


async def _copy(client: Client, summary: Summary, store: SqliteStore) -> None:
    name, after = summary.execution_id, 0
    events = _events(client, name)
    while page := await asyncio.to_thread(lambda: list(islice(events, PAGE))):
        await store.commit(
            [Transition(execution_id=name, after=after, events=page, summary=summary)]
        )
        after = page[-1].seq


def _events(client: Client, execution_id: str) -> Iterator[Event]:
    for event in remote.events_of(client, execution_id):
        yield msgspec.convert(event, Event)
