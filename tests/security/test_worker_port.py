"""Every call of a worker under every kind of lease, on every store, against a model.

The calls are those of the server's worker port; HTTP stands in front of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from memory_blobs import MemoryBlobs

from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.aes_gcm import WorkerSeal
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.memory.store import MemoryStore
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.engine.decide import Request
from noetl.engine.reports.accept import Fact
from noetl.engine.values.references import is_reference
from noetl.errors import AccessError, NoetlError, ProtocolError
from noetl.ports import Wanted
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.leases import Caller
from noetl.runtime.worker_protocol.sealing import (
    UploadReceipts,
    open_secrets,
    seal_value,
    unseal_value,
)
from noetl.wiring.identifiers import new_execution_id

TTL = 30.0
START = 1_800_000_000.0
SEAL = WorkerSeal("token of a worker")
STORES = ("memory", "sqlite", "postgres")
BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: {pool}/{name}}}
keychain:
  - {{name: used, kind: secret_manager, path: kept/used}}
  - {{name: use, kind: secret_manager, path: kept/unused}}
workload: {{tenant: mine, big: ""}}
workflow:
  - step: start
    tool:
      - get: {{kind: secrets, path: kept/{name}, spec: {{pool: {pool}}}}}
      - chosen: {{kind: secrets, name: "{{{{ _prev }}}}"}}
      - tenant: {{kind: secrets, path: "kept/{{{{ workload.tenant }}}}"}}
      - free: {{kind: secrets, path: "{{{{ _prev }}}}"}}
      - call:
          kind: http
          url: http://127.0.0.1/
          headers: {{k: "{{{{ keychain.used }}}}"}}
          auth:
            type: oauth2
            token_url: https://idp.example/{name}
            client_id: "{{{{ _prev }}}}"
            client_secret: "{{{{ keychain.used }}}}"
    next: {{arcs: [{{step: later}}]}}
  - step: later
    tool: {{get: {{kind: secrets, path: kept/of-another-step}}}}
"""
BEGUN = (Fact("step.started"), Fact("task.started", "get", 1))
FAILED = Fact(
    "task.done",
    "get",
    1,
    {
        "outcome": {
            **{"status": "error", "result": None, "meta": {}},
            "error": {"kind": "x", "message": "y"},
        },
        "directive": {"do": "fail"},
        "error": {"kind": "x", "message": "y"},
    },
)

OTHER = msgspec.structs.replace(
    FAILED, payload={**FAILED.payload, "error": {"kind": "x", "message": "z"}}
)
"""What the run of ``ended`` did not end with: its owner alone may learn that."""


class Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class Kept:
    """A keeper of secrets: each is what was asked for, in words."""

    async def get(self, wanted: Wanted) -> Any:
        if wanted.kind == "oauth2":
            said = sorted(wanted.fields.items())
            return {"access_token": f"token for {said}", "token_type": "Bearer"}
        return f"the secret at {wanted.fields.get('path')}"


class Row(NamedTuple):
    """A command, as the model knows it."""

    execution_id: str
    pool: str
    epoch: int
    owner: str | None
    held: bool


