"""Ports: what the runtime needs of the outside, each a protocol with its promises."""

from __future__ import annotations

from typing import Protocol

from noetl.ports.blobs import Blob, Blobs, tool_error
from noetl.ports.catalogs import Catalog, CatalogEntry, CatalogRows, Registered
from noetl.ports.exports import (
    EXPORT_TIMER,
    Export,
    ExportedExecution,
    ExportFailed,
    ExportQueue,
    WaitingExports,
    export_timer,
)
from noetl.ports.log_maintenance import (
    CommandRecord,
    Damage,
    LocalStore,
    LogFile,
    LogHead,
    LogMaintenance,
    LogVerifier,
    RecordReader,
    Records,
    Stray,
)
from noetl.ports.retention import Family, Removal, Retention
from noetl.ports.secrets import Keys, SealedStore, SecretProvider, TaskPlace, Wanted
from noetl.ports.store import (
    Backlog,
    CallLimit,
    Claimed,
    CommandQueue,
    CommandRow,
    ConcurrencyIndex,
    EventLog,
    ExecutionHistory,
    ExecutionIndex,
    IdlePage,
    LogReader,
    Parked,
    QueuedExecution,
    Snapshot,
    Store,
    Tallies,
    Timers,
)
from noetl.ports.task_logs import LogChunk, LogSource, TaskLogs
from noetl.ports.tools import Draft, Drafts, Output, Tool, ToolCall
from noetl.ports.transition import (
    NO_LABELS,
    Append,
    Command,
    CommandChanges,
    ConcurrencySlot,
    Grant,
    Lease,
    Name,
    Reports,
    Summary,
    Timer,
    TimerChanges,
    Transition,
    summary_document,
)
from noetl.ports.triggers import Backfill, Trigger, Triggers


class Clock(Protocol):
    """The time, and a sleep by it."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


__all__ = [
    "EXPORT_TIMER",
    "NO_LABELS",
    "Append",
    "Backfill",
    "Backlog",
    "Blob",
    "Blobs",
    "CallLimit",
    "Catalog",
    "CatalogEntry",
    "CatalogRows",
    "Claimed",
    "Clock",
    "Command",
    "CommandChanges",
    "CommandQueue",
    "CommandRecord",
    "CommandRow",
    "ConcurrencyIndex",
    "ConcurrencySlot",
    "Damage",
    "Draft",
    "Drafts",
    "EventLog",
    "ExecutionHistory",
    "ExecutionIndex",
    "Export",
    "ExportFailed",
    "ExportQueue",
    "ExportedExecution",
    "Family",
    "Grant",
    "IdlePage",
    "Keys",
    "Lease",
    "LocalStore",
    "LogChunk",
    "LogFile",
    "LogHead",
    "LogMaintenance",
    "LogReader",
    "LogSource",
    "LogVerifier",
    "Name",
    "Output",
    "Parked",
    "QueuedExecution",
    "RecordReader",
    "Records",
    "Registered",
    "Removal",
    "Reports",
    "Retention",
    "SealedStore",
    "SecretProvider",
    "Snapshot",
    "Store",
    "Stray",
    "Summary",
    "Tallies",
    "TaskLogs",
    "TaskPlace",
    "Timer",
    "TimerChanges",
    "Timers",
    "Tool",
    "ToolCall",
    "Transition",
    "Trigger",
    "Triggers",
    "WaitingExports",
    "Wanted",
    "export_timer",
    "summary_document",
    "tool_error",
]
