"""Workers on other machines: values, secrets and requests through the gateway."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from memory_blobs import MemoryBlobs
from memory_task_logs import MemoryTaskLogs
from worker_bridge import Bridge, caller_of, remote_dispatcher

from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.engine.secrets.handles import handle
from noetl.engine.values.references import Values, is_handle, make_reference
from noetl.errors import (
    BlobCorrupt,
    BlobGone,
    BlobNotOwned,
    Defective,
    LeaseLost,
    LeaseNotOwned,
    Refused,
    SecretError,
    SetAside,
    StoreError,
    TemplateError,
    Unreachable,
)
from noetl.ports import CallLimit, Lease, LogChunk, LogSource, TaskPlace
from noetl.ports.task_logs import LogText
from noetl.runtime.worker import remote_dispatcher as remote_dispatcher_module
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.gateway import WorkerGateway
from noetl.runtime.worker_protocol.sealing import (
    UploadReceipts,
    check_upload,
    foreign_names,
)

Make = Callable[..., Any]

HELLO = "- {step: start, tool: {kind: noop}}"
FETCH = """
- step: start
  tool:
    - ask: {kind: secrets, provider: vault, path: a}
    - use: {kind: http, url: "http://x", auth: "{{ keychain.login }}"}
"""
KEYCHAIN = "keychain: [{name: login, kind: made}]\n"
OAUTH = {"type": "oauth2", "client_id": "c", "token_url": "http://x"}


class Provider:
    """A provider of secrets with one answer for each kind."""

    def __init__(self, value: Any) -> None:
        self.value = value

    async def get(self, wanted: Any) -> Any:
        return self.value


class Host:
    """One server, its gateway, and the dispatcher of one remote worker."""

    def __init__(self, make_cluster: Make, drafts: Path, **options: Any) -> None:
        providers = {
            "made": Provider(OAUTH),
            "vault": Provider("s3cret-of-the-vault"),
            "oauth2": Provider({"access_token": "tok-3f9a7c21"}),
        }
        self.cluster = make_cluster()
        self.cluster.server.task_secrets._keys._providers = providers
        self.logs = MemoryTaskLogs()
        self.receipts = options.pop("receipts", UploadReceipts(b"secret"))
        self.gateway = WorkerGateway(
            self.cluster.server, receipts=self.receipts, task_logs=self.logs
        )
        self.bridge = Bridge(self.gateway, "w")
        self.time = 0.0
        results = options.pop("results", str(drafts))
        self.worker = remote_dispatcher(
            self.bridge,
            "w",
            results,
            monotonic=lambda: self.time,
            sleep=self._sleep,
            **options,
        )

    async def _sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)

    async def begin(self, flow: str = HELLO, root: str = "", **options: Any) -> Any:
        """Start an execution; the work that the worker claims."""
        await self.cluster.start(flow, root, **options)
        [work] = await self.worker.claim("w", 1)
        return work


@pytest.fixture
def host(make_cluster: Make, tmp_path: Path) -> Callable[..., Host]:
    def make(**options: Any) -> Host:
        return Host(make_cluster, tmp_path, **options)

    return make


def bytes_of(path: str) -> bytes:
    return Path(path).read_bytes()


# -- values -----------------------------------------------------------------------


@pytest.mark.spec("S-48")
async def test_a_value_is_sent_kept_and_read_again(host: Any, tmp_path: Path) -> None:
    here = host()
    work = await here.begin()
    values = await here.worker.values_for(work)
    body = msgspec.json.encode(["x" * 5_000])
    key = sha256(body).hexdigest()

    await values.put(body)
    for _ in range(2):  # the same value again replaces the copy
        file = tmp_path / "draft"
        file.write_bytes(body)
        blob = await values.adopt(str(file))
    loaded, reference = Values(), make_reference(key, len(body), "list")
    await values.supply([reference], loaded)

    assert (blob.key, blob.size) == (key, len(body))
    assert loaded.fetch(reference) == ["x" * 5_000]
    async with values.file(key) as path:
        assert bytes_of(path) == body
    await values.close()
    await values.close()
    assert await here.cluster.blobs.get(key) == body
    assert here.worker._receipts == {"e-1": {key: here.receipts.give("e", key)}}


@pytest.mark.spec("S-48")
async def test_a_value_of_the_execution_is_read_and_others_are_not(host: Any) -> None:
    here = host()
    work = await here.begin(HELLO, workload={"a": "x" * 70_000})
    reference = work.frame.workload["a"]
    values, loaded = await here.worker.values_for(work), Values()
    other = make_reference(await here.cluster.blobs.put(b'"of another"'), 12, "text")

    await values.supply([reference, other, {**reference, "key": "x"}], loaded)

    assert loaded.fetch(reference) == "x" * 70_000
    with pytest.raises(TemplateError, match="is not a result of e"):
        loaded.fetch(other)
    async with values.file(reference["key"]) as path:
        assert len(bytes_of(path)) == 70_002
    with pytest.raises(FileNotFoundError):
        bytes_of(path)
    with pytest.raises(BlobNotOwned):
        async with values.file(other["key"]):
            pass


@pytest.mark.spec("S-48")
async def test_a_value_that_changes_on_its_way_is_refused(host: Any) -> None:
    here = host()
    work = await here.begin(HELLO, workload={"a": "x" * 70_000})
    values = await here.worker.values_for(work)
    here.bridge.changes[messages.BlobRequest] = lambda body: body[:-1]

    with pytest.raises(BlobCorrupt, match="has another hash"):
        async with values.file(work.frame.workload["a"]["key"]):
            pass
    asked = messages.UploadRequest("w", key_of(work), "0" * 64, 3)
    for data in (b"123", b"1234"):
        with pytest.raises(BlobCorrupt):
            await here.gateway.upload(caller_of("w"), asked, parts(data))


async def parts(data: bytes) -> Any:
    yield data


def key_of(work: Any) -> messages.LeaseKey:
    return messages.LeaseKey(work.lease.command_id, work.lease.epoch)


@pytest.mark.spec("S-48")
async def test_a_refused_value_is_an_error_of_its_kind(host: Any) -> None:
    here = host()
    values = await here.worker.values_for(await here.begin())
    here.bridge.errors = [Refused("ref.not_owner", "no"), Refused("store.full", "no")]

    with pytest.raises(BlobNotOwned):
        await values.put(b"1")
    with pytest.raises(StoreError) as error:
        await values.put(b"1")
    assert error.value.kind == "store.full"


@pytest.mark.spec("S-48")
async def test_a_worker_that_reaches_the_store_asks_only_for_permission(
    host: Any, tmp_path: Path
) -> None:
    blobs = MemoryBlobs(str(tmp_path))
    here = host(results=blobs)
    work = await here.begin(HELLO, workload={"a": "x" * 70_000})
    values, reference = await here.worker.values_for(work), work.frame.workload["a"]
    file = tmp_path / "draft"
    file.write_bytes(b'"mine"')

    blob, loaded = await values.adopt(str(file)), Values()
    await values.put(b'"too"')
    mine = make_reference(blob.key, 6, "text")
    await values.supply([mine, reference], loaded)

    assert loaded.fetch(mine) == "mine"
    assert loaded.fetch(reference) == "x" * 70_000
    async with values.file(blob.key) as path:
        assert bytes_of(path) == b'"mine"'
    async with values.file(reference["key"]) as path:  # the server's, not in this store
        assert len(bytes_of(path)) == 70_002
    with pytest.raises(BlobNotOwned):
        async with values.file(await blobs.put(b'"of another"')):
            pass


@pytest.mark.spec("S-41", "S-48")
async def test_a_value_with_a_handle_that_was_not_given_is_not_stored(
    host: Any,
) -> None:
    here = host()
    name = "1" * 32
    work = await here.begin(HELLO, workload={"other": handle(name)})
    values = await here.worker.values_for(work)

    with pytest.raises(BlobNotOwned, match="was not given"):
        await values.put(msgspec.json.encode([handle(name)]))
    escaped = b'[{"secret": "' + b"\\u0031" * 32 + b'"}]'
    with pytest.raises(BlobNotOwned):
        await values.put(escaped)
    await values.put(b'["harmless"]')


@pytest.mark.spec("S-41", "S-48")
async def test_a_value_with_a_handle_that_the_task_reads_is_stored(host: Any) -> None:
    here = host()
    name = "1" * 32
    flow = "- {step: start, tool: {kind: noop, v: '{{ workload }}'}}"
    workload = {"mine": handle(name), "large": "x" * 70_000}
    work = await here.begin(flow, workload=workload)
    values = await here.worker.values_for(work)

    await values.put(msgspec.json.encode([handle(name)]))
    with pytest.raises(BlobGone):
        await here.cluster.blobs.get("0" * 64)


# -- secrets ----------------------------------------------------------------------


@pytest.mark.spec("S-41")
async def test_a_task_gets_its_secret_and_its_token(host: Any) -> None:
    here = host()
    work = await here.begin(FETCH, KEYCHAIN)
    tokens = here.worker.tokens

    found = await tokens.fetch(TaskPlace("e", "start", "ask"), None, None, None)
    token = await tokens.authorize(
        TaskPlace("e", "start", "use"), dict(OAUTH), fresh=True
    )

    assert is_handle(found)
    assert work.secrets.open(found) == "s3cret-of-the-vault"
    assert token == {"type": "bearer", "token": "tok-3f9a7c21"}
    assert work.secrets.redact("tok-3f9a7c21 s3cret-of-the-vault") == "*** ***"


@pytest.mark.spec("S-41")
async def test_a_task_gets_no_secret_of_another_step(host: Any) -> None:
    here = host()
    work = await here.begin(FETCH, KEYCHAIN)
    tokens = here.worker.tokens

    with pytest.raises(SecretError, match="has no task 'other'"):
        await tokens.fetch(TaskPlace("e", "start", "other"), None, None, None)
    with pytest.raises(LeaseLost, match="nothing of e runs here"):
        await tokens.fetch(TaskPlace("e", "end", "ask"), None, None, None)
    for sealed, words in (("%", "it is not sealed"), ("WzFd", "not a credential")):
        asked = messages.TokenRequest("w", key_of(work), "use", sealed)
        with pytest.raises(SecretError, match=words):
            await here.gateway.token(caller_of("w"), asked)


@pytest.mark.spec("S-41")
async def test_work_carries_the_secrets_that_its_task_reads(host: Any) -> None:
    here = host()
    work = await here.begin(FETCH, KEYCHAIN)

    assert work.secrets.keychain == {"login": OAUTH}
    assert work.secrets.sealed == {}


@pytest.mark.spec("S-41")
async def test_work_without_secrets_in_reach_carries_none(host: Any) -> None:
    here = host()
    work = await here.begin(HELLO, KEYCHAIN)

    assert not work.secrets.keychain


# -- what has ended ---------------------------------------------------------------


@pytest.mark.spec("S-38")
@pytest.mark.parametrize(
    ("known", "error", "words"),
    [
        (0, LeaseLost, "e has ended"),
        (1, LeaseLost, "the command e-1 has ended"),
        (2, SecretError, "e has ended"),
    ],
)
async def test_an_execution_that_ends_during_a_request_gets_no_secret(
    host: Any,
    monkeypatch: pytest.MonkeyPatch,
    known: int,
    error: type[Exception],
    words: str,
) -> None:
    here = host()
    work = await here.begin(FETCH, KEYCHAIN)
    cache, live = here.cluster.server.cache, here.cluster.server.cache.get("e")
    answers = [live] * known
    monkeypatch.setattr(cache, "get", lambda name: answers.pop() if answers else None)

    asked = messages.SecretRequest("w", key_of(work), "ask", None)
    with pytest.raises(error, match=words):
        await here.gateway.secret(caller_of("w"), asked)


@pytest.mark.spec("S-41")
async def test_a_step_that_this_server_does_not_know_yet_is_read(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host()
    work = await here.begin(FETCH, KEYCHAIN)
    cache, live = here.cluster.server.cache, here.cluster.server.cache.get("e")
    answers = [live, None, *[live] * 9]
    monkeypatch.setattr(cache, "get", lambda name: answers.pop(0))

    asked = messages.SecretRequest("w", key_of(work), "ask", None)
    assert (await here.gateway.secret(caller_of("w"), asked)).handle


async def test_an_execution_that_was_set_aside_gives_its_leases_up(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host()
    work = await here.begin()

    async def refuse(execution_id: str) -> Any:
        raise SetAside("e is set aside")

    monkeypatch.setattr(here.cluster.server, "load", refuse)
    asked = messages.PlaybookRequest("w", key_of(work))

    with pytest.raises(LeaseLost, match="e is set aside"):
        await here.gateway.playbook(caller_of("w"), asked)
    text = messages.LogEntry(key_of(work), "task_1", 1, 1, 1, [])
    batch = messages.LogBatch("w", "default", [text])
    assert (await here.gateway.log(caller_of("w"), batch)).refused == ["e-1"]


@pytest.mark.spec("S-41")
async def test_a_value_that_is_not_a_reference_is_not_read(host: Any) -> None:
    here = host()
    work = await here.begin()
    asked = messages.ValueRequest("w", key_of(work), {"store": "noetl"})

    with pytest.raises(BlobNotOwned, match="not a reference"):
        await here.gateway.value(caller_of("w"), asked)
    with pytest.raises(LeaseNotOwned):
        await here.gateway.value(caller_of("v"), asked)


# -- requests ---------------------------------------------------------------------


async def test_a_call_is_permitted_by_the_server(host: Any) -> None:
    here = host()
    work = await here.begin()
    limit = CallLimit("k", 1, 10.0, 1)

    assert await here.worker.permit(work.lease, [limit]) == 0.0
    assert await here.worker.permit(work.lease, [limit]) > 0.0


async def test_logs_go_to_the_server_of_their_execution(host: Any) -> None:
    here = host()
    work = await here.begin()
    name = work.lease.command_id
    source = LogSource("e", "start", name, "task_1", f"{name}:task_1.1", 1, 1)
    text = LogText(1.0, "stdout", None, "hello")

    await here.worker.append_logs([LogChunk(source, 1, [text])])

    [stored], _ = await here.logs.read("e")
    assert stored.chunk.texts == [text]


async def test_a_lease_that_is_given_back_goes_to_another(host: Any) -> None:
    here = host()
    work = await here.begin()

    assert await here.worker.renew([work.lease]) == []
    await here.worker.release([work.lease])
    assert await here.worker.renew([work.lease]) == [work.lease]
    here.bridge.errors = [Unreachable("down")]
    await here.worker.release([work.lease])


async def test_leases_are_lost_when_no_server_answers_in_time(
    host: Any, caplog: pytest.LogCaptureFixture
) -> None:
    here = host()
    work = await here.begin()
    here.bridge.errors = [Unreachable("down")] * 100

    assert await here.worker.renew([work.lease]) == [work.lease]
    assert here.time > here.worker.ttl * 5 / 6
    assert caplog.messages == ["leases could not be renewed: down"]


@pytest.mark.spec("S-38")
async def test_a_heartbeat_tells_what_was_cancelled(host: Any) -> None:
    here, revoked = host(), list[str]()
    work = await here.begin()
    here.worker.register(SimpleNamespace(revoke=revoked.extend))
    begun = [Fact("step.started"), Fact("task.started", "task_1", 1)]
    await here.worker.report(work.lease, begun)
    await here.cluster.server.cancel("e")

    assert await here.worker.renew([work.lease]) == []

    assert here.worker.is_stopped(work.lease)
    assert revoked == ["e-1"]


@pytest.mark.spec("S-38")
async def test_a_heartbeat_is_answered_although_the_log_cannot_be_read(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host()
    work = await here.begin()

    async def refuse(execution_id: str) -> Any:
        raise StoreError("down")

    monkeypatch.setattr(here.cluster.server, "refresh", refuse)
    assert await here.worker.renew([work.lease]) == []
    here.cluster.server.cache.drop("e")
    assert await here.worker.renew([work.lease]) == []


async def test_a_claim_whose_answer_is_lost_is_repeated(host: Any) -> None:
    here = host()
    await here.cluster.start(HELLO)
    here.bridge.lost = [Unreachable("down")]

    [work] = await here.worker.claim("w", 1)

    assert work.lease.epoch == 1
    assert [each.is_retry for each in here.bridge.asked if is_claim(each)] == [
        *(False, True),
    ]


def is_claim(message: Any) -> bool:
    return isinstance(message, messages.ClaimRequest)


async def test_a_busy_worker_claims_what_only_waits(host: Any) -> None:
    here = host()
    await here.cluster.start("- {step: start, tool: {kind: wait, for: 1h}}")
    here.bridge.errors = [Unreachable("down")]

    assert await here.worker.claim("w", 1, waits=True) == []
    [work] = await here.worker.claim("w", 1, waits=True)
    assert work.frame.step == "start"


async def test_a_claim_that_is_cancelled_ends(host: Any) -> None:
    here = host()
    task = asyncio.ensure_future(here.worker.claim("w", 1))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_whose_lease_is_lost_by_then_is_left(host: Any) -> None:
    here = host()
    await here.cluster.start(HELLO)
    await here.cluster.start(HELLO, execution_id="f")
    here.bridge.errors = []
    ask, first = here.bridge._ask, [LeaseLost("gone")]

    async def once(asked: Any, source: Any) -> Any:
        if isinstance(asked, messages.PlaybookRequest) and first:
            raise first.pop()
        return await ask(asked, source)

    here.bridge._ask = once

    works = await here.worker.claim("w", 2)

    assert len(works) == 1


async def test_a_defective_server_is_given_up(host: Any) -> None:
    here = host()
    values = await here.worker.values_for(await here.begin())
    here.bridge.errors = [Defective("500")] * 3

    with pytest.raises(StoreError) as error:
        await values.put(b"1")
    assert error.value.kind == "internal"


async def test_a_value_is_sent_without_a_receipt_to_a_server_that_asks_for_none(
    host: Any,
) -> None:
    here = host(receipts=None)
    values = await here.worker.values_for(await here.begin())

    await values.put(b"[1]")

    assert here.worker._receipts == {"e-1": {}}
    assert here.worker.time_slice > 0
    assert not here.worker.is_alone


@pytest.mark.spec("S-41")
async def test_handles_are_judged_although_the_command_has_ended(host: Any) -> None:
    here = host()
    name = "1" * 32
    work = await here.begin(HELLO, workload={"other": handle(name)})
    live, owners = here.cluster.server.cache.get("e"), here.cluster.server.owners
    ended = Lease("e-9", "e", "w", 1)

    assert foreign_names(live, ended) == {name}
    await check_upload(owners, live, ended, set())
    with pytest.raises(BlobNotOwned):
        await check_upload(owners, live, ended, {name})
    assert work.lease.command_id == "e-1"


@pytest.mark.spec("S-41", "S-48")
async def test_a_value_that_is_gone_gives_no_handle(host: Any) -> None:
    here = host()
    name = "1" * 32
    flow = "- {step: start, tool: {kind: noop, v: '{{ workload.large }}'}}"
    workload = {"large": ["x" * 70_000], "other": handle(name)}
    work = await here.begin(flow, workload=workload)
    reference = work.frame.workload["large"]
    del here.cluster.blobs._blobs[reference["key"]]
    values = await here.worker.values_for(work)

    with pytest.raises(BlobNotOwned, match="was not given"):
        await values.put(msgspec.json.encode(handle(name)))


BEGUN = [Fact("step.started"), Fact("task.started", "task_1", 1)]


async def test_a_report_that_is_refused_ends_its_pipeline(host: Any) -> None:
    here = host()
    work = await here.begin()
    wrong = [Fact("task.done", "other", 1, {})]

    with pytest.raises(OutOfOrder):
        await here.worker.report(work.lease, wrong)
    with pytest.raises(LeaseLost, match="was left"):
        await here.worker.report(work.lease, BEGUN)


async def test_a_lost_lease_is_an_error_of_the_report(host: Any) -> None:
    here = host()
    work = await here.begin()
    here.cluster.clock.time += here.cluster.server.placement.ttl + 3.0
    await here.cluster.server.sweep()
    other = messages.ClaimRequest("v", "default", 1, 0.0, protocol=messages.PROTOCOL)
    assert (await here.gateway.claim(caller_of("v"), other)).work

    with pytest.raises(LeaseLost):
        await here.worker.report(work.lease, BEGUN)


async def test_a_report_shows_the_receipts_of_what_it_names(host: Any) -> None:
    here = host()
    work = await here.begin()
    values = await here.worker.values_for(work)
    body = b'["x"]'
    await values.put(body)
    key = sha256(body).hexdigest()
    reference = make_reference(key, len(body), "list")
    outcome = {"status": "ok", "result": reference, "meta": {}, "error": None}
    done = {"outcome": outcome, "directive": {"do": "continue"}}
    done["spilled"] = ["outcome.result"]

    answer = await here.worker.report(
        work.lease, [*BEGUN, Fact("task.done", "task_1", 1, done)]
    )

    assert answer.stop
    sent = here.bridge.asked[-1].reports[0]
    assert list(sent.receipts) == [key]


async def test_work_of_an_answer_that_was_lost_is_asked_for(host: Any) -> None:
    here = host()
    flow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: end, tool: {kind: noop}}
    """
    work = await here.begin(flow)
    open_claim = asyncio.ensure_future(here.worker.claim("w", 1))
    await asyncio.sleep(0)
    outcome = {"status": "ok", "result": 1, "meta": {}, "error": None}
    done = {"outcome": outcome, "directive": {"do": "continue"}}
    facts = [*BEGUN, Fact("task.done", "task_1", 1, done)]
    here.bridge.lost = [Unreachable("down")]

    answer = await here.worker.report(work.lease, facts, wants="w")

    assert (answer.stop, answer.work) == (True, None)
    [next_work] = await open_claim
    assert next_work.frame.step == "end"


