"""The connection of a worker: retries until the fence, batches, other servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import IO, Any

import msgspec
import pytest

from noetl.engine.reports.accept import Fact
from noetl.errors import Defective, LeaseLost, Refused, Unreachable
from noetl.ports import Lease
from noetl.runtime.worker.lease_ages import FENCE
from noetl.runtime.worker.server_connection import (
    MAX_DEFECTS,
    PAUSES,
    ServerChoice,
    ServerConnection,
)
from noetl.runtime.worker_protocol import messages

KEY = messages.LeaseKey("e-1", 1)
LEASE = Lease("e-1", "e", "w", 1)
OTHER = Lease("f-1", "f", "w", 1)
FACT = Fact("step.started")
PLAYBOOK = messages.PlaybookRequest("w", KEY)

Behave = Callable[[str, str, bytes], Any]


class Client:
    """Answers as ``behave`` says: bytes, a message to encode, or an error to raise."""

    def __init__(self, behave: Behave) -> None:
        self.server_ids: dict[str, str] = {}
        self.sent: list[tuple[str, str, bytes]] = []
        self._behave = behave

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        self.sent.append((server, path, body))
        found = self._behave(server, path, body)
        if asyncio.iscoroutine(found):
            found = await found
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else messages.codec.encode(found)

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        body = source.read() + repr(sorted(query.items())).encode()
        return await self.request(server, path, body, seconds=0)

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        target.write(b"a part")
        target.write(await self.request(server, path, body, seconds=0))

    @property
    def servers(self) -> list[str]:
        return [server for server, *_ in self.sent]

    @property
    def batches(self) -> list[messages.ReportBatch]:
        return [
            messages.codec.decode(body, messages.ReportBatch) for *_, body in self.sent
        ]


class Time:
    """Passes only while the connection sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def connect(
    client: Client, *servers: str, time: Time | None = None
) -> ServerConnection:
    time = time or Time()
    return ServerConnection(
        client,
        servers or ["http://a"],
        worker="w",
        pool="p",
        monotonic=time,
        sleep=time.sleep,
    )


def in_turn(*answers: Any) -> Behave:
    left = list(answers)
    return lambda *_: left.pop(0)


def echo(*_: Any) -> Any:
    return b"text"


async def test_a_request_is_repeated_until_a_server_answers() -> None:
    client, time = Client(in_turn(*[Unreachable("x")] * 7, b"text")), Time()
    connection = connect(client, time=time)

    assert await connection.request(PLAYBOOK, bytes) == b"text"
    assert time.pauses == [*PAUSES, PAUSES[-1], PAUSES[-1]]
    assert client.sent[0] == client.sent[-1]
    assert client.sent[0][1] == "/api/worker/source"


async def test_requests_end_at_the_fence() -> None:
    """Before another worker may get the leases (I-19)."""
    client, time = Client(lambda *_: Unreachable("x")), Time()
    connection = connect(client, time=time)
    connection.leases.ttl = 30.0

    with pytest.raises(LeaseLost, match="could not be reached in time"):
        await connection.request(PLAYBOOK, bytes)
    assert 30.0 * FENCE < time.now < 30.0
    assert connection.leases.in_danger([KEY])


BEAT = messages.Heartbeat("w", "p", 1, [KEY, messages.LeaseKey("f-1", 1)])
OLD = 30.0 * FENCE + 0.1


async def test_only_a_renewal_moves_the_fence_of_a_lease() -> None:
    """A server that answers, and does not renew, keeps no lease alive (I-19)."""
    time = Time()
    answers = in_turn(b"text", messages.HeartbeatReply(lost=["f-1"]))
    connection = connect(Client(answers), time=time)
    assert not connection.leases.in_danger(BEAT.leases)
    time.now = OLD

    await connection.request(PLAYBOOK, bytes)
    assert connection.leases.in_danger([KEY])
    await connection.request_once(BEAT, messages.HeartbeatReply, seconds=1.0)
    assert not connection.leases.in_danger([KEY])
    assert connection.leases.in_danger([BEAT.leases[1]])


async def test_a_lease_is_as_old_as_the_request_for_its_renewal() -> None:
    time = Time()

    async def late(*_: Any) -> messages.HeartbeatReply:
        time.now += OLD  # the process was suspended, and reads the answer now
        return messages.HeartbeatReply()

    connection = connect(Client(late), time=time)
    await connection.request_once(BEAT, messages.HeartbeatReply, seconds=1.0)
    assert connection.leases.in_danger([KEY])


