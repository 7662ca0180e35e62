"""Verification of a whole home, in the process of the test."""

from __future__ import annotations

import asyncio
from pathlib import Path

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load_validated
from noetl.dsl.model import Playbook
from noetl.service.executions.verification import StoreCheck
from noetl.types import JSON


def findings(home: Path) -> list[str]:
    """Return everything that is wrong with the logs of a home."""
    return [
        line for log in sorted(home.glob("log*.db")) for line in asyncio.run(_of(log))
    ]


async def _of(log: Path) -> list[str]:
    store = SqliteStore.open(log, readonly=True)
    try:
        check = StoreCheck(store, FileBlobs(log.parent / "results"), _load)
        found = [
            f"{each.execution_id}: {breach}"
            async for each in check.all()
            for breach in each.breaches
        ]
        return found + [f"{stray}" for stray in await store.strays()]
    finally:
        await store.close()


def _load(about: dict[str, JSON], body: bytes) -> Playbook | None:
    extensions = frozenset(about.get("extensions") or ())
    return load_validated(body, BUILTIN, extensions).playbook
