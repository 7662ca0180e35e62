"""A worker's reports: those that come together go together, each recorded once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from noetl.engine.reports import Fact
from noetl.ports import Lease
from noetl.runtime import wire
from noetl.runtime.line import Line


class Postbox:
    """One call at a time; what gathers meanwhile goes with the next one."""

    def __init__(self, line: Line, worker: str, pool: str) -> None:
        self._line = line
        self._worker = worker
        self._pool = pool
        self._numbers: dict[str, int] = {}
        self._waiting: list[tuple[wire.Report, asyncio.Future[wire.Reply]]] = []
        self._sending: asyncio.Task[None] | None = None

    def begin(self, lease: Lease) -> None:
        """The reports of a lease are counted from 1."""
        self._numbers[lease.command_id] = 0

    async def send(
        self, lease: Lease, facts: Sequence[Fact], *, wants: bool
    ) -> wire.Reply:
        """Raises ``LeaseLost`` if the server cannot be reached in time."""
        name = lease.command_id
        number = self._numbers[name] = self._numbers[name] + 1
        future: asyncio.Future[wire.Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((wire.Report(lease, number, facts, wants), future))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())
        reply = await future
        if reply.stop:
            self._numbers.pop(name, None)
        return reply

    async def _send(self) -> None:
        most = wire.MOST_REPORTS
        while self._waiting:
            sent, self._waiting = self._waiting[:most], self._waiting[most:]
            reports = [report for report, _ in sent]
            try:
                asked = wire.Reports(self._worker, self._pool, reports)
                answer = await self._line.ask("events", asked, wire.Replies, _again)
            except Exception as error:
                for _, future in sent:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), reply in zip(sent, answer.replies, strict=True):
                if not future.done():
                    future.set_result(reply)


def _again(asked: wire.Message) -> wire.Message:
    """The server may have recorded them, though nobody heard it say so."""
    assert isinstance(asked, wire.Reports)
    reports = [msgspec.structs.replace(each, again=True) for each in asked.reports]
    return wire.Reports(asked.worker, asked.pool, reports)