async def test_the_pauses_between_transfers_grow() -> None:
    stored = messages.UploadReply("0" * 64, 4, 1.0)
    time = Time()
    connection = connect(Client(in_turn(*[Unreachable("x")] * 4, stored)), time=time)

    message = messages.UploadRequest("w", KEY, "0" * 64, 4)
    await connection.upload(message, BytesIO(b"data"))
    assert time.pauses == list(PAUSES[:4])


def test_the_paths_of_requests_are_those_of_older_servers() -> None:
    assert {each.__name__: path for each, path in messages.PATHS.items()} == {
        "ClaimRequest": "/api/worker/claim",
        "ReportBatch": "/api/events",
        "Heartbeat": "/api/worker/heartbeat",
        "PlaybookRequest": "/api/worker/source",
        "ValueRequest": "/api/worker/value",
        "BlobRequest": "/api/worker/result",
        "UploadRequest": "/api/worker/results",
        "SecretRequest": "/api/worker/secret",
        "TokenRequest": "/api/worker/token",
        "PermitRequest": "/api/worker/permit",
        "LogBatch": "/api/worker/logs",
    }


def test_members_that_an_answer_lacks_say_that_work_goes_on() -> None:
    reply = messages.codec.decode(b"{}", messages.ReportReply)

    assert (reply.stop, reply.spilled, reply.duplicate) == (False, False, False)
    assert (reply.work, reply.error) == (None, None)


async def test_a_server_that_is_only_broken_is_not_asked_for_ever() -> None:
    client = Client(lambda *_: Defective("status 500"))

    with pytest.raises(Refused, match="status 500") as caught:
        await connect(client).request(PLAYBOOK, bytes)
    assert caught.value.kind == "internal"
    assert len(client.sent) == MAX_DEFECTS


async def test_a_refusal_is_not_repeated() -> None:
    refusals = [Refused("ref.gone", "gone"), Refused("lease.lost", "too late")]
    client = Client(in_turn(*refusals))
    connection = connect(client)

    with pytest.raises(Refused, match="gone"):
        await connection.request(PLAYBOOK, bytes)
    with pytest.raises(LeaseLost, match="too late"):
        await connection.request(PLAYBOOK, bytes)
    assert len(client.sent) == 2


async def test_the_next_server_is_asked_when_one_does_not_answer() -> None:
    def behave(server: str, path: str, body: bytes) -> Any:
        return Unreachable("x") if server == "http://a" else b"text"

    client = Client(behave)
    connection = connect(client, "http://a", "http://b", "http://c")

    assert await connection.request(PLAYBOOK, bytes) == b"text"
    assert await connection.request(PLAYBOOK, bytes) == b"text"
    assert client.servers == ["http://a", "http://b", "http://b"]


async def test_accounts_of_the_servers_are_as_the_last_answer_said() -> None:
    replies = [
        messages.HeartbeatReply(has_accounts=False),
        messages.ClaimReply([], 5.0, True),
    ]
    connection = connect(Client(in_turn(*replies)))
    assert connection.has_accounts()

    beat = messages.Heartbeat("w", "p", 1, [])
    await connection.request_once(beat, messages.HeartbeatReply, seconds=1)
    assert not connection.has_accounts()
    claim = messages.ClaimRequest("w", "p", 1)
    await connection.request_once(claim, messages.ClaimReply, seconds=1)
    assert connection.has_accounts()


async def test_a_transfer_begins_again_at_the_next_server() -> None:
    stored = messages.UploadReply("0" * 64, 4, 1.0, receipt="r")
    client = Client(in_turn(Unreachable("x"), stored, Unreachable("x"), b"all"))
    connection = connect(client, "http://a", "http://b")

    message = messages.UploadRequest("w", KEY, "0" * 64, 4)
    assert await connection.upload(message, BytesIO(b"data")) == stored
    sent = [body for *_, body in client.sent]
    assert sent[0] == sent[1]
    assert sent[1].startswith(b"data")
    assert b"('command_id', 'e-1'), ('epoch', '1')" in sent[1]

    target = BytesIO()
    await connection.download(messages.BlobRequest("w", KEY, "0" * 64), target)
    assert target.getvalue() == b"a partall", "nothing of the first attempt is left"
    assert client.servers == ["http://a", "http://b", "http://b", "http://a"]


# -- reports ---------------------------------------------------------------------


def replies(body: bytes, **how: Any) -> messages.ReportBatchReply:
    """The execution of each report as its answer."""
    batch = messages.codec.decode(body, messages.ReportBatch)
    found = [
        messages.ReportReply(ctx={"of": each.lease.command_id, "n": each.number}, **how)
        for each in batch.reports
    ]
    return messages.ReportBatchReply(found)


