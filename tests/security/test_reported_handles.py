"""S-41, S-82: a worker passes on the handles of secrets that it was given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from memory_blobs import MemoryBlobs

from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.secrets.aes_gcm import WorkerSeal
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.memory.store import MemoryStore
from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.engine.decide import Request
from noetl.engine.reports.accept import Fact, fit_facts
from noetl.errors import BlobNotOwned
from noetl.ports import Wanted
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.leases import Caller
from noetl.runtime.worker_protocol.sealing import UploadReceipts, open_secrets
from noetl.wiring.identifiers import new_execution_id

pytestmark = pytest.mark.spec("S-41", "S-82")

SEAL = WorkerSeal("token of a worker")
WORKER = Caller("account/worker", lambda pool: True, SEAL)
FORGED = {"secret": "0123456789abcdef" * 2}
BOOK = b"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: handles, path: tests/handles}
workflow:
  - step: start
    tool: [get: {kind: secrets, path: kept/key}]
    next: {arcs: [{step: later}]}
  - step: later
    tool:
      - use: {kind: noop, result: "{{ ctx.shown }}"}
"""
Test = Callable[["World"], Awaitable[None]]


class Keeper:
    """A keeper of secrets: each is another one."""

    def __init__(self) -> None:
        self._given = 0

    async def get(self, wanted: Wanted) -> Any:
        self._given += 1
        return f"secret number {self._given}"


class World:
    """A server with one execution, and what a worker sends to it."""

    def __init__(self) -> None:
        self.blobs = MemoryBlobs()
        keys = Keyring({"secret_manager": Keeper()}, MemorySealed())
        self.orchestrator = make_orchestrator(
            MemoryStore(),
            Results(self.blobs),
            FileCatalog([], self.blobs),
            SystemClock(),
            keys,
        )
        self.gateway = WorkerGateway(
            self.orchestrator, receipts=UploadReceipts(b"secret of servers")
        )
        self.execution_id = new_execution_id()
        self.order: Any = None
        self.receipts: dict[str, str] = {}

    async def start(self) -> None:
        loaded = load(BOOK, BUILTIN)
        assert loaded.playbook is not None, loaded.diagnostics
        about = await pin(loaded, BOOK, None, self.blobs)
        await self.orchestrator.start(
            loaded.playbook, Request(self.execution_id, about, {})
        )

    async def claim(self) -> None:
        asked = messages.ClaimRequest("w", "default", 1, protocol=messages.PROTOCOL)
        [self.order] = (await self.gateway.claim(WORKER, asked)).work

    async def fetch(self) -> dict[str, Any]:
        asked = messages.SecretRequest("w", self.order.lease, "get")
        return (await self.gateway.secret(WORKER, asked)).handle

    async def upload(self, *parts: bytes) -> messages.UploadReply:
        async def sent() -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        data = b"".join(parts)
        key = sha256(data).hexdigest()
        asked = messages.UploadRequest("w", self.order.lease, key, len(data))
        kept = await self.gateway.upload(WORKER, asked, sent())
        self.receipts[key] = kept.receipt or ""
        return kept

    async def done(self, label: str, result: Any, set_ctx: dict[str, Any]) -> None:
        """Report that a task of the leased step has run, and ended the step."""
        outcome = {"status": "ok", "result": result, "error": None, "meta": {}}
        directive = {"do": "continue", "next": None}
        payload = {"outcome": outcome, "directive": directive, "set_ctx": set_ctx}
        facts: Sequence[Fact] = [
            Fact("step.started"),
            Fact("task.started", label, 1),
            Fact("task.done", label, 1, payload),
        ]
        facts, large = fit_facts(facts)
        for body in large.values():
            await self.upload(body)
        report = messages.Report(self.order.lease, 1, facts, receipts=self.receipts)
        asked = messages.ReportBatch("w", "default", [report])
        [reply] = (await self.gateway.report(WORKER, asked)).replies
        assert reply.error is None, reply.error

    async def recorded(self, step: str) -> dict[str, Any]:
        events = await self.orchestrator.store.read(self.execution_id)
        [event] = [e for e in events if (e.name, e.step) == ("task.done", step)]
        return event.payload


