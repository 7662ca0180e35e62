"""A slot of a trigger → one execution, however often it is asked for."""

from __future__ import annotations

from noetl.access.initiators import Initiator
from noetl.engine.concurrency import Concurrency
from noetl.errors import StoreError
from noetl.ports import CatalogEntry, Trigger
from noetl.runtime.rights import RUN, Rights
from noetl.service.refusal import Refusal
from noetl.service.starting import Asked, Found, Started, Starting
from noetl.triggers.definition import Definition
from noetl.triggers.inputs import TriggerError, render_place, render_workload
from noetl.types import JSON


class Firing:
    """Asks for executions with a key that names the slot.

    They have the rights of the trigger's owner, or of an account that fires it by
    hand. An owner who may not run the playbook any more starts nothing by the trigger.
    """

    def __init__(self, starting: Starting, rights: Rights) -> None:
        self._starting = starting
        self._rights = rights

    async def known(self, name: str, slot: str) -> str | None:
        """The execution of a slot, if it has one."""
        return await self._starting.known(_principal(name), _key(name, slot))

    async def fire(
        self,
        trigger: Trigger,
        slot: str,
        scope: dict[str, JSON] | TriggerError,
        chain: int = 0,
        initiator: Initiator | None = None,
    ) -> Started:
        """Raises ``Refusal``; what cannot run is on record, too, and has its id.

        Instead of a ``scope`` there may be the reason why there is none.
        """
        definition, name = trigger.definition, trigger.name
        initiator = initiator or trigger.initiator
        asked = Asked(path=definition.path, version=definition.version)
        found = await self._starting.resolve(asked)
        try:
            if isinstance(scope, TriggerError):
                raise scope
            scope = {**scope, "trigger": {"name": name, "slot": slot}}
            workload = render_workload(definition.workload, scope)
            asked = Asked(
                path=asked.path,
                version=asked.version,
                workload=workload,
                concurrency=_concurrency(definition, scope | {"workload": workload}),
            )
        except TriggerError as error:
            found = _without_inputs(found, error)
        if not await self._rights.allow(initiator, RUN, definition.path):
            found = _forbidden(found, trigger)
        about: dict[str, JSON] = {"name": name, "slot": slot, "chain": chain}
        return await self._starting.start(
            asked, found, _principal(name), initiator, _key(name, slot), trigger=about
        )

    async def ensure(
        self,
        trigger: Trigger,
        slot: str,
        scope: dict[str, JSON] | TriggerError,
        chain: int = 0,
    ) -> str:
        """The execution of the slot: the one that is there, or a new one.

        What the playbook's author must mend is on record as an execution that failed.
        """
        known = await self.known(trigger.name, slot)
        if known is not None:
            return known
        try:
            return (await self.fire(trigger, slot, scope, chain)).execution_id
        except Refusal as refusal:
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


def _without_inputs(found: Found, error: TriggerError) -> Found:
    message = f"{error.path}: {error.message}"
    refused = {"kind": "trigger.inputs", "message": message}
    return _refused(found, refused, error.hint)


def _forbidden(found: Found, trigger: Trigger) -> Found:
    who, path = trigger.initiator.principal, trigger.definition.path
    message = f"{who}, the owner of the trigger '{trigger.name}', may not run '{path}'"
    hint = "an account that may run it takes the trigger over by replacing it"
    return _refused(found, {"kind": "playbook.forbidden", "message": message}, hint)


def _refused(found: Found, error: dict[str, JSON], hint: str | None) -> Found:
    refusal = Refusal(error["kind"], error["message"], hint)
    error = {**error, "step": None, "task": None}
    return Found(CatalogEntry(None, found.entry.about, error), refusal)
