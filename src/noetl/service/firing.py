"""A slot of a trigger → one execution, whoever asks for it and how often."""

from __future__ import annotations

from noetl.engine.concurrency import Concurrency
from noetl.errors import StoreError
from noetl.ports import CatalogEntry
from noetl.service.refusal import Refusal
from noetl.service.starting import Asked, Found, Started, Starting
from noetl.triggers.definition import Definition
from noetl.triggers.inputs import TriggerError, render_place, render_workload
from noetl.types import JSON


class Firing:
    """Asks for executions as anybody does, with a key that names the slot."""

    def __init__(self, starting: Starting) -> None:
        self._starting = starting

    async def known(self, name: str, slot: str) -> str | None:
        """The execution of a slot, if it has one."""
        return await self._starting.known(_principal(name), _key(name, slot))

    async def fire(
        self,
        definition: Definition,
        slot: str,
        scope: dict[str, JSON] | TriggerError,
        chain: int = 0,
    ) -> Started:
        """Raises ``Refusal``; what cannot run is on record, too, and has its id.

        Instead of a ``scope`` there may be the reason why there is none.
        """
        name = definition.name
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
        about: dict[str, JSON] = {"name": name, "slot": slot, "chain": chain}
        return await self._starting.start(
            asked, found, _principal(name), _key(name, slot), trigger=about
        )

    async def ensure(
        self,
        definition: Definition,
        slot: str,
        scope: dict[str, JSON] | TriggerError,
        chain: int = 0,
    ) -> str:
        """The execution of the slot: the one that is there, or a new one.

        What the playbook's author must mend is on record as an execution that failed.
        """
        known = await self.known(definition.name, slot)
        if known is not None:
            return known
        try:
            return (await self.fire(definition, slot, scope, chain)).execution_id
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
    refused: dict[str, JSON] = {
        "kind": "trigger.inputs",
        "message": message,
        "step": None,
        "task": None,
    }
    refusal = Refusal("trigger.inputs", message, error.hint)
    return Found(CatalogEntry(None, found.entry.about, refused), refusal)