async def at_later_step(world: World, around: Any = None) -> list[dict[str, Any]]:
    """Two secrets are in ``ctx``; the leased step reads ``ctx.shown`` alone."""
    await world.start()
    await world.claim()
    hidden, shown = await world.fetch(), await world.fetch()
    beside = {"it": shown, "pad": around} if around else shown
    await world.done("get", hidden, {"hidden": hidden, "shown": beside})
    await world.claim()
    return [hidden, shown]


def in_world(test: Test) -> None:
    async def run() -> None:
        world = World()
        try:
            await test(world)
        finally:
            await world.orchestrator.close()

    asyncio.run(run())


def test_a_step_passes_on_what_its_tasks_have_fetched() -> None:
    async def test(world: World) -> None:
        hidden, shown = await at_later_step(world)

        payload = await world.recorded("start")

        assert payload["outcome"]["result"] == hidden
        assert payload["set_ctx"] == {"hidden": hidden, "shown": shown}

    in_world(test)


def test_a_handle_that_the_step_does_not_read_is_masked_wherever_it_is_reported() -> (
    None
):
    async def test(world: World) -> None:
        hidden, shown = await at_later_step(world)
        assert world.order.frame.ctx["hidden"] == hidden, "the worker sees it"
        assert open_secrets(SEAL, world.order).names == {shown["secret"]}

        await world.done("use", [{"a": hidden}, shown], {"x": hidden, "y": [shown]})

        payload = await world.recorded("later")
        assert payload["outcome"]["result"] == [{"a": "***"}, shown]
        assert payload["set_ctx"] == {"x": "***", "y": [shown]}

    in_world(test)


def test_a_handle_of_no_secret_is_masked_and_other_data_are_data() -> None:
    """It may be that of another execution, which gets this one's result."""

    async def test(world: World) -> None:
        await at_later_step(world)
        data = {"secret": "0123456789abcdef" * 2, "more": 1}

        await world.done("use", [FORGED, data], {})

        payload = await world.recorded("later")
        assert payload["outcome"]["result"] == ["***", data]

    in_world(test)


def test_a_step_passes_on_what_stands_in_a_large_value_that_it_reads() -> None:
    async def test(world: World) -> None:
        hidden, shown = await at_later_step(world, around="x" * 100_000)
        assert world.order.frame.ctx["shown"].get("store") == "noetl"

        await world.upload(msgspec.json.encode({"deep": [shown]}))
        await world.done("use", hidden, {"y": shown})

        payload = await world.recorded("later")
        assert payload["outcome"]["result"] == "***"
        assert payload["set_ctx"] == {"y": shown}

    in_world(test)


@pytest.mark.parametrize("spelling", ["plain", "escaped", "in parts"])
def test_a_value_that_a_worker_stores_holds_no_handle_that_it_was_not_given(
    spelling: str,
) -> None:
    async def test(world: World) -> None:
        hidden, shown = await at_later_step(world)

        def spelt(handle: dict[str, Any]) -> list[bytes]:
            body = msgspec.json.encode({"deep": [handle], "pad": "x" * 1_000})
            if spelling == "escaped":
                name = handle["secret"]
                hidden_name = "".join(f"\\u{ord(digit):04X}" for digit in name)
                body = body.replace(name.encode(), hidden_name.encode())
                assert msgspec.json.decode(body)["deep"] == [handle]
            if spelling == "in parts":
                return [body[i : i + 7] for i in range(0, len(body), 7)]
            return [body]

        with pytest.raises(BlobNotOwned, match="handle of a secret"):
            await world.upload(*spelt(hidden))
        await world.upload(*spelt(shown))
        await world.upload(*spelt(FORGED))  # it opens nothing here

    in_world(test)
