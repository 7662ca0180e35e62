"""The seams: what the runtime asks of the outside, each a protocol with promises."""

from __future__ import annotations

from noetl.ports.blobs import Blob, Blobs, tool_error
from noetl.ports.catalogs import Catalog, CatalogEntry, Registered, Shelf
from noetl.ports.clock import Clock
from noetl.ports.secrets import Keys, SealedStore, SecretProvider, TaskPlace, Wanted
from noetl.ports.store import (
    Claimed,
    Command,
    CommandRow,
    Grant,
    Lease,
    Name,
    Place,
    Snapshot,
    Standing,
    Store,
    Summary,
    Timer,
    Transition,
    summary_document,
)
from noetl.ports.tools import Draft, Drafts, Tool, ToolCall
from noetl.ports.triggers import Backfill, Trigger, Triggers

__all__ = [
    "Backfill",
    "Blob",
    "Blobs",
    "Catalog",
    "CatalogEntry",
    "Claimed",
    "Clock",
    "Command",
    "CommandRow",
    "Draft",
    "Drafts",
    "Grant",
    "Keys",
    "Lease",
    "Name",
    "Place",
    "Registered",
    "SealedStore",
    "SecretProvider",
    "Shelf",
    "Snapshot",
    "Standing",
    "Store",
    "Summary",
    "TaskPlace",
    "Timer",
    "Tool",
    "ToolCall",
    "Transition",
    "Trigger",
    "Triggers",
    "Wanted",
    "summary_document",
    "tool_error",
]
