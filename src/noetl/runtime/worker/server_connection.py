"""The connection of a worker to its servers: choice, batches, retries, the fence."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import cycle
from typing import IO, Protocol, TypeAlias, TypeVar

import msgspec

from noetl.engine.ids import server_id_of
from noetl.engine.reports.accept import Fact
from noetl.errors import Defective, LeaseLost, Refused, Unreachable
from noetl.ports import Lease
from noetl.runtime.executions.placement import LEASE_TTL_S
from noetl.runtime.worker.lease_ages import LeaseAges
from noetl.runtime.worker_protocol import messages

SKIP_SECONDS = 2.0
"""Seconds for which a server that did not answer is not chosen."""


class WorkerHttpClient(Protocol):
    """The HTTP client of a worker: one request to one server.

    Its methods raise ``Unreachable`` or ``Refused``.

    ``server_ids`` are what servers called themselves, as long as they answer.
    """

    @property
    def server_ids(self) -> Mapping[str, str]: ...

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        """The body of the answer, which is small enough for the memory."""
        ...

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        """The same with ``size`` bytes of a file as the body of the request."""
        ...

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        """The same with a file for the body of the answer."""
        ...


class ServerChoice:
    """Servers of one cluster: when one does not answer, the next is asked.

    ``server_ids`` are the ids that servers sent with their answers. ``current`` is the
    server for requests that any server can answer.
    """

    def __init__(
        self,
        servers: Sequence[str],
        server_ids: Mapping[str, str],
        monotonic: Callable[[], float],
    ) -> None:
        self._servers = [each.rstrip("/") for each in servers]
        self._server_ids = server_ids
        self._monotonic = monotonic
        self._in_turn = cycle(self._servers)
        self._skipped_until: dict[str, float] = {}
        self.current = next(self._in_turn)

    def for_execution(self, execution_id: str) -> str:
        """Return the server that accepted the execution and has it in memory. If that
        server does not answer, or is not known yet, workers with the same list of
        servers choose the same one.
        """
        if len(self._servers) == 1:
            return self.current
        now, mark, ids = self._monotonic(), server_id_of(execution_id), self._server_ids
        awake = [s for s in self._servers if self._skipped_until.get(s, now) <= now]
        known = awake or self._servers
        same = [each for each in known if ids.get(each) == mark]
        if not same:
            same = [each for each in known if each not in ids] or known
        return max(same, key=lambda each: _weight(each, execution_id))

    def skip(self, server: str) -> None:
        """Do not choose this server for a while, if there are others."""
        self._skipped_until[server] = self._monotonic() + SKIP_SECONDS
        if server == self.current:
            self.current = next(self._in_turn)


def _weight(server: str, execution_id: str) -> bytes:
    return hashlib.blake2b(f"{server} {execution_id}".encode(), digest_size=8).digest()


T = TypeVar("T")
M = TypeVar("M", bound=messages.Message)

_TELLING = (messages.ClaimReply, messages.ReportBatchReply, messages.HeartbeatReply)
"""Answers that say whether the server has accounts."""

MAX_DEFECTS = 3
"""Answers of status 500 in a row after which a request is given up: what the server
cannot do for one execution must not keep a slot for good."""

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before a request is sent again; the last one holds for all that follow."""

_Future: TypeAlias = asyncio.Future[messages.ReportReply]
_Sent: TypeAlias = tuple[messages.Report, str, _Future]
"""A report, its execution, and the future of its answer."""


