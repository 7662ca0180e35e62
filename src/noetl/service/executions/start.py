"""Starts of executions in the order of SRV-04, with a record of refused requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256

import msgspec

from noetl.access.initiator import Initiator
from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.adapters.catalogs.files import pin
from noetl.adapters.processes.code_inspection import inspect_code
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load
from noetl.dsl.playbook_inputs import (
    check_inputs,
    hide_secret_inputs,
    merge_inputs,
    warnings_of,
)
from noetl.dsl.tool_kinds import Kinds
from noetl.engine.decide import Request
from noetl.engine.events import ExecutionRequested
from noetl.engine.state import ExecutionStatus, status_of
from noetl.engine.steps.concurrency import Concurrency
from noetl.errors import RequestKnown
from noetl.ports import Blobs, CatalogEntry, Summary
from noetl.runtime.orchestrator import Orchestrator
from noetl.service.errors import RequestRefused, no_playbook
from noetl.service.executions.path_limits import PathLimits
from noetl.telemetry.trace_context import TraceParent
from noetl.triggers.inputs import TriggerError, render_place
from noetl.types import JSON

_PATH = "executor.spec.concurrency"


def concurrency_of(
    entry: CatalogEntry, asked: Concurrency | None, workload: dict[str, JSON]
) -> Concurrency | None:
    """Return the playbook's own limit, or else that of the request.

    The key counts the executions of one playbook. Raises ``TriggerError`` if both the
    playbook and the request set a limit.
    """
    spec = (entry.playbook.executor.get("spec") or {}) if entry.playbook else {}
    declared = spec.get("concurrency")
    if declared is not None and asked is not None:
        message = "the playbook sets its own limit of concurrent executions"
        raise TriggerError(_PATH, message, "remove concurrency from the request")
    of = entry.about.get("path") or f"text:{entry.about.get('name')}"
    if declared is None:
        return asked and Concurrency(asked.key, asked.limit, asked.on_limit, of)
    key = render_place(str(declared["key"]), {"workload": workload}, f"{_PATH}.key")
    limit, on_limit = declared.get("limit", 1), declared.get("on_limit", "queue")
    return Concurrency(key, limit, on_limit, of)


FAILED = frozenset({"failed", "cancelled"})
"""Statuses of executions that may be run again on purpose."""

_MORE = ("diagnostics", "entries", "holders", "path", "problems")
"""Members of an error that its problem document has, too."""


class StartInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The playbook of a request (path, playbook_id or text) and its inputs."""

    path: str | None = None
    version: str | None = None
    playbook_id: str | None = None
    playbook: str | None = None
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    concurrency: Concurrency | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Started(msgspec.Struct, frozen=True):
    """An accepted request; ``repeated`` marks the replay of an idempotency key, and
    ``superseded_by`` is the latest execution that was started with it again (S-77).

    ``warnings`` are messages about inputs that the playbook does not name (S-72).
    """

    execution_id: str
    status: ExecutionStatus
    repeated: bool = False
    warnings: tuple[str, ...] = ()
    superseded_by: str | None = None


class ResolvedPlaybook(msgspec.Struct, frozen=True):
    """The playbook of a request; ``refusal`` is the reason why it cannot run."""

    entry: CatalogEntry
    refusal: RequestRefused | None = None