def report(connection: ServerConnection, lease: Lease) -> asyncio.Task[Any]:
    sent = connection.report(lease, [FACT], prefetch=True, receipts={})
    return asyncio.create_task(sent)


async def test_reports_that_gather_meanwhile_go_together() -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(body: bytes) -> Any:
        begun.set()
        await gate.wait()
        return replies(body)

    client = Client(lambda server, path, body: slow(body))
    connection = connect(client)
    connection.begin(LEASE)
    connection.begin(OTHER)
    tasks = [report(connection, LEASE)]
    await begun.wait()
    tasks += [report(connection, each) for each in (OTHER, LEASE, OTHER)]
    gate.set()
    answers = [(await each).ctx for each in tasks]

    assert [len(each.reports) for each in client.batches] == [1, 3]
    assert answers == [
        {"of": "e-1", "n": 1},
        {"of": "f-1", "n": 1},
        {"of": "e-1", "n": 2},
        {"of": "f-1", "n": 2},
    ]
    first = client.batches[0].reports[0]
    assert (first.prefetch, first.is_retry) == (True, False)
    assert client.sent[0][1] == "/api/events"


async def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_REPORTS", 2)
    client = Client(lambda server, path, body: replies(body))
    connection = connect(client)
    connection.begin(LEASE)

    await asyncio.gather(*[report(connection, LEASE) for _ in range(5)])
    assert [len(each.reports) for each in client.batches] == [2, 2, 1]


async def test_a_report_whose_answer_was_lost_says_so() -> None:
    attempts = iter([Unreachable("x"), None])
    client = Client(lambda server, path, body: next(attempts) or replies(body))
    connection = connect(client)
    connection.begin(LEASE)

    await report(connection, LEASE)
    sent = [each.reports[0] for each in client.batches]
    assert [(each.number, each.is_retry) for each in sent] == [(1, False), (1, True)]


async def test_of_a_batch_that_breaks_the_server_each_is_sent_alone() -> None:
    def behave(server: str, path: str, body: bytes) -> Any:
        return Defective("status 500") if b"e-1" in body else replies(body)

    client = Client(behave)
    connection = connect(client)
    connection.begin(LEASE)
    connection.begin(OTHER)
    bad, good = report(connection, LEASE), report(connection, OTHER)

    assert (await good).ctx == {"of": "f-1", "n": 1}
    with pytest.raises(Refused, match="status 500"):
        await bad
    assert client.batches[-1].reports[0].is_retry


async def test_reports_go_to_the_servers_of_their_executions() -> None:
    one, two = "00000000-0000-7a01-8000-0", "00000000-0000-7b02-8000-0"
    leases = [Lease(f"{each}-1", each, "w", 1) for each in (one, two, one)]
    client = Client(lambda server, path, body: replies(body))
    client.server_ids = {"http://a": "b02", "http://b": "a01"}
    connection = connect(client, "http://a", "http://b")
    for lease in leases:
        connection.begin(lease)

    await asyncio.gather(*[report(connection, each) for each in leases])
    found = {
        server: [each.lease.command_id[:18] for each in batch.reports]
        for server, batch in zip(client.servers, client.batches, strict=True)
    }
    assert found == {"http://a": [two[:18]], "http://b": [one[:18], one[:18]]}


async def test_nothing_is_reported_of_a_pipeline_that_was_left() -> None:
    client = Client(lambda server, path, body: replies(body, stop=True))
    connection = connect(client)
    connection.begin(LEASE)
    assert (await report(connection, LEASE)).stop

    with pytest.raises(LeaseLost, match="was left"):
        await report(connection, LEASE)
    assert len(client.sent) == 1


async def test_a_failure_reaches_each_report_that_still_waits() -> None:
    client = Client(in_turn(Refused("auth.role", "no"), b"not json"))
    connection = connect(client)
    connection.begin(LEASE)
    connection.begin(OTHER)
    left, waits = report(connection, LEASE), report(connection, OTHER)
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(Refused):
        await waits

    with pytest.raises(msgspec.DecodeError):
        await report(connection, OTHER)


async def test_an_answer_to_a_report_that_was_left_is_dropped() -> None:
    client = Client(lambda server, path, body: replies(body))
    connection = connect(client)
    connection.begin(LEASE)
    connection.begin(OTHER)
    left, waits = report(connection, LEASE), report(connection, OTHER)
    await asyncio.sleep(0)
    left.cancel()

    assert (await waits).error is None


def test_a_server_that_is_not_the_current_one_is_only_skipped() -> None:
    choice = ServerChoice(["http://a", "http://b"], {}, lambda: 0.0)

    choice.skip("http://b")

    assert choice.current == "http://a"
