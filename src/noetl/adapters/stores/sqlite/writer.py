"""The writer: runs all queued jobs in one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from noetl.adapters.stores.sqlite.connection import LASTING, translate
from noetl.adapters.stores.sqlite.transitions import Memory
from noetl.errors import StoreError

PAGE = 4096
CHECKPOINT = 512 * PAGE
"""Approximate bytes in the write-ahead log before its pages are moved to the file.

The log is then written from its start again. It must not grow: a commit into allocated
blocks takes two thirds of the time of a commit that allocates new ones.
"""
TOUCHED = 6 * PAGE
"""Bytes that a transaction writes besides its events: pages of tables and indexes."""


@dataclass(slots=True, eq=False)
class Job:
    """Work of one caller. If it raises a ``StoreError``, it has written nothing."""

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
        """Run jobs and set their answers; durable jobs are on the disk on return."""
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
        except Exception as error:  # a defect in one job must not fail the others
            self._after_failure(jobs, error)

    def checkpoint(self) -> None:
        """Move a large write-ahead log into the file; commits are safe either way."""
        if self._written < CHECKPOINT or self._broken:
            return
        self._written = 0
        try:
            # Passive: it does not wait for readers, and keeps the pages they need.
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
        """Choose whether the next commit is synced to the disk.

        Leases whose owners end with this process need not be synced; the next synced
        commit includes them.
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
        """Refuse later jobs: after a failed sync the system may drop pages (I-06)."""
        message = (
            f"{fault}; it is unknown whether the last commit was stored: "
            "open the store again"
        )
        self._broken = StoreError(message, fault.kind)

    @staticmethod
    def _fail(jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            job.answer, job.error = None, error


T = TypeVar("T")


class Queue(Protocol):
    """Hands jobs to the writer."""

    def put(self, job: Job) -> None: ...

    async def close(self) -> None:
        """Finish all queued jobs and close the writer."""
        ...


class DirectQueue:
    """Runs jobs on the event loop, those of one turn in one transaction.

    For an engine with a loop of its own, which would only wait for a thread. A job is
    run at once while each turn has one job: a chain of steps then needs no turn for its
    commit.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._jobs: list[Job] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_shared = False

    def put(self, job: Job) -> None:
        loop = job.future.get_loop()
        self._jobs.append(job)
        if self._loop is loop:
            self._is_shared = True
            return
        # No turn is open, or only one on a loop that has ended.
        self._loop = loop
        loop.call_soon(self._end_turn)
        if not self._is_shared:
            self._run()

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self._end_turn()
        self._writer.close()

    def _end_turn(self) -> None:
        self._loop = None
        if self._jobs:
            self._is_shared = len(self._jobs) > 1
            self._run()

    def _run(self) -> None:
        jobs, self._jobs = self._jobs, []
        self._writer.run(jobs)
        answer(jobs)
        self._writer.checkpoint()


class ThreadQueue:
    """Runs jobs on a thread, so that a slow disk does not stall the loop.

    The thread takes all queued jobs and commits once. It does not wait for more jobs:
    the latency of a single job is one commit, and under load jobs share commits.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._serve, name="noetl-writer", daemon=True
        )
        self._thread.start()

    def put(self, job: Job) -> None:
        self._jobs.put(job)

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _serve(self) -> None:
        while jobs := self._take():
            self._writer.run(jobs)
            by_loop = defaultdict(list)
            for job in jobs:
                by_loop[job.future.get_loop()].append(job)
            for loop, mine in by_loop.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(answer, mine)
            self._writer.checkpoint()
        self._writer.close()

    def _take(self) -> list[Job]:
        """Wait for a job and take all others that are queued; empty once closed."""
        jobs = []
        job = self._jobs.get()
        try:
            while job is not None:
                jobs.append(job)
                job = self._jobs.get_nowait()
            if jobs:  # close after these
                self._jobs.put(None)
        except Empty:
            pass
        return jobs


def submit(
    queue: Queue,
    work: Callable[[sqlite3.Connection], T],
    *,
    size: int = 0,
    durable: bool = True,
) -> asyncio.Future[T]:
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    queue.put(Job(work, size, durable, future))
    return future


def answer(jobs: Sequence[Job]) -> None:
    for job in jobs:
        future: asyncio.Future[Any] = job.future
        # The caller was cancelled, or its loop has ended.
        if future.done() or future.get_loop().is_closed():
            continue
        if job.error is None:
            future.set_result(job.answer)
        else:
            future.set_exception(job.error)


def closed() -> StoreError:
    return StoreError("the store is closed", "store.closed")
