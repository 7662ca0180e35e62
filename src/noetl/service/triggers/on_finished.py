"""Triggers that start executions when others finish."""

from __future__ import annotations

import logging

from noetl.engine.values.references import SERVER_LIMIT, references_in
from noetl.engine.waits.suspend import MAX_DEPTH
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import ExecutionHistory, Summary, Triggers
from noetl.runtime.executions.initiator_rights import READ, Rights
from noetl.runtime.values.ownership import Owners
from noetl.service.executions.queries import ExecutionQueries
from noetl.service.executions.sensitive import PAYLOADS, is_sensitive
from noetl.service.triggers.fire import TriggerStarter
from noetl.templates import compile_value
from noetl.triggers.definition import Definition
from noetl.triggers.inputs import TriggerError
from noetl.triggers.parse import MAX_CHAIN, covers, starts_after
from noetl.types import JSON

log = logging.getLogger("noetl.triggers")


class CompletionTriggers:
    """Caches the path patterns of all completion triggers since the last refresh."""

    def __init__(
        self,
        triggers: Triggers,
        firing: TriggerStarter,
        store: ExecutionHistory,
        looking: ExecutionQueries,
        owners: Owners,
        rights: Rights,
    ) -> None:
        self._triggers = triggers
        self._firing = firing
        self._store = store
        self._looking = looking
        self._owners = owners
        self._rights = rights
        self._patterns: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        found = [
            each.definition.finished for each in await self._triggers.on_finished()
        ]
        self._patterns = frozenset(each.path for each in found if each is not None)

    def is_awaited(self, path: str | None) -> bool:
        if path is None:
            return False
        return any(covers(pattern, path) for pattern in self._patterns)

    async def fire(self, execution_id: str) -> None:
        """Start the executions of all triggers that match this completion; idempotent.

        A trigger matches only executions that its owner may see.
        """
        summary = await self._store.summary(execution_id)
        path, status = summary.playbook.get("path"), summary.status
        needed = PAYLOADS if is_sensitive(summary.playbook) else READ
        fitting = [
            each
            for each in await self._triggers.on_finished()
            if starts_after(each.definition, path, status)
            and await self._rights.allow(each.initiator, needed, path or "")
        ]
        if not fitting:
            return
        chain = await self._chain(summary)
        for trigger in fitting:
            if chain >= MAX_CHAIN:
                about = {"trigger": trigger.name, "execution_id": execution_id}
                log.warning("executions start each other in a cycle", extra=about)
                continue
            scope: dict[str, JSON] | TriggerError
            try:
                scope = {"execution": await self.scope(trigger.definition, summary)}
            except TriggerError as error:
                scope = error
            # The end of an execution is told once: there is no later to try again.
            await self._firing.ensure(
                trigger, execution_id, scope, chain + 1, admitted=True
            )

    async def scope(self, definition: Definition, summary: Summary) -> dict[str, JSON]:
        """Return the template scope; the result is loaded only if a template reads it.

        Raises ``TriggerError`` for a result that cannot be passed on.
        """
        about = summary.playbook
        scope: dict[str, JSON] = {
            "execution_id": summary.execution_id,
            "status": summary.status,
            "path": about.get("path"),
            "version": about.get("version"),
            "started_at": summary.started_at,
            "finished_at": summary.finished_at,
            "error": summary.error,
        }
        reads = compile_value(definition.workload).references
        if any(each.path[:2] in _WHOLE for each in reads):
            document = await self._looking.document(summary.execution_id)
            scope["result"] = await self._result(summary, document["result"])
        return scope

    async def _result(self, summary: Summary, result: JSON) -> JSON:
        """Return the result with its references resolved: they belong to the finished
        execution, and the new one could not read them (S-48)."""
        size = sum(reference["size"] for reference in references_in(result))
        if size > SERVER_LIMIT:
            message = (
                f"the result has {size:,} bytes; the limit is {SERVER_LIMIT:,} bytes"
            )
            raise TriggerError("execution.result", message)
        try:
            return await self._owners.whole(summary.execution_id, result)
        except (BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned) as error:
            raise TriggerError("execution.result", str(error)) from None

    async def _chain(self, summary: Summary) -> int:
        """Return the number of completions that led here; a child counts as its
        root."""
        for _ in range(MAX_DEPTH + 1):
            if summary.parent_id is None:
                break
            summary = await self._store.summary(summary.parent_id)
        [first] = await self._store.read(summary.execution_id, limit=1)
        caller = first.payload.get("caller") or {}
        chain: int = (caller.get("trigger") or {}).get("chain", 0)
        return chain


_WHOLE = (("execution",), ("execution", "result"))
