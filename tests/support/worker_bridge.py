"""A worker and its server in one process: requests reach the gateway without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import IO, Any

import msgspec

from noetl import load
from noetl.dsl.model import Playbook
from noetl.errors import Refused, SecretError, StoreError
from noetl.ports import Blobs
from noetl.runtime.worker.remote_dispatcher import RemoteDispatcher
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.leases import Caller

SHAPES = {path: shape for shape, path in messages.PATHS.items()}


class Plain:
    """A cipher of a worker that reads along."""

    def seal(self, text: bytes, purpose: str) -> bytes:
        return text

    def open(self, sealed: bytes, purpose: str) -> bytes:
        return sealed


def caller_of(worker: str, *pools: str) -> Caller:
    return Caller(worker, lambda pool: pool in (pools or ("default",)), Plain())


class Bridge:
    """The HTTP client of a worker. ``errors`` are raised before requests, one by one,
    and ``lost`` after the server has answered; ``changes`` alter what arrives."""

    def __init__(self, gateway: WorkerGateway, worker: str) -> None:
        self.server_ids: dict[str, str] = {}
        self.errors: list[Exception] = []
        self.lost: list[Exception] = []
        self.changes: dict[type[Any], Any] = {}
        self.asked: list[messages.Message] = []
        self._gateway = gateway
        self._caller = caller_of(worker)

    async def request(
        self, server: str, path: str, body: bytes, *, seconds: float
    ) -> bytes:
        asked = msgspec.json.decode(body, type=SHAPES[path])
        return await self._answer(asked)

    async def upload(
        self,
        server: str,
        path: str,
        query: Mapping[str, str],
        source: IO[bytes],
        size: int,
    ) -> bytes:
        lease = messages.LeaseKey(query["command_id"], int(query["epoch"]))
        asked = messages.UploadRequest(query["worker"], lease, query["key"], size)
        return await self._answer(asked, source)

    async def download(
        self, server: str, path: str, body: bytes, target: IO[bytes]
    ) -> None:
        target.write(await self.request(server, path, body, seconds=1.0))

    async def _answer(self, asked: Any, source: IO[bytes] | None = None) -> bytes:
        self.asked.append(asked)
        if self.errors:
            raise self.errors.pop(0)
        try:
            found = await self._ask(asked, source)
        except StoreError as error:
            raise Refused(error.kind, str(error)) from None
        except SecretError as error:
            raise Refused(error.kind, error.message) from None
        if self.lost:
            raise self.lost.pop(0)
        change = self.changes.get(type(asked), lambda answer: answer)
        answer = change(found)
        return answer if isinstance(answer, bytes) else messages.codec.encode(answer)

    async def _ask(self, asked: Any, source: IO[bytes] | None) -> Any:
        gateway, caller = self._gateway, self._caller
        match asked:
            case messages.ClaimRequest():
                return await gateway.claim(caller, asked)
            case messages.ReportBatch():
                return await gateway.report(caller, asked)
            case messages.Heartbeat():
                return await gateway.heartbeat(caller, asked)
            case messages.LogBatch():
                return await gateway.log(caller, asked)
            case messages.PlaybookRequest():
                return await gateway.playbook(caller, asked)
            case messages.ValueRequest():
                return await gateway.value(caller, asked)
            case messages.BlobRequest():
                blobs = await gateway.blob(caller, asked)
                return b"" if asked.only_check else await blobs.get(asked.key)
            case messages.UploadRequest():
                assert source is not None
                return await gateway.upload(caller, asked, _parts(source.read()))
            case messages.SecretRequest():
                return await gateway.secret(caller, asked)
            case messages.TokenRequest():
                return await gateway.token(caller, asked)
            case messages.PermitRequest():
                return await gateway.permit(caller, asked)
        raise AssertionError(asked)


async def _parts(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 1000):
        yield data[at : at + 1000]


def parse(text: bytes, extensions: Sequence[str]) -> Playbook:
    playbook = load(text).playbook
    assert playbook is not None
    return playbook


def remote_dispatcher(
    bridge: Bridge, worker: str, results: Blobs | str, slots: int = 4, **options: Any
) -> RemoteDispatcher:
    """The dispatcher of a worker; ``options`` are those of its connection."""
    connection = ServerConnection(
        bridge, ["http://a"], worker=worker, pool="default", **options
    )
    return RemoteDispatcher(connection, parse, Plain(), results, slots=slots)
