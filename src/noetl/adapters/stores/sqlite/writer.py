"""The one connection that writes: all that is queued, in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noetl.adapters.stores.sqlite.faults import LASTING, translate
from noetl.adapters.stores.sqlite.memory import Memory
from noetl.errors import StoreError

PAGE = 4096
CHECKPOINT = 512 * PAGE
"""About how much may be in the log before its pages go to the file.

Then the log is written from its start again. It must not grow: a commit into blocks
that are there takes two thirds of the time of one that needs new ones.
"""
TOUCHED = 6 * PAGE
"""What a transaction writes besides its events: pages of tables and indexes."""


@dataclass(slots=True, eq=False)
class Job:
    """Work of one caller. A ``StoreError`` it raises says that it wrote nothing."""

    work: Callable[[sqlite3.Connection], Any]
    size: int
    durable: bool
    future: asyncio.Future[Any]
    answer: Any = None
    error: Exception | None = None


class Writer:
    """Runs groups of jobs; used by one thread at a time."""

    def __init__(self, db: sqlite3.Connection, path: Path, memory: Memory) -> None:
        self._db = db
        self._memory = memory
        self._path = path
        self._written = 0
        self._synchronous = True
        self._broken: StoreError | None = None

    def run(self, jobs: Sequence[Job]) -> None:
        """Fill in the answers. When it returns, what is durable is on the disk."""
        if self._broken:
            self._fail(jobs, self._broken)
            return
        try:
            self._transact(jobs)
        except sqlite3.Error as error:
            fault = translate(error, self._path)
            if fault.kind in LASTING or self._db.in_transaction:
                self._break(fault)
            self._after_failure(jobs, fault)
        except Exception as error:  # a defect in one job is not the others' fault
            self._after_failure(jobs, error)

    def checkpoint(self) -> None:
        """Move the log into the file if it is time; the commits are safe either way."""
        if self._written < CHECKPOINT or self._broken:
            return
        self._written = 0
        try:
            # Passive: it never waits for readers. What they still need stays.
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            fault = translate(error, self._path)
            if fault.kind in LASTING:
                self._break(fault)

    def close(self) -> None:
        self._db.close()

    def _transact(self, jobs: Sequence[Job]) -> None:
        db = self._db
        self._synchronize(any(job.durable for job in jobs))
        db.execute("BEGIN IMMEDIATE")
        try:
            for job in jobs:
                try:
                    job.answer = job.work(db)
                except StoreError as refusal:
                    job.error = refusal
            db.execute("COMMIT")
        except BaseException:
            self._memory.clear()
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._written += TOUCHED + sum(job.size for job in jobs)

    def _synchronize(self, full: bool) -> None:
        """Leases of owners that end with this process need not outlive it.

        Their commit is not synced; the next full one carries it along.
        """
        if full != self._synchronous:
            level = "FULL" if full else "NORMAL"
            self._db.execute(f"PRAGMA synchronous = {level}")
            self._synchronous = full

    def _after_failure(self, jobs: Sequence[Job], error: Exception) -> None:
        if len(jobs) == 1 or self._broken:
            self._fail(jobs, error)
            return
        for job in jobs:
            job.answer = job.error = None
            self.run([job])

    def _break(self, fault: StoreError) -> None:
        """After a failed sync the system may forget pages it had promised (I-06)."""
        message = f"{fault}; what was being stored may or may not be: open it again"
        self._broken = StoreError(message, fault.kind)

    @staticmethod
    def _fail(jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            job.answer, job.error = None, error
