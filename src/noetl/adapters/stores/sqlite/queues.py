"""How jobs reach the writer: on the event loop itself, or on a thread of their own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from noetl.adapters.stores.sqlite.writer import Job, Writer
from noetl.errors import StoreError

T = TypeVar("T")


class Queue(Protocol):
    def put(self, job: Job) -> None: ...

    async def close(self) -> None:
        """Everything that was put is done when this returns."""
        ...


class DirectQueue:
    """No thread: what one turn of the loop has gathered is committed by the next.

    For an engine that has the loop to itself and would only wait meanwhile.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._jobs: list[Job] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def put(self, job: Job) -> None:
        loop = job.future.get_loop()
        if self._loop is not loop:  # nothing is planned, or on a loop that has ended
            self._loop = loop
            loop.call_soon(self._flush)
        self._jobs.append(job)

    async def close(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        jobs, self._jobs, self._loop = self._jobs, [], None
        if jobs:
            self._writer.run(jobs)
            answer(jobs)
            self._writer.checkpoint()


class ThreadQueue:
    """A thread that writes: a slow disk does not stall the loop.

    It takes all that is queued, commits once and answers everyone. There is no
    waiting window: at rest the latency is one commit, under load commits are shared.
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
        """Wait for one, then take all the others; empty at the end."""
        jobs = []
        job = self._jobs.get()
        try:
            while job is not None:
                jobs.append(job)
                job = self._jobs.get_nowait()
            if jobs:  # the end comes after these
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
        # Whoever asked was cancelled, or has gone with its loop.
        if future.done() or future.get_loop().is_closed():
            continue
        if job.error is None:
            future.set_result(job.answer)
        else:
            future.set_exception(job.error)


def closed() -> StoreError:
    return StoreError("the store is closed", "store.closed")
