"""Starts of triggered executions: at most one execution per trigger and slot."""

from __future__ import annotations

from noetl.access.initiator import Initiator
from noetl.engine.steps.concurrency import Concurrency
from noetl.errors import StoreError
from noetl.ports import CatalogEntry, Trigger
from noetl.runtime.executions.initiator_rights import RUN, Rights
from noetl.service.errors import RequestRefused
from noetl.service.executions.start import (
    FAILED,
    ExecutionStarter,
    ResolvedPlaybook,
    Started,
    StartInputs,
)
from noetl.telemetry.trace_context import TraceParent
from noetl.triggers.definition import Definition
from noetl.triggers.inputs import (
    TriggerError,
    plain_labels,
    render_labels,
    render_place,
    render_workload,
)
from noetl.types import JSON


class TriggerStarter:
    """Starts executions with an idempotency key that names the trigger's slot.

    An execution has the rights of the trigger's owner, or of the account that fires the
    trigger by hand. A trigger starts nothing if its owner lost the right to run the
    playbook.
    """

    def __init__(self, starting: ExecutionStarter, rights: Rights) -> None:
        self._starting = starting
        self._rights = rights

    async def known(self, name: str, slot: str) -> str | None:
        """Return the id of the slot's first execution, or None if there is none."""
        return await self._starting.known(_principal(name), _key(name, slot))

    async def find_failed(self, name: str, slot: str) -> str | None:
        """Return the id of the slot's latest execution if it failed (S-77)."""
        latest = await self.latest(name, slot)
        if latest is None:
            return None
        try:
            summary = await self._starting.summary(latest)
        except StoreError as error:
            if error.kind != "store.missing":
                raise
            return None
        return latest if summary.status in FAILED else None

    async def latest(self, name: str, slot: str) -> str | None:
        """Return the id of the slot's latest execution: its state is the slot's."""
        return await self._starting.latest(_principal(name), _key(name, slot))

    async def answer(self, name: str, slot: str) -> Started | None:
        """Return the answer of a slot that has an execution already."""
        known = await self.known(name, slot)
        if known is None:
            return None
        return await self._starting.answer(_principal(name), _key(name, slot), known)

    async def fire(
        self,
        trigger: Trigger,
        slot: str,
        scope: dict[str, JSON] | TriggerError,
        chain: int = 0,
        initiator: Initiator | None = None,
        again: str | None = None,
        trace: TraceParent | None = None,
        admitted: bool = False,
    ) -> Started:
        """Start the slot's execution. Raises ``RequestRefused``.

        ``again`` is the slot's latest execution, which failed: the slot runs again.
        ``scope`` is the template scope, or the error that prevented it: the failure is
        then recorded as an execution, whose id the exception carries.
        """
        definition, name = trigger.definition, trigger.name
        initiator, labels = initiator or trigger.initiator, definition.labels or {}
        asked = StartInputs(
            path=definition.path,
            version=definition.version,
            labels=plain_labels(labels),
        )
        found = await self._starting.resolve(asked)
        try:
            if isinstance(scope, TriggerError):
                raise scope
            scope = {**scope, "trigger": {"name": name, "slot": slot}}
            workload = render_workload(definition.workload, scope)
            asked = StartInputs(
                path=asked.path,
                version=asked.version,
                workload=workload,
                labels=render_labels(labels, scope),
                concurrency=_concurrency(definition, scope | {"workload": workload}),
            )
        except TriggerError as error:
            found = _without_inputs(found, error)
        if not await self._rights.allow(initiator, RUN, definition.path):
            found = _forbidden(found, trigger)
        about: dict[str, JSON] = {"name": name, "slot": slot, "chain": chain}
        return await self._starting.start(
            asked,
            found,
            _principal(name),
            initiator,
            _key(name, slot),
            trigger=about,
            again=again,
            trace=trace,
            admitted=admitted,
        )

    async def ensure(
        self,
        trigger: Trigger,
        slot: str,
        scope: dict[str, JSON] | TriggerError,
        chain: int = 0,
        again: str | None = None,
        *,
        admitted: bool = False,
    ) -> str:
        """Return the id of the slot's execution; start one if there is none, or if its
        latest one is ``again``.

        A request that is refused leaves a failed execution, whose id is returned. One
        beyond the limits of its path leaves none, and raises ``StoreError``, unless it
        is ``admitted``.
        """
        known = await self.latest(trigger.name, slot)
        if known is not None and known != again:
            return known
        try:
            started = await self.fire(
                trigger, slot, scope, chain, again=again, admitted=admitted
            )
            return started.execution_id
        except RequestRefused as refusal:
            found: str | None = refusal.more.get("execution_id")
            if found is None:
                raise StoreError(refusal.message) from None
            return found


def _principal(name: str) -> str:
    return f"trigger:{name}"


def _key(name: str, slot: str) -> str:
    return f"trigger:{name}:{slot}"


def _concurrency(definition: Definition, scope: dict[str, JSON]) -> Concurrency | None:
    places = definition.concurrency
    if places is None:
        return None
    key = render_place(places.key, scope, "concurrency.key")
    return Concurrency(key, places.limit, places.on_limit)


def _without_inputs(found: ResolvedPlaybook, error: TriggerError) -> ResolvedPlaybook:
    message = f"{error.path}: {error.message}"
    refused = {"kind": "trigger.inputs", "message": message}
    return _refused(found, refused, error.hint)


def _forbidden(found: ResolvedPlaybook, trigger: Trigger) -> ResolvedPlaybook:
    who, path = trigger.initiator.principal, trigger.definition.path
    message = f"{who}, the owner of the trigger '{trigger.name}', may not run '{path}'"
    hint = "replace the trigger with an account that may run the playbook"
    return _refused(found, {"kind": "playbook.forbidden", "message": message}, hint)


def _refused(
    found: ResolvedPlaybook, error: dict[str, JSON], hint: str | None
) -> ResolvedPlaybook:
    refusal = RequestRefused(error["kind"], error["message"], hint)
    error = {**error, "step": None, "task": None}
    return ResolvedPlaybook(CatalogEntry(None, found.entry.about, error), refusal)