class ServerConnection:
    """Sends the requests of one worker to the servers of one cluster.

    Reports that gather while a batch is being sent go with the next batch to the same
    server. ``leases`` are the ages of the worker's leases.
    """

    def __init__(
        self,
        client: WorkerHttpClient,
        servers: Sequence[str],
        *,
        worker: str,
        pool: str,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.worker = worker
        self.pool = pool
        self.leases = LeaseAges(monotonic, LEASE_TTL_S)
        self._client = client
        self._monotonic = monotonic
        self._sleep = sleep
        self._has_accounts = True
        self._choice = ServerChoice(servers, client.server_ids, monotonic)
        self._numbers: dict[Lease, int] = {}
        self._waiting: dict[str, list[_Sent]] = {}
        self._sending: dict[str, asyncio.Task[None]] = {}

    def has_accounts(self) -> bool:
        """Return whether the servers have accounts, by the last answer."""
        return self._has_accounts

    @property
    def ttl(self) -> float:
        """The life of a lease in seconds."""
        return self.leases.ttl

    def server_for(self, execution_id: str) -> str:
        return self._choice.for_execution(execution_id)

    # -- requests ----------------------------------------------------------------

    async def request_once(
        self,
        message: messages.Message,
        reply: type[T],
        *,
        seconds: float,
        execution_id: str | None = None,
    ) -> T:
        """Sends a message to the execution's server, or to any.

        Raises ``Unreachable``, ``LeaseLost`` or ``Refused``.
        """
        server = self._choice.current
        if execution_id is not None:
            server = self._choice.for_execution(execution_id)
        body, path = messages.codec.encode(message), messages.PATHS[type(message)]
        sent = self._monotonic()
        try:
            found = await self._client.request(server, path, body, seconds=seconds)
        except Unreachable:
            self._choice.skip(server)
            raise
        except Refused as error:
            if error.kind == LeaseLost.kind:
                raise LeaseLost(str(error)) from None
            raise
        if reply is bytes:
            return found  # type: ignore[return-value]
        answer = messages.codec.decode(found, reply)
        self.leases.note(message, answer, sent)
        if isinstance(answer, _TELLING):
            self._has_accounts = answer.has_accounts
        return answer

    async def request(
        self,
        message: M,
        reply: type[T],
        *,
        execution_id: str | None = None,
        as_retry: Callable[[M], M] = lambda message: message,
    ) -> T:
        """Send a message until a server answers; ``as_retry`` makes the repeated one.

        Raises ``Refused``, or ``LeaseLost``, also if no server answers in time.
        """
        attempt = 0
        while True:
            try:
                return await self.request_once(
                    message, reply, seconds=self.ttl, execution_id=execution_id
                )
            except Unreachable as error:
                await self._pause_or_give_up(message, attempt, error)
            attempt += 1
            message = as_retry(message)

    async def upload(
        self, message: messages.UploadRequest, source: IO[bytes]
    ) -> messages.UploadReply:
        """Sends a file until a server has taken all of it.

        Raises ``Refused``, or ``LeaseLost`` if no server answers in time.
        """
        fields = {**msgspec.to_builtins(message.lease), "worker": message.worker}
        fields |= {"key": message.key, "size": message.size}
        query = {name: str(value) for name, value in fields.items()}
        path = messages.PATHS[messages.UploadRequest]

        async def send(server: str) -> bytes:
            await asyncio.to_thread(source.seek, 0)
            size = message.size
            return await self._client.upload(server, path, query, source, size)

        found = await self._transfer(message, send)
        return messages.codec.decode(found, messages.UploadReply)

    async def download(self, message: messages.BlobRequest, target: IO[bytes]) -> None:
        """Receives a file until all of it is here. Raises as ``upload``."""
        body, path = (
            messages.codec.encode(message),
            messages.PATHS[messages.BlobRequest],
        )

        async def receive(server: str) -> None:
            await asyncio.to_thread(target.seek, 0)
            await asyncio.to_thread(target.truncate)
            await self._client.download(server, path, body, target)

        await self._transfer(message, receive)

    async def _transfer(
        self, message: messages.Message, send: Callable[[str], Awaitable[T]]
    ) -> T:
        attempt = 0
        while True:
            server = self._choice.current
            try:
                return await send(server)
            except Unreachable as error:
                self._choice.skip(server)
                await self._pause_or_give_up(message, attempt, error)
            attempt += 1

    async def _pause_or_give_up(
        self, message: messages.Message, attempt: int, error: Unreachable
    ) -> None:
        """Waits before the next attempt. Raises ``LeaseLost`` if there is no time left,
        and ``Refused`` if the server only answers that it is broken."""
        if isinstance(error, Defective) and attempt + 1 >= MAX_DEFECTS:
            raise Refused("internal", str(error)) from None
        if self.leases.are_over(message):
            raise LeaseLost("the server could not be reached in time") from None
        await self.pause(attempt)

    async def pause(self, attempt: int) -> None:
        """Wait before the next attempt, the longer the more have failed."""
        await self._sleep(PAUSES[min(attempt, len(PAUSES) - 1)])

    # -- reports -----------------------------------------------------------------

    def begin(self, lease: Lease) -> None:
        """Counts the reports of a new lease from 1."""
        self._numbers[lease] = 0

    async def report(
        self,
        lease: Lease,
        facts: Sequence[Fact],
        *,
        prefetch: bool,
        receipts: dict[str, str],
    ) -> messages.ReportReply:
        """Send a report with the next batch to the execution's server.

        Raises ``Refused``, or ``LeaseLost`` if no server answers in time, or if a
        server has stopped the pipeline before.
        """
        if lease not in self._numbers:
            raise LeaseLost(f"{lease.command_id} was left")
        number = self._numbers[lease] = self._numbers[lease] + 1
        key = messages.LeaseKey(lease.command_id, lease.epoch)
        report = messages.Report(key, number, facts, prefetch, receipts=receipts)
        future: _Future = asyncio.get_running_loop().create_future()
        server = self._choice.for_execution(lease.execution_id)
        waiting = self._waiting.setdefault(server, [])
        waiting.append((report, lease.execution_id, future))
        if server not in self._sending or self._sending[server].done():
            self._sending[server] = asyncio.create_task(self._send_batches(server))
        reply = await future
        if reply.stop:
            self._numbers.pop(lease, None)
        return reply

    async def _send_batches(self, server: str) -> None:
        most = messages.MAX_REPORTS
        while waiting := self._waiting[server]:
            batch, self._waiting[server] = waiting[:most], waiting[most:]
            await self._send_batch(batch)

    async def _send_batch(self, batch: Sequence[_Sent]) -> None:
        reports = [report for report, *_ in batch]
        message = messages.ReportBatch(self.worker, self.pool, reports)
        _, execution_id, _ = batch[0]
        try:
            answer = await self.request(
                message,
                messages.ReportBatchReply,
                execution_id=execution_id,
                as_retry=_as_retry,
            )
        except Refused as error:
            if error.kind != "internal" or len(batch) == 1:
                _fail(batch, error)
                return
            # One of the reports causes the error: send each alone.
            for report, execution_id, future in batch:
                again = msgspec.structs.replace(report, is_retry=True)
                await self._send_batch([(again, execution_id, future)])
        except Exception as error:
            _fail(batch, error)
        else:
            for (*_, future), reply in zip(batch, answer.replies, strict=True):
                if not future.done():
                    future.set_result(reply)


def _fail(batch: Sequence[_Sent], error: Exception) -> None:
    for *_, future in batch:
        if not future.done():
            future.set_exception(error)


def _as_retry(message: messages.ReportBatch) -> messages.ReportBatch:
    """The server may have recorded the reports, though its answer was lost."""
    reports = [msgspec.structs.replace(each, is_retry=True) for each in message.reports]
    return messages.ReportBatch(message.worker, message.pool, reports)
