"""States of an execution at any event, folded from the nearest checkpoint."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

import msgspec

from noetl.engine.evolve import replay
from noetl.engine.execution_document import state_document
from noetl.engine.state import State
from noetl.ports import LogReader
from noetl.report.values import cut, cut_members
from noetl.runtime.executions.loaded import freeze, thaw
from noetl.runtime.executions.snapshots import read_snapshot
from noetl.service.errors import RequestRefused
from noetl.types import JSON

EVERY = 2_000
"""Events between two checkpoints."""
SLICE = 1_000
"""Events that are folded at once."""
CACHE_BYTES = 64 * 1024 * 1024
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of checkpoints in memory, in all and of one; larger ones are not kept."""
MAX_ITEMS = 500
"""Tokens, runs and loops of an answer in parts."""
PARTS = ("ctx", "tokens", "runs", "loops")


class Checkpoints:
    """Encoded states by execution and position; the least recently used are dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._size = 0

    def nearest(self, execution_id: str, seq: int) -> State | None:
        """Return the last kept state at or before a position."""
        for at in range(seq // EVERY * EVERY, 0, -EVERY):
            body = self._kept.get((execution_id, at))
            if body is not None:
                self._kept.move_to_end((execution_id, at))
                return thaw(body)
        return None

    def keep(self, state: State) -> None:
        key = state.execution_id, state.seq
        body = b"" if key in self._kept else freeze(state)
        if not 0 < len(body) <= MAX_BYTES:
            return
        self._kept[key] = body
        self._size += len(body)
        while self._size > CACHE_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._size -= len(dropped)


class States:
    """Folds states; each fold leaves a checkpoint at every 2,000 events."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._checkpoints = Checkpoints()

    async def at(self, execution_id: str, seq: int | None) -> State:
        """Return the state after an event, by default after the last one.

        The caller may change it. Raises ``RequestRefused`` (``query.invalid``) for an
        event after the end.
        """
        last = await self._log.length(execution_id)
        if seq is not None and seq > last:
            message = f"event {seq} does not exist: the log ends at {last}"
            raise RequestRefused("query.invalid", message, parameter="at")
        until = last if seq is None else seq
        state = await self._nearest(execution_id, until)
        while state.seq < until:
            size = min(SLICE, EVERY - state.seq % EVERY, until - state.seq)
            replay(
                await self._log.read(execution_id, after=state.seq, limit=size), state
            )
            if state.seq % EVERY == 0:
                self._checkpoints.keep(state)
        return state

    async def _nearest(self, execution_id: str, seq: int) -> State:
        state = self._checkpoints.nearest(execution_id, seq)
        if state is not None and seq - state.seq < EVERY:
            return state
        saved, _ = await read_snapshot(self._log, execution_id, 0)
        known = 0 if state is None else state.seq
        if known < saved.seq <= seq:
            return saved
        return state or State()

    async def show(
        self, execution_id: str, at: int | None, parts: Collection[str] | None
    ) -> dict[str, JSON]:
        """Return the state as a document; with ``parts`` only these, with large values
        cut."""
        state = await self.at(execution_id, at)
        return state_document(state) if parts is None else _parts_of(state, parts)


def _parts_of(state: State, parts: Collection[str]) -> dict[str, JSON]:
    """Return the parts with cut values, and how many items each mapping has."""
    runs = state.runs.values()
    loops = {run.id: run.loop for run in runs if run.loop is not None}
    whole: dict[str, Mapping[str, Any]] = {
        "tokens": state.tokens,
        "runs": state.runs,
        "loops": loops,
    }
    found: dict[str, JSON] = {
        "execution_id": state.execution_id,
        "status": state.status,
        "seq": state.seq,
        "totals": {name: len(whole[name]) for name in whole if name in parts},
    }
    if "ctx" in parts:
        found["ctx"] = cut_members(state.ctx)
    for name, items in whole.items():
        if name in parts:
            some = islice(items.items(), MAX_ITEMS)
            found[name] = {key: _item(each) for key, each in some}
    return found


def _item(item: msgspec.Struct) -> dict[str, JSON]:
    """Return a token, a run or a loop with each of its members cut."""
    members = msgspec.structs.asdict(item)
    members.pop("loop", None)
    return {
        name: cut_members(value) if name == "args" else cut(_plain(value))
        for name, value in members.items()
    }


def _plain(value: JSON) -> JSON:
    return msgspec.to_builtins(value, str_keys=True)