class ExecutionStarter:
    """Accepts requests to start executions; records each one before it takes effect."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        blobs: Blobs,
        catalog: RegisteredCatalog,
        new_id: Callable[[], str],
        *,
        extensions: frozenset[str] = frozenset(),
        kinds: Kinds = BUILTIN,
        limits: PathLimits | None = None,
    ) -> None:
        self._limits = limits
        self._orchestrator = orchestrator
        self._blobs = blobs
        self._catalog = catalog
        self._new_id = new_id
        self._extensions = extensions
        self._kinds = kinds

    async def resolve(self, asked: StartInputs) -> ResolvedPlaybook:
        """Return the requested playbook (SRV-05, S-43), valid or not."""
        if asked.playbook is not None:
            return await self._inline(asked.playbook)
        if asked.playbook_id is not None:
            row = await self._catalog.rows.get(asked.playbook_id)
            if row is None:
                return missing(asked)
            return _judged(await self._catalog.entry(row), row.path)
        path = asked.path or ""
        entry = await self._catalog.find(path, asked.version)
        if entry is None:
            return missing(asked)
        return _judged(entry, path)

    async def known(self, principal: str, key: str) -> str | None:
        """Return the id of the execution that was started with this key, or None."""
        request_key = _key_of(principal, key)
        assert request_key is not None
        return await self._orchestrator.store.find_request(request_key)

    async def latest(self, principal: str, key: str) -> str | None:
        """Return the id of the latest execution that was started with this key."""
        known = await self.known(principal, key)
        if known is None:
            return None
        return await self._superseding(principal, key, known) or known

    async def _superseding(self, principal: str, key: str, first: str) -> str | None:
        """Return the last of the executions that repeat the first, or None."""
        latest, following = None, first
        while True:
            request_key = _key_of(principal, key, following)
            assert request_key is not None
            found = await self._orchestrator.store.find_request(request_key)
            if found is None:
                return latest
            latest = following = found

    async def summary(self, execution_id: str) -> Summary:
        return await self._orchestrator.store.summary(execution_id)

    async def answer(self, principal: str, key: str, execution_id: str) -> Started:
        """Return the answer of a key that has an execution already."""
        summary = await self._orchestrator.store.summary(execution_id)
        later = await self._superseding(principal, key, execution_id)
        status = summary.status
        return Started(execution_id, status, repeated=True, superseded_by=later)

    async def start(
        self,
        asked: StartInputs,
        found: ResolvedPlaybook,
        principal: str,
        initiator: Initiator | None,
        key: str | None = None,
        address: str | None = None,
        trigger: dict[str, JSON] | None = None,
        again: str | None = None,
        trace: TraceParent | None = None,
        admitted: bool = False,
    ) -> Started:
        """Start an execution. Raises ``RequestRefused`` with the id of its record.

        ``initiator`` is the account whose rights the execution has; ``trigger`` is the
        record of the trigger that asks. ``again`` is the execution that had this key
        and failed: it is repeated, once (S-77). ``trace`` is the span of the caller; a
        repeated request may name another one. What is ``admitted`` may exceed the
        limits of its path.
        """
        digest = _digest(asked, found)
        await asyncio.sleep(0)  # the text may be large: yield to other requests first
        request_key = _key_of(principal, key, again)
        if request_key is not None:
            known = await self._orchestrator.store.find_request(request_key)
            if known is not None:
                return await self._repeat(known, digest, found)
        if again is not None:
            await self._check_failed(again, principal, key)
        if self._limits is not None and found.refusal is None and not admitted:
            await self._limits.admit(found.entry.about.get("path"))
        playbook, concurrency = found.entry.playbook, None
        workload = (
            merge_inputs(playbook, asked.workload) if playbook else asked.workload
        )
        try:
            if playbook is None or check_inputs(playbook, workload) is None:
                shown = hide_secret_inputs(playbook, workload) if playbook else {}
                concurrency = concurrency_of(found.entry, asked.concurrency, shown)
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
                **({"again": again} if again is not None else {}),
            },
            concurrency=concurrency,
            labels=asked.labels,
            initiator=initiator.as_json() if initiator is not None else None,
            trace_id=None if trace is None else trace.trace_id,
            trace_parent=None if trace is None else trace.span_id,
        )
        try:
            return await self._begin(request, found)
        except RequestKnown:  # a concurrent request with the same key was first
            assert request_key is not None
            known = await self._orchestrator.store.find_request(request_key)
            assert known is not None
            return await self._repeat(known, digest, found)

    async def _check_failed(
        self, execution_id: str, principal: str, key: str | None
    ) -> None:
        """Raise ``RequestRefused`` unless the execution had this key, and failed."""
        if key is None:
            message = "again repeats a request with an idempotency key; this has none"
            hint = "send the key of the failed request, or use noetl retry"
            raise RequestRefused("again.impossible", message, hint)
        if (known := await self.known(principal, key)) is None:
            message = "the idempotency key has no execution yet"
            hint = "send the request without again"
            raise RequestRefused("again.impossible", message, hint)
        latest = await self._superseding(principal, key, known) or known
        if latest != execution_id:
            message = f"{execution_id} is not the latest execution of the key"
            hint = f"the latest one is {latest}"
            raise RequestRefused("again.impossible", message, hint, execution_id=latest)
        summary = await self._orchestrator.store.summary(execution_id)
        if summary.status not in FAILED:
            message = f"{execution_id} is {summary.status}: only what failed or was "
            message += "cancelled is run again"
            raise RequestRefused("again.impossible", message, execution_id=execution_id)

    def is_loaded(self, execution_id: str) -> bool:
        """Return True if this process holds the execution in memory."""
        live = self._orchestrator.cache.get(execution_id)
        return live is not None and not live.state.finished

    async def _begin(self, request: Request, found: ResolvedPlaybook) -> Started:
        execution_id = request.execution_id
        if found.refusal is not None or found.entry.playbook is None:
            error = found.entry.error
            await self._orchestrator.starter.reject(request, error)
            raise _refused(error, execution_id, found.refusal)
        error_ = await self._orchestrator.start(found.entry.playbook, request)
        if error_ is not None:
            raise _refused(error_, execution_id)
        warnings = warnings_of(found.entry.playbook, request.workload)
        live = self._orchestrator.cache.get(execution_id)
        if live is None:  # the execution has already ended
            summary = await self._orchestrator.store.summary(execution_id)
            return Started(execution_id, summary.status, warnings=warnings)
        return Started(execution_id, status_of(live.state), warnings=warnings)

    async def _repeat(
        self, execution_id: str, digest: str, found: ResolvedPlaybook
    ) -> Started:
        """Return the first answer again if the request is the same, else refuse.

        A caller who may not run the playbook any more is refused, too.
        """
        store = self._orchestrator.store
        [first] = await store.read(execution_id, limit=1)
        asked: ExecutionRequested = first.payload
        path = asked["playbook"].get("path")
        same = path == found.entry.about.get("path")
        caller = asked["caller"]
        if not same or caller["sha256"] != digest:
            message = "the idempotency key was used for another request"
            hint = "use a new key for each new request; reuse a key only for retries"
            raise RequestRefused(
                "request.key_reused", message, hint, execution_id=execution_id
            )
        principal, key = caller["principal"], caller["idempotency_key"]
        answer = await self.answer(principal, key, execution_id)
        summary = await store.summary(execution_id)
        if summary.error is not None and await self._was_refused(execution_id):
            more: dict[str, JSON] = {}
            if answer.superseded_by is not None:
                more["superseded_by"] = answer.superseded_by
            raise _refused(summary.error, execution_id, **more)
        return answer

    async def _was_refused(self, execution_id: str) -> bool:
        events = await self._orchestrator.store.read(execution_id, limit=2)
        return events[-1].status == "error"

    async def _inline(self, text: str) -> ResolvedPlaybook:
        source = text.encode()
        loaded = await asyncio.to_thread(
            load, source, self._kinds, self._extensions, inspect=inspect_code
        )
        about = await pin(loaded, source, None, self._blobs)
        error: dict[str, JSON] = {}
        if loaded.playbook is None:
            about |= {"name": None, "path": None, "version": None}
            error = loaded.refusal("the playbook")
        return _judged(CatalogEntry(loaded.playbook, about, error), "the playbook")


def _digest(asked: StartInputs, found: ResolvedPlaybook) -> str:
    """Return the digest of a request, which the log shows.

    A short secret could be found from its digest: secret inputs are not part of it.
    """
    playbook = found.entry.playbook
    if playbook is not None:
        workload = hide_secret_inputs(playbook, asked.workload)
        asked = msgspec.structs.replace(asked, workload=workload)
    return sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()


def _judged(entry: CatalogEntry, name: str) -> ResolvedPlaybook:
    """Return the playbook with a refusal if it is not valid."""
    if entry.playbook is None:
        message = f"{name} is not a valid playbook"
        return ResolvedPlaybook(entry, RequestRefused("playbook.invalid", message))
    return ResolvedPlaybook(entry)


def missing(asked: StartInputs) -> ResolvedPlaybook:
    """Return the same refusal for an absent playbook and a hidden one."""
    refusal = no_playbook(asked.path or "", asked.version)
    if asked.playbook_id is not None:
        message = f"unknown playbook id '{asked.playbook_id}'"
        refusal = RequestRefused("playbook.not_found", message)
    about = {"name": None, "path": asked.path, "version": asked.version, "source": None}
    error = {
        "kind": "playbook.not_found",
        "message": refusal.message,
        "step": None,
        "task": None,
    }
    return ResolvedPlaybook(CatalogEntry(None, about, error), refusal)


def _without_place(found: ResolvedPlaybook, problem: TriggerError) -> ResolvedPlaybook:
    message = f"{problem.path}: {problem.message}"
    error = {"kind": "concurrency.key", "message": message, "step": None, "task": None}
    refusal = RequestRefused("concurrency.key", message, problem.hint)
    return ResolvedPlaybook(CatalogEntry(None, found.entry.about, error), refusal)


def _refused(
    error: dict[str, JSON],
    execution_id: str,
    refusal: RequestRefused | None = None,
    **more: JSON,
) -> RequestRefused:
    """Convert the recorded error into an exception."""
    more |= {name: error[name] for name in _MORE if name in error}
    hint = refusal.hint if refusal is not None else None
    return RequestRefused(
        error["kind"], error["message"], hint, execution_id=execution_id, **more
    )


def _key_of(principal: str, key: str | None, again: str | None = None) -> str | None:
    """Scope the idempotency key to the principal, and to the execution that it
    repeats."""
    if key is None:
        return None
    scope = "" if again is None else f"\0{again}"
    return sha256(f"{principal}\0{key}{scope}".encode()).hexdigest()
