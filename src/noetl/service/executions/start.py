"""Requests → executions, in the order of SRV-04; those that are refused, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256

import msgspec

from noetl.access.initiators import Initiator
from noetl.adapters.catalogs.files import pin
from noetl.adapters.catalogs.registered import RegisteredCatalog
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load
from noetl.dsl.kinds import Kinds
from noetl.dsl.merge import deep_merge
from noetl.engine.concurrency import Concurrency
from noetl.engine.decide import Request
from noetl.engine.runs import status_of
from noetl.engine.state import ExecutionStatus
from noetl.errors import RequestKnown
from noetl.ports import Blobs, CatalogEntry
from noetl.runtime.orchestrator import Orchestrator
from noetl.service.placing import concurrency_of
from noetl.service.refusal import Refusal, no_playbook
from noetl.triggers.inputs import TriggerError
from noetl.types import JSON

_MORE = ("diagnostics", "entries", "holders", "path")
"""Members of an error that its problem document has, too."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be executed: one of path, playbook_id and text, and its inputs."""

    path: str | None = None
    version: str | None = None
    playbook_id: str | None = None
    playbook: str | None = None
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    concurrency: Concurrency | None = None


class Started(msgspec.Struct, frozen=True):
    """``repeated`` says that an earlier request with the same key had begun it."""

    execution_id: str
    status: ExecutionStatus
    repeated: bool = False


class Found(msgspec.Struct, frozen=True):
    """What a request is about; ``refusal`` says why it cannot run."""

    entry: CatalogEntry
    refusal: Refusal | None = None