async def test_work_that_comes_with_an_answer_is_taken(host: Any) -> None:
    here = host()
    flow = """
    - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
    - {step: end, tool: {kind: noop}}
    """
    work = await here.begin(flow)
    outcome = {"status": "ok", "result": 1, "meta": {}, "error": None}
    done = {"outcome": outcome, "directive": {"do": "continue"}}
    facts = [*BEGUN, Fact("task.done", "task_1", 1, done)]

    answer = await here.worker.report(work.lease, facts, wants="w")

    assert answer.work is not None
    assert answer.work.frame.step == "end"


async def test_what_was_seen_longest_ago_is_forgotten(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_dispatcher_module, "MAX_SEEN", 1)
    monkeypatch.setattr(remote_dispatcher_module, "MAX_PLAYBOOKS", 1)
    here = host()
    for name in "ab":
        flow = HELLO.replace("start", name)
        await here.cluster.start(flow, execution_id=name)
        [work] = await here.worker.claim("w", 1)
        assert work.frame.step == name

    assert list(here.worker._seen) == [("b-1", 1)]
    assert len(here.worker._playbooks) == 1


async def test_a_copy_that_was_removed_is_not_removed_again(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = host()
    work = await here.begin()
    [drafts] = {here.worker._results}
    values = await here.worker.values_for(work)
    await asyncio.to_thread(Path(drafts, "draft").write_bytes, b"[1]")
    blob = await values.adopt(str(Path(drafts, "draft")))
    async with values.file(blob.key) as path:
        await asyncio.to_thread(os.unlink, path)

    await values.close()

    assert values._copies == {}


async def test_without_an_open_claim_the_next_one_asks_for_lost_work(host: Any) -> None:
    here = host()
    work = await here.begin()
    here.bridge.lost = [Unreachable("down")]
    outcome = {"status": "ok", "result": 1, "meta": {}, "error": None}
    done = {"outcome": outcome, "directive": {"do": "continue"}}
    here.worker._claiming = None

    facts = [*BEGUN, Fact("task.done", "task_1", 1, done)]
    await here.worker.report(work.lease, facts, wants="w")

    assert here.worker._claim_was_lost
