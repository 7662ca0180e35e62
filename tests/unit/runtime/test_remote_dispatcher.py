"""What a worker makes of the work that a server sends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import msgspec
import pytest
from memory_blobs import MemoryBlobs

from noetl import load
from noetl.dsl.model import Playbook
from noetl.engine.runs import Progress
from noetl.engine.state import Frame
from noetl.errors import BlobCorrupt, BlobGone, LeaseLost, Refused, Unreachable
from noetl.ports import Lease
from noetl.runtime.worker.remote_dispatcher import RemoteDispatcher
from noetl.runtime.worker.remote_values import RemoteSecrets, RemoteValues
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.sealing import seal_value

TEXT = b"""apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
  - {step: start, tool: {kind: noop}}
"""


class Plain:
    def seal(self, text: bytes, purpose: str) -> bytes:
        return text

    def open(self, sealed: bytes, purpose: str) -> bytes:
        return sealed


class Server:
    """Gives work one after the other, and the same text for any playbook."""

    def __init__(self, *work: messages.WorkMessage) -> None:
        self.server_ids: dict[str, str] = {}
        self.work = list(work)
        self.texts = 0

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        if path == messages.PATHS[messages.PlaybookRequest]:
            self.texts += 1
            return TEXT
        assert path == messages.PATHS[messages.ClaimRequest]
        assert (
            messages.codec.decode(body, messages.ClaimRequest).protocol
            == messages.PROTOCOL
        )
        await asyncio.sleep(0)
        return messages.codec.encode(messages.ClaimReply([self.work.pop(0)], 12.0))

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        raise AssertionError

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        raise AssertionError


def message(command_id: str, key: str) -> messages.WorkMessage:
    frame = Frame("e", "", "start", command_id, (), {}, {}, {})
    return messages.WorkMessage(
        messages.LeaseKey(command_id, 1), key, (), frame, Progress("task_1")
    )


def parse(text: bytes, extensions: Sequence[str]) -> Playbook:
    playbook = load(text).playbook
    assert playbook is not None
    return playbook


def dispatcher(server: Server) -> RemoteDispatcher:
    connection = ServerConnection(server, ["http://a"], worker="w", pool="p")
    return RemoteDispatcher(connection, parse, Plain(), MemoryBlobs(), slots=4)


async def test_a_playbook_is_fetched_once_and_known_by_its_hash() -> None:
    key = sha256(TEXT).hexdigest()
    server = Server(message("e-1", key), message("e-2", key))
    worker = dispatcher(server)

    for name in ("e-1", "e-2"):
        [work] = await worker.claim("w", 1)
        assert (work.lease.command_id, work.playbook.name) == (name, "t")
    assert server.texts == 1
    assert worker.ttl == 12.0


async def test_a_text_with_another_hash_is_not_run() -> None:
    good = sha256(TEXT).hexdigest()
    server = Server(message("e-1", "0" * 64), message("e-2", good))

    [work] = await dispatcher(server).claim("w", 1)
    assert work.lease.command_id == "e-2"


async def test_a_claim_of_waits_leaves_out_what_cannot_be_run() -> None:
    good, other = sha256(TEXT).hexdigest(), "0" * 64
    worker = dispatcher(Server(message("e-1", other), message("e-2", good)))

    assert await worker.claim("w", 1, waits=True) == []
    [work] = await worker.claim("w", 1, waits=True)
    assert work.lease.command_id == "e-2"


class Store(Server):
    """Keeps uploaded files by key, and sends them back."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.sent = 0

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        data = source.read()
        assert (len(data), size) == (int(query["size"]), int(query["size"]))
        self.files[query["key"]] = data
        receipt = f"for {query['key']}"
        reply = messages.UploadReply(query["key"], size, 1.0, receipt)
        return messages.codec.encode(reply)

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        self.sent += 1
        if messages.codec.decode(body, messages.BlobRequest).key not in self.files:
            raise Refused(BlobGone.kind, "gone")
        target.write(self.files[messages.codec.decode(body, messages.BlobRequest).key])


def content(path: str) -> bytes | None:
    return Path(path).read_bytes() if os.path.exists(path) else None


async def test_a_file_of_the_pipeline_is_read_again_without_the_server(
    tmp_path: Path,
) -> None:
    server, receipts = Store(), dict[str, str]()
    connection = ServerConnection(server, ["http://a"], worker="w", pool="p")
    lease = Lease("e-1", "e", "w", 1)
    values = RemoteValues(connection, lease, str(tmp_path / "drafts"), receipts)
    draft, key = tmp_path / "draft", sha256(b"data").hexdigest()
    for _ in range(2):  # the second copy replaces the first
        draft.write_bytes(b"data")
        stored = await values.adopt(str(draft))

    assert (stored.key, server.files, draft.exists()) == (key, {key: b"data"}, False)
    assert receipts == {key: f"for {key}"}
    async with values.file(key) as copy:
        assert content(copy) == b"data"
    assert (server.sent, content(copy)) == (0, b"data")
    await values.close()
    assert content(copy) is None
    async with values.file(key) as fetched:
        assert content(fetched) == b"data"
    assert (server.sent, content(fetched)) == (1, None)