class World:
    """A server, its executions, and the model of who holds what."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.clock = Clock()
        self.blobs = MemoryBlobs()
        self.sealed = MemorySealed()
        keeper = Kept()
        keys = Keyring({"secret_manager": keeper, "oauth2": keeper}, self.sealed)
        catalog = FileCatalog([], self.blobs)
        self.orchestrator = make_orchestrator(
            store, Results(self.blobs), catalog, self.clock, keys, ttl=TTL
        )
        self.gateway = WorkerGateway(
            self.orchestrator, receipts=UploadReceipts(b"secret of servers")
        )
        self.rows: dict[str, Row] = {}
        self.names: dict[str, str] = {}
        self.messages: dict[str, messages.WorkMessage] = {}

    async def start(self, name: str, pool: str, **workload: Any) -> str:
        """Begin an execution; the id of its command."""
        text = BOOK.format(name=name, pool=pool).encode()
        loaded = load(text, BUILTIN)
        assert loaded.playbook is not None, loaded.diagnostics
        about = await pin(loaded, text, None, self.blobs)
        execution_id = new_execution_id()
        merged = {**loaded.playbook.workload, **workload}
        await self.orchestrator.start(
            loaded.playbook, Request(execution_id, about, merged)
        )
        command_id = f"{execution_id}-1"
        self.rows[command_id] = Row(execution_id, pool, 0, None, held=False)
        self.names[command_id] = name
        return command_id

    async def claim(self, caller: Caller, pool: str) -> str:
        """Lease one command; the model notes it."""
        asked = messages.ClaimRequest("ignored", pool, 1, protocol=messages.PROTOCOL)
        [order] = (await self.gateway.claim(caller, asked)).work
        name, epoch = order.lease.command_id, order.lease.epoch
        row = self.rows[name]
        assert (row.pool, epoch) == (pool, row.epoch + 1)
        self.rows[name] = row._replace(epoch=epoch, owner=caller.owner, held=True)
        self.messages[name] = order
        return name

    async def expire(self) -> None:
        """Let every lease run out."""
        self.clock.time += TTL + 3.0
        await self.orchestrator.sweep()
        for name, row in self.rows.items():
            if row.held:
                self.rows[name] = row._replace(owner=None, held=False)

    def verdict(self, caller: Caller, key: messages.LeaseKey) -> str | None:
        """The model: why the caller may do nothing under this lease, if it may not."""
        row = self.rows.get(key.command_id)
        if row is None or key.epoch < 1 or key.epoch > row.epoch:
            return "lease.not_owner"
        if not caller.allows(row.pool):
            return "lease.not_owner"
        if key.epoch < row.epoch or not row.held:
            return "lease.lost"
        return None if row.owner == caller.owner else "lease.not_owner"

    async def dump(self) -> Any:
        """Everything that a call could change."""
        logs = {each.execution_id: None for each in self.rows.values()}
        for execution_id in logs:
            logs[execution_id] = [
                await self.store.read(execution_id),
                await self.store.summary(execution_id),
            ]
        found = await self.store.commands(list(self.rows))
        for name, row in self.rows.items():
            if not row.held and row.epoch == 1 and name not in found:
                continue  # it has ended
            kept = found[name]
            assert (kept.execution_id, kept.pool, kept.epoch, kept.held) == (
                *(row.execution_id, row.pool, row.epoch, row.held),
            )
        return logs, found, {k: dict(v) for k, v in self.sealed._kept.items()}


def worker(account: str, name: str, *pools: str) -> Caller:
    return Caller(f"{account}/{name}", frozenset(pools).__contains__, SEAL)


def sealed(key: messages.LeaseKey, auth: Mapping[str, Any]) -> str:
    return seal_value(SEAL, dict(auth), key.command_id)


async def parts(data: bytes) -> AsyncIterator[bytes]:
    yield data


Call = Callable[[WorkerGateway, Caller, messages.LeaseKey], Awaitable[Any]]
DATA = b'"sent by a worker"'
DIGEST = sha256(DATA).hexdigest()


async def _report(
    gateway: WorkerGateway, caller: Caller, key: messages.LeaseKey, again: bool = False
) -> messages.ReportReply:
    pool = "a" if caller.allows("a") else "b"
    facts = [*BEGUN, OTHER] if again else BEGUN
    report = messages.Report(key, 1, facts, is_retry=again, prefetch=True)
    asked = messages.ReportBatch("ignored", pool, [report])
    [reply] = (await gateway.report(caller, asked)).replies
    return reply


async def _beat(
    gateway: WorkerGateway,
    caller: Caller,
    key: messages.LeaseKey,
    leaving: bool = False,
) -> messages.HeartbeatReply:
    pool = "a" if caller.allows("a") else "b"
    return await gateway.heartbeat(
        caller, messages.Heartbeat("w", pool, 1, [key], leaving)
    )


READS: dict[str, Call] = {
    "source": lambda d, c, k: d.playbook(c, messages.PlaybookRequest("w", k)),
    "value": lambda d, c, k: d.value(c, messages.ValueRequest("w", k, {"key": DIGEST})),
    "look": lambda d, c, k: d.blob(c, messages.BlobRequest("w", k, DIGEST)),
    "keep": lambda d, c, k: d.upload(
        c, messages.UploadRequest("w", k, DIGEST, len(DATA)), parts(DATA)
    ),
    "fetch": lambda d, c, k: d.secret(c, messages.SecretRequest("w", k, "get")),
    "permit": lambda d, c, k: d.permit(c, messages.PermitRequest("w", k, [])),
    "authorize": lambda d, c, k: d.token(
        c, messages.TokenRequest("w", k, "call", sealed(k, {"client_id": "me"}))
    ),
}


async def refusal(asked: Awaitable[Any]) -> str | None:
    try:
        await asked
    except NoetlError as error:
        return str(getattr(error, "kind", type(error).__name__))
    return None


@pytest.fixture(params=STORES)
def store_of(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """To be called inside of the loop."""

    async def make() -> tuple[Any, Any]:
        if request.param == "memory":
            store: Any = MemoryStore()
        elif request.param == "sqlite":
            store = SqliteStore.open(tmp_path / "log.db", threaded=True)
        else:
            database = Postgres(request.getfixturevalue("postgres"))
            return await PostgresStore.open(database), database.close
        return store, store.close

    if request.param == "postgres":
        request.getfixturevalue("postgres")  # it needs a loop of its own
    return make


ONE, TWO = worker("a", "w1", "a"), worker("a", "w2", "a")
FAR = worker("b", "w1", "b")
CALLERS = {
    "one": ONE,
    "two": TWO,
    "far": FAR,
    "of both pools": worker("ab", "w1", "a", "b"),
    "a longer account": worker("aa", "w1", "a"),
    "an account in the name": worker("a", "w1/w1", "a"),
    "one, without its pool": worker("a", "w1", "b"),
}


async def prepare(world: World) -> dict[str, messages.LeaseKey]:
    """Leases of every kind, by what they are to ``one``."""
    await world.start("stale", "a")
    stale = await world.claim(ONE, "a")
    await world.expire()
    assert await world.claim(TWO, "a") == stale
    await world.start("ended", "a")
    ended = await world.claim(ONE, "a")
    report = messages.Report(messages.LeaseKey(ended, 1), 1, [*BEGUN, FAILED])
    asked = messages.ReportBatch("w", "a", [report])
    [reply] = (await world.gateway.report(ONE, asked)).replies
    assert (reply.stop, reply.error) == (True, None)
    world.rows[ended] = world.rows[ended]._replace(held=False)
    await world.start("own", "a")
    own = await world.claim(ONE, "a")
    await world.start("neighbour", "a")
    neighbour = await world.claim(TWO, "a")
    await world.start("foreign", "b", big="of the other team " * 5_000)
    foreign = await world.claim(FAR, "b")
    ready = await world.start("ready", "a")
    return {
        "own": messages.LeaseKey(own, 1),
        "stale": messages.LeaseKey(stale, 1),
        "retaken": messages.LeaseKey(stale, 2),
        "ended": messages.LeaseKey(ended, 1),
        "neighbour's": messages.LeaseKey(neighbour, 1),
        "foreign": messages.LeaseKey(foreign, 1),
        "of an epoch to come": messages.LeaseKey(own, 2),
        "of epoch 0": messages.LeaseKey(own, 0),
        "never given": messages.LeaseKey(ready, 1),
        "of no command": messages.LeaseKey(f"{own.rpartition('-')[0]}-99", 1),
        "of no execution": messages.LeaseKey(f"{new_execution_id()}-1", 1),
        "a path below": messages.LeaseKey(f"{own}/0", 1),
    }


async def with_world(store_of: Any, test: Callable[[World], Awaitable[None]]) -> None:
    store, close = await store_of()
    world = World(store)
    try:
        await test(world)
    finally:
        await world.orchestrator.close()
        await close()


async def refuse_all(world: World) -> None:
    keys = await prepare(world)
    world.clock.time += 10.0  # what is renewed by mistake now lasts longer
    before = await world.dump()
    for who, caller in CALLERS.items():
        for kind, key in keys.items():
            expected = world.verdict(caller, key)
            if expected is None:
                continue
            about = f"{who}, {kind}"
            for name, call in READS.items():
                assert await refusal(call(world.gateway, caller, key)) == expected, (
                    f"{about}: {name}"
                )
            reply = await _report(world.gateway, caller, key)
            assert reply.error is not None, about
            assert (reply.error[0], reply.work) == (expected, None), about
            again = await _report(world.gateway, caller, key, again=True)
            told = None if again.error is None else again.error[0]
            mine = kind == "ended" and caller is ONE
            known = "event.id_reused" if mine else None
            # A command that is not known may have ended at another server.
            is_over = expected == "lease.lost" or key.command_id not in world.rows
            assert told == (known if is_over else expected), about
            assert (again.stop, again.work, again.ctx) == (True, None, None), about
            pulse = await _beat(world.gateway, caller, key)
            assert (pulse.lost, pulse.cancelled) == ([key.command_id], []), about
            await _beat(world.gateway, caller, key, leaving=True)
            assert await world.dump() == before, about
    assert sum(row.held for row in world.rows.values()) == 4
    world.clock.time = START + 2 * TTL + 6.0
    await world.orchestrator.sweep()
    found = await world.store.commands(list(world.rows))
    assert not any(row.held for row in found.values()), "no refused beat was counted"


async def serve_own(world: World) -> None:
    keys = await prepare(world)
    for caller, kind in ((ONE, "own"), (TWO, "neighbour's"), (FAR, "foreign")):
        key = keys[kind]
        row, name = world.rows[key.command_id], world.names[key.command_id]
        assert world.verdict(caller, key) is None
        text = await world.gateway.playbook(caller, messages.PlaybookRequest("w", key))
        assert f"path: {row.pool}/{name}}}" in text.decode()
        found = await world.gateway.secret(
            caller, messages.SecretRequest("w", key, "get")
        )
        secret = unseal_value(SEAL, found.secret, key.command_id)
        assert secret == f"the secret at kept/{name}"
        kept = await READS["keep"](world.gateway, caller, key)
        receipts = UploadReceipts(b"secret of servers")
        assert kept.receipt == receipts.give(row.execution_id, kept.key)
        reply = await _report(world.gateway, caller, key)
        assert (reply.error, reply.stop) == (None, False)
        pulse = await _beat(world.gateway, caller, key)
        assert (pulse.lost, pulse.cancelled) == ([], [])


async def read_references(world: World) -> None:
    """A value belongs to one execution, whatever lease is shown for it."""
    keys = await prepare(world)
    own, foreign = keys["own"], keys["foreign"]
    big = world.messages[foreign.command_id].frame.workload["big"]
    assert is_reference(big), big

    asked = messages.ValueRequest("w", foreign, big)
    value = msgspec.json.decode(await world.gateway.value(FAR, asked))
    assert value.startswith("of the other team")
    stolen = world.gateway.value(ONE, messages.ValueRequest("w", own, big))
    assert await refusal(stolen) == "ref.not_owner"
    looked = world.gateway.blob(ONE, messages.BlobRequest("w", own, big["key"]))
    assert await refusal(looked) == "ref.not_owner"


async def fetch_named(world: World) -> None:
    """A task gets what its playbook names; what a worker says chooses among that."""
    own = (await prepare(world))["own"]

    async def fetch(task: str, name: str | None = None) -> Any:
        try:
            found = await world.gateway.secret(
                ONE, messages.SecretRequest("w", own, task, name)
            )
        except NoetlError as error:
            return getattr(error, "kind", None)
        return unseal_value(SEAL, found.secret, own.command_id)

    assert await fetch("get", "anything") == "the secret at kept/own"
    assert await fetch("tenant", "anything") == "the secret at kept/mine"
    assert await fetch("chosen", "used") == "the secret at kept/used"
    for name in ("kept/own", "other", "", None):
        assert await fetch("chosen", name) == "secret.denied"
    for task in ("free", "call", "none", "later", ""):
        assert await fetch(task, "used") == "secret.denied"


async def authorize_named(world: World) -> None:
    own = (await prepare(world))["own"]

    async def token(task: str, auth: Any) -> Any:
        asked = messages.TokenRequest("w", own, task, sealed(own, auth))
        try:
            found = await world.gateway.token(ONE, asked)
        except NoetlError as error:
            return getattr(error, "kind", None)
        return unseal_value(SEAL, found.auth, own.command_id)["token"]

    given = {"type": "oauth2", "client_id": "me", "client_secret": "mine"}
    forged = {**given, "token_url": "http://evil.example/", "path": "kept/other"}
    assert await token("call", forged) == "token for " + str(
        [
            ("client_id", "me"),
            ("client_secret", "the secret at kept/used"),
            ("token_url", "https://idp.example/own"),
        ]
    )
    assert await token("call", {"client_id": ""}) == "secret.wrong"
    assert await token("call", {}) == "secret.wrong"
    for task in ("get", "none", "later"):
        assert await token(task, forged) == "secret.denied"


async def hand_over_used(world: World) -> None:
    """An order has the keychain entries that its step reads, by whole names."""
    own = (await prepare(world))["own"]

    secrets = open_secrets(SEAL, world.messages[own.command_id])

    assert secrets.keychain == {"used": "the secret at kept/used"}


async def tell_nothing_elsewhere(world: World) -> None:
    """A server that does not know a lease tells nobody what the command recorded, and
    reads no log for an answer: its rows are gone when a command ends."""
    keys = await prepare(world)
    results, catalog = Results(world.blobs), FileCatalog([], world.blobs)
    elsewhere = make_orchestrator(
        world.store, results, catalog, world.clock, Keyring({}, world.sealed), ttl=TTL
    )
    gateway = WorkerGateway(elsewhere, receipts=UploadReceipts(b"secret of servers"))
    world.store.read = world.store.length = forbidden
    told = set()
    for caller in CALLERS.values():
        pool = "a" if caller.allows("a") else "b"
        for kind in ("ended", "of no command", "of no execution"):
            for facts in ([*BEGUN, FAILED], [*BEGUN, OTHER], [*BEGUN], []):
                report = messages.Report(keys[kind], 1, facts, is_retry=True)
                asked = messages.ReportBatch("w", pool, [report])
                told.add(str((await gateway.report(caller, asked)).replies))
    await elsewhere.close()
    assert told == {str([messages.ReportReply(stop=True, duplicate=True)])}


async def forbidden(*_: Any, **__: Any) -> Any:
    raise AssertionError("a log was read")


@pytest.mark.parametrize(
    "test",
    [
        refuse_all,
        tell_nothing_elsewhere,
        serve_own,
        read_references,
        fetch_named,
        authorize_named,
        hand_over_used,
    ],
    ids=lambda test: test.__name__,
)
def test_a_worker_gets_what_its_lease_names(
    store_of: Any, test: Callable[[World], Awaitable[None]]
) -> None:
    """I-16, I-36, I-37; rows 69, 70, 79 and 93; B3 and 4.7."""
    asyncio.run(with_world(store_of, test))


def test_work_is_given_to_workers_of_its_pool_and_of_this_version() -> None:
    async def test(world: World) -> None:
        await world.start("own", "a")
        asked = messages.ClaimRequest("w", "b", 1, protocol=messages.PROTOCOL)
        with pytest.raises(AccessError, match="may not work for the pool 'b'"):
            await world.gateway.claim(ONE, asked)
        older = msgspec.json.decode(b'{"worker":"w","pool":"a","slots":1}')
        with pytest.raises(ProtocolError, match=r"version 1 .* upgrade the worker"):
            await world.gateway.claim(
                ONE, msgspec.convert(older, messages.ClaimRequest)
            )
        await world.claim(ONE, "a")
        lost = msgspec.structs.replace(asked, is_retry=True)
        both = worker("a", "w1", "a", "b")
        found = await world.gateway.claim(both, lost)
        assert found.work == [], "what it has of another pool is not handed over"

    async def memory() -> Any:
        store = MemoryStore()
        return store, store.close

    asyncio.run(with_world(memory, test))


def test_a_report_under_a_lease_that_the_server_gave_costs_no_query_of_its_own() -> (
    None
):
    async def test(world: World) -> None:
        asked: list[Any] = []
        look_up = world.store.commands

        async def counted(names: Any) -> Any:
            asked.append(names)
            return await look_up(names)

        await world.start("own", "a")
        name = await world.claim(ONE, "a")
        world.store.commands = counted
        reply = await _report(world.gateway, ONE, messages.LeaseKey(name, 1))
        assert (reply.error, asked) == (None, [])
        reply = await _report(world.gateway, TWO, messages.LeaseKey(name, 1))
        assert (reply.error or ("",))[0] == "lease.not_owner"
        assert asked == [[name]], "for others it is asked before anything is decided"

    async def memory() -> Any:
        store = MemoryStore()
        return store, store.close

    asyncio.run(with_world(memory, test))