class Starting:
    """Accepts requests; each is on record before anything comes of it."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        blobs: Blobs,
        catalog: RegisteredCatalog,
        new_id: Callable[[], str],
        *,
        extensions: frozenset[str] = frozenset(),
        kinds: Kinds = BUILTIN,
    ) -> None:
        self._orchestrator = orchestrator
        self._blobs = blobs
        self._catalog = catalog
        self._new_id = new_id
        self._extensions = extensions
        self._kinds = kinds

    async def resolve(self, asked: Asked) -> Found:
        """The playbook that is meant (SRV-05, S-43), valid or not."""
        if asked.playbook is not None:
            return await self._inline(asked.playbook)
        if asked.playbook_id is not None:
            row = await self._catalog.shelf.get(asked.playbook_id)
            if row is None:
                return missing(asked)
            return _judged(await self._catalog.entry(row), row.path)
        path = asked.path or ""
        entry = await self._catalog.find(path, asked.version)
        if entry is None:
            return missing(asked)
        return _judged(entry, path)

    async def known(self, principal: str, key: str) -> str | None:
        """The execution that answers the request with this key, if there is one."""
        request_key = _key_of(principal, key)
        assert request_key is not None
        return await self._orchestrator.store.find_request(request_key)

    async def start(
        self,
        asked: Asked,
        found: Found,
        principal: str,
        initiator: Initiator | None,
        key: str | None = None,
        address: str | None = None,
        trigger: dict[str, JSON] | None = None,
    ) -> Started:
        """Raises ``Refusal``, with the id of the execution that records it.

        ``initiator`` is the account whose rights the execution has; ``trigger`` is
        what the log says about the one that asks.
        """
        digest = sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()
        await asyncio.sleep(0)  # it may be large: others are served before it goes on
        request_key = _key_of(principal, key)
        if request_key is not None:
            known = await self._orchestrator.store.find_request(request_key)
            if known is not None:
                return await self._again(known, digest, found)
        playbook, concurrency = found.entry.playbook, None
        workload = deep_merge(playbook.workload if playbook else {}, asked.workload)
        try:
            concurrency = concurrency_of(found.entry, asked.concurrency, workload)
        except TriggerError as error:
            found = _without_place(found, error)
        request = Request(
            self._new_id(),
            found.entry.about,
            workload,
            asked.args,
            asked.ctx,
            request_key=request_key,
            caller={
                "principal": principal,
                "address": address,
                "idempotency_key": key,
                "sha256": digest,
                **({"trigger": trigger} if trigger is not None else {}),
            },
            concurrency=concurrency,
            initiator=initiator.as_json() if initiator is not None else None,
        )
        try:
            return await self._begin(request, found)
        except RequestKnown:  # somebody else was faster with the same key
            assert request_key is not None
            known = await self._orchestrator.store.find_request(request_key)
            assert known is not None
            return await self._again(known, digest, found)

    def is_under_way(self, execution_id: str) -> bool:
        """Whether this process works on it; if not, it has ended, or others do."""
        live = self._orchestrator.live(execution_id)
        return live is not None and not live.state.finished

    async def _begin(self, request: Request, found: Found) -> Started:
        execution_id = request.execution_id
        if found.refusal is not None or found.entry.playbook is None:
            error = found.entry.error
            await self._orchestrator.reject(request, error)
            raise _refused(error, execution_id, found.refusal)
        error_ = await self._orchestrator.start(found.entry.playbook, request)
        if error_ is not None:
            raise _refused(error_, execution_id)
        live = self._orchestrator.live(execution_id)
        if live is None:  # it has ended already
            summary = await self._orchestrator.store.summary(execution_id)
            return Started(execution_id, summary.status)
        return Started(execution_id, status_of(live.state))

    async def _again(self, execution_id: str, digest: str, found: Found) -> Started:
        """The same request gets the same answer; another one with its key none.

        A playbook that the caller may not run any more is another one, too.
        """
        store = self._orchestrator.store
        [first] = await store.read(execution_id, limit=1)
        path = first.payload["playbook"].get("path")
        same = path == found.entry.about.get("path")
        if not same or first.payload["caller"]["sha256"] != digest:
            message = "the idempotency key was used for another request"
            hint = "use a new key for each request, and the same only to repeat one"
            raise Refusal(
                "request.key_reused", message, hint, execution_id=execution_id
            )
        summary = await store.summary(execution_id)
        if summary.error is not None and await self._was_refused(execution_id):
            raise _refused(summary.error, execution_id)
        return Started(execution_id, summary.status, repeated=True)

    async def _was_refused(self, execution_id: str) -> bool:
        events = await self._orchestrator.store.read(execution_id, limit=2)
        return events[-1].status == "error"

    async def _inline(self, text: str) -> Found:
        source = text.encode()
        loaded = await asyncio.to_thread(load, source, self._kinds, self._extensions)
        about = await pin(loaded, source, None, self._blobs)
        error: dict[str, JSON] = {}
        if loaded.playbook is None:
            about |= {"name": None, "path": None, "version": None}
            error = loaded.refusal("the playbook")
        return _judged(CatalogEntry(loaded.playbook, about, error), "the playbook")


def _judged(entry: CatalogEntry, name: str) -> Found:
    """Whether it can run; an invalid one has said why."""
    if entry.playbook is None:
        message = f"{name} is not a valid playbook"
        return Found(entry, Refusal("playbook.invalid", message))
    return Found(entry)


def missing(asked: Asked) -> Found:
    """What is answered for a playbook that is not there, or not theirs to run."""
    refusal = no_playbook(asked.path or "", asked.version)
    if asked.playbook_id is not None:
        message = f"there is no playbook with the id '{asked.playbook_id}'"
        refusal = Refusal("playbook.not_found", message)
    about = {"name": None, "path": asked.path, "version": asked.version, "source": None}
    error = {
        "kind": "playbook.not_found",
        "message": refusal.message,
        "step": None,
        "task": None,
    }
    return Found(CatalogEntry(None, about, error), refusal)


def _without_place(found: Found, problem: TriggerError) -> Found:
    message = f"{problem.path}: {problem.message}"
    error = {"kind": "concurrency.key", "message": message, "step": None, "task": None}
    refusal = Refusal("concurrency.key", message, problem.hint)
    return Found(CatalogEntry(None, found.entry.about, error), refusal)


def _refused(
    error: dict[str, JSON], execution_id: str, refusal: Refusal | None = None
) -> Refusal:
    """What the log says, as an answer."""
    more = {name: error[name] for name in _MORE if name in error}
    hint = refusal.hint if refusal is not None else None
    return Refusal(
        error["kind"], error["message"], hint, execution_id=execution_id, **more
    )


def _key_of(principal: str, key: str | None) -> str | None:
    """Keys of one do not meet those of another."""
    if key is None:
        return None
    return sha256(f"{principal}\0{key}".encode()).hexdigest()