async def test_a_file_that_the_server_lacks_is_gone(tmp_path: Path) -> None:
    connection = ServerConnection(Store(), ["http://a"], worker="w", pool="p")
    values = RemoteValues(connection, Lease("e-1", "e", "w", 1), str(tmp_path), {})

    with pytest.raises(BlobGone, match="gone"):
        async with values.file("0" * 64):
            raise AssertionError


async def test_values_of_the_pipeline_are_supplied_from_their_copies(
    tmp_path: Path,
) -> None:
    connection = ServerConnection(Store(), ["http://a"], worker="w", pool="p")
    values = RemoteValues(connection, Lease("e-1", "e", "w", 1), str(tmp_path), {})
    draft = tmp_path / "draft"
    draft.write_bytes(b'{"a": 1}')
    stored = await values.adopt(str(draft))
    put: list[tuple[object, ...]] = []
    known: Any = SimpleNamespace(put=lambda *given: put.append(given))
    reference = {"store": "noetl", "key": stored.key, "size": stored.size}

    await values.supply([reference], known)
    await values.close()
    assert put == [(stored.key, {"a": 1}, 8)]


async def test_a_fetched_secret_is_kept_under_the_name_of_its_handle() -> None:
    async def request(asked: object, reply: object) -> messages.SecretReply:
        assert asked == messages.SecretRequest(
            "w", messages.LeaseKey("e-1", 1), "task_1", "db"
        )
        return messages.SecretReply({"secret": "n1"}, seal_value(Plain(), "pw", "e-1"))

    kept: list[tuple[object, ...]] = []
    work: Any = SimpleNamespace(
        frame=message("e-1", "").frame,
        lease=Lease("e-1", "e", "w", 1),
        secrets=SimpleNamespace(put=lambda *given: kept.append(given)),
    )
    connection: Any = SimpleNamespace(request=request)
    secrets = RemoteSecrets(connection, Plain(), {"e-1": work})
    place: Any = SimpleNamespace(execution_id="e", step="start", task="task_1")

    assert await secrets.fetch(place, "db", None, None) == {"secret": "n1"}
    assert kept == [("n1", "pw")]
    place.step = "other"
    with pytest.raises(LeaseLost, match="nothing of e runs here"):
        await secrets.fetch(place, "db", None, None)


async def test_a_file_with_another_hash_is_not_used(tmp_path: Path) -> None:
    server = Store()
    connection = ServerConnection(server, ["http://a"], worker="w", pool="p")
    values = RemoteValues(connection, Lease("e-1", "e", "w", 1), str(tmp_path), {})
    key = sha256(b"data").hexdigest()
    server.files[key] = b"other"

    with pytest.raises(BlobCorrupt, match=key):
        async with values.file(key):
            raise AssertionError
    assert os.listdir(tmp_path) == []


async def test_work_that_comes_twice_is_taken_once() -> None:
    key = sha256(TEXT).hexdigest()
    server = Server(*[message("e-1", key)] * 2, message("e-2", key))
    worker = dispatcher(server)

    assert [(await worker.claim("w", 1))[0].lease.command_id for _ in range(2)] == [
        "e-1",
        "e-2",
    ]


class Silent(Server):
    """Takes two seconds to fail at each request."""

    now = 0.0

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        self.now += 2.0
        raise Unreachable("no answer")

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


async def test_leases_are_given_up_before_another_worker_may_take_them() -> None:
    """I-19: also where each renewal takes a while to fail."""
    server = Silent()
    connection = ServerConnection(
        server,
        ["http://a"],
        worker="w",
        pool="p",
        monotonic=lambda: server.now,
        sleep=server.sleep,
    )
    worker = RemoteDispatcher(connection, parse, Plain(), MemoryBlobs(), slots=4)
    server.now = worker.ttl / 3  # when leases are renewed
    lease = Lease("e-1", "e", "w", 1)
    claimed = messages.ClaimReply([message("e-1", "0" * 64)], 30.0)
    connection.leases.note(messages.ClaimRequest("w", "p", 1), claimed, sent=0.0)

    assert await worker.renew([lease]) == [lease]
    assert server.now < worker.ttl


class Late(Server):
    """Answers when most of the time of a lease of 12 s has passed; at its second
    request it held the claim open until then."""

    now = 0.0

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        answer = await super().request(server, path, body, seconds=seconds)
        if path != messages.PATHS[messages.ClaimRequest]:
            return answer
        self.now += 11.0
        reply = messages.codec.decode(answer, messages.ClaimReply)
        if len(self.work) == 0:
            reply = msgspec.structs.replace(reply, waited=10.9)
        return messages.codec.encode(reply)


async def test_work_that_comes_late_is_not_begun() -> None:
    """I-19: another worker may have it by now. A claim that waited is not late."""
    key = sha256(TEXT).hexdigest()
    server = Late(message("e-1", key), message("e-2", key))
    connection = ServerConnection(
        server, ["http://a"], worker="w", pool="p", monotonic=lambda: server.now
    )
    worker = RemoteDispatcher(connection, parse, Plain(), MemoryBlobs(), slots=4)
    worker.connection.leases.ttl = 12.0

    [work] = await worker.claim("w", 1)
    assert work.lease.command_id == "e-2"
    assert not worker.is_stopped(work.lease)
    server.now += 11.0  # this process was suspended
    with pytest.raises(LeaseLost, match="may be over by now"):
        worker.is_stopped(work.lease)
