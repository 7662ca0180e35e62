"""Changes of ctx in a part of the log, with the values before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.engine.events import Event
from noetl.engine.state import State
from noetl.engine.tasks.scope import apply_patch, read_path
from noetl.engine.undone import Undone
from noetl.ports import LogReader
from noetl.report.values import cut
from noetl.service.executions.views.states import States
from noetl.types import JSON

MAX_CHANGES = 500
MAX_EVENTS = 20_000
"""Events that one request reads; its cursor continues after them."""
SLICE = 200
"""Events that are read, and applied without a pause, at once."""
VALUE_BYTES = 2_048


class CtxChanges:
    """Reads the patches of ctx, from the state before the first of them."""

    def __init__(self, log: LogReader, states: States) -> None:
        self._log = log
        self._states = states

    async def page(
        self, execution_id: str, first: int, last: int | None
    ) -> tuple[list[dict[str, JSON]], int | None]:
        """Return the changes from one event to another, and the event at which the next
        page begins."""
        end = await self._log.length(execution_id)
        until = end if last is None else min(last, end)
        if first > until:
            return [], None
        state = State()
        if first > 1:
            state = await self._states.at(execution_id, first - 1)
        undone = await self._undone(execution_id)
        found: list[dict[str, JSON]] = []
        ctx, seq, stop = state.ctx, first - 1, min(until, first - 1 + MAX_EVENTS)
        while seq < stop:
            size = min(SLICE, stop - seq)
            for event in await self._log.read(execution_id, after=seq, limit=size):
                if undone is not None and undone.covers(event):
                    continue
                after = _apply(event, ctx)
                changes = list(_changes(event, ctx, after))
                if len(found) + len(changes) > MAX_CHANGES and found:
                    return found, event.seq
                found += changes[:MAX_CHANGES]
                ctx = after
            seq += size
        return found, None if stop == until else stop + 1

    async def _undone(self, execution_id: str) -> Undone | None:
        """Return the events that do not count, which the first one names."""
        for event in await self._log.read(execution_id, limit=1):
            return Undone.of(event)
        return None


def _patch(event: Event) -> Mapping[str, JSON]:
    if event.name == "workflow.started":
        return event.payload["ctx"] or {}
    if event.name in ("task.done", "workflow.forked"):
        return event.payload.get("set_ctx") or {}
    return {}


def _apply(event: Event, ctx: dict[str, JSON]) -> dict[str, JSON]:
    patch = _patch(event)
    return ctx if not patch or "refused" in event.payload else apply_patch(ctx, patch)


def _changes(
    event: Event, ctx: Mapping[str, JSON], after: Mapping[str, JSON]
) -> Iterator[dict[str, JSON]]:
    """Yield a line for each key that the event writes, or was refused to write."""
    patch = _patch(event)
    refused = event.payload.get("refused")
    why = None
    if refused is not None:
        why = f"ctx.{refused['key']} was written by {refused['by']}"
    for key, value in patch.items():
        now = value if refused is not None else read_path(after, key)
        yield {
            "seq": event.seq,
            "step": event.step,
            "task": event.task_label,
            "iteration_id": event.iteration_id,
            "key": key,
            "new": read_path(ctx, key) is None and not _has(ctx, key),
            "before": cut(read_path(ctx, key), VALUE_BYTES),
            "after": cut(now, VALUE_BYTES),
            "refused": why,
        }


def _has(ctx: Mapping[str, JSON], key: str) -> bool:
    """Return whether a key of a patch has a value, maybe null."""
    if key in ctx:
        return True
    parent, _, last = key.rpartition(".")
    inside = read_path(ctx, parent) if parent else None
    return isinstance(inside, Mapping) and last in inside
