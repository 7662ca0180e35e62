"""A worker's reports: those that come together go together, each recorded once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from noetl.engine.reports import Fact
from noetl.errors import LeaseLost, Refused
from noetl.ports import Lease
from noetl.runtime import wire
from noetl.runtime.line import Line

_Sent = tuple[wire.Report, str, asyncio.Future[wire.Reply]]
"""A report, the execution that it is about, and who waits for its answer."""


class Postbox:
    """One call at a time to each server; what gathers meanwhile goes with the next."""

    def __init__(self, line: Line, worker: str, pool: str) -> None:
        self._line = line
        self._worker = worker
        self._pool = pool
        self._numbers: dict[Lease, int] = {}
        self._waiting: dict[str, list[_Sent]] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}

    def begin(self, lease: Lease) -> None:
        """The reports of a lease are counted from 1."""
        self._numbers[lease] = 0

    async def send(
        self,
        lease: Lease,
        facts: Sequence[Fact],
        *,
        wants: bool,
        receipts: dict[str, str],
    ) -> wire.Reply:
        """Raises ``LeaseLost`` if the server cannot be reached in time, or has told the
        worker to leave the pipeline before."""
        if lease not in self._numbers:
            raise LeaseLost(f"{lease.command_id} was left")
        number = self._numbers[lease] = self._numbers[lease] + 1
        future: asyncio.Future[wire.Reply] = asyncio.get_running_loop().create_future()
        home = self._line.home_of(lease.execution_id)
        waiting = self._waiting.setdefault(home, [])
        key = wire.LeaseKey(lease.command_id, lease.epoch)
        report = wire.Report(key, number, facts, wants, receipts=receipts)
        waiting.append((report, lease.execution_id, future))
        if home not in self._sending or self._sending[home].done():
            self._sending[home] = asyncio.create_task(self._send(home))
        reply = await future
        if reply.stop:
            self._numbers.pop(lease, None)
        return reply

    async def _send(self, home: str) -> None:
        most = wire.MOST_REPORTS
        while waiting := self._waiting[home]:
            sent, self._waiting[home] = waiting[:most], waiting[most:]
            await self._deliver(sent)

    async def _deliver(self, sent: Sequence[_Sent]) -> None:
        reports = [report for report, *_ in sent]
        about = sent[0][1]
        asked: wire.Message = wire.Reports(self._worker, self._pool, reports)
        try:
            answer = await self._line.ask("events", asked, wire.Replies, _again, about)
        except Refused as error:
            if error.kind != "internal" or len(sent) == 1:
                _fail(sent, error)
                return
            for (
                report,
                execution_id,
                future,
            ) in sent:  # one of them is to blame; the others are not
                again = msgspec.structs.replace(report, again=True)
                await self._deliver([(again, execution_id, future)])
        except Exception as error:
            _fail(sent, error)
        else:
            for (*_, future), reply in zip(sent, answer.replies, strict=True):
                if not future.done():
                    future.set_result(reply)


def _fail(sent: Sequence[_Sent], error: Exception) -> None:
    for *_, future in sent:
        if not future.done():
            future.set_exception(error)


def _again(asked: wire.Message) -> wire.Message:
    """The server may have recorded them, though nobody heard it say so."""
    assert isinstance(asked, wire.Reports)
    reports = [msgspec.structs.replace(each, again=True) for each in asked.reports]
    return wire.Reports(asked.worker, asked.pool, reports)
