"""Starts of forks: stores the kept events, and those that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from noetl.dsl.model import Playbook
from noetl.dsl.normalize import deep_merge
from noetl.dsl.playbook_inputs import check_inputs
from noetl.engine.decide import refuse
from noetl.engine.effects import effects_of
from noetl.engine.event_codec import pack
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.forks import Fork, Renaming, ask, start_fork
from noetl.engine.recorder import Batch, Recorder
from noetl.engine.secrets.handles import Secrets, handles_in
from noetl.engine.state import State, commands_of
from noetl.engine.tasks.scope import is_equal
from noetl.engine.values.references import (
    holds_reference,
    is_reference,
    make_reference,
    references_in,
)
from noetl.errors import BlobNotOwned, ConfigError, KeychainError, Unloaded
from noetl.ports import Blobs
from noetl.runtime.executions.inbox import MAX_BATCH_COST
from noetl.runtime.executions.loaded import (
    EVENTS_PER_READ,
    LoadedExecution,
    freeze,
    thaw,
)
from noetl.runtime.executions.transition import rejection_of, transition_of
from noetl.runtime.forks.points import Point
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.values.ownership import Events, Owners
from noetl.runtime.values.stores import store_blobs
from noetl.types import JSON

_MARK = b'"key":"log:'
_encode = msgspec.json.Encoder().encode


class ForkHistory:
    """The kept events, read from the origin's log, which does not change.

    Results of children's loops are in the children's logs, which the fork cannot read:
    they become values of the fork. References that the origin got from its children are
    ``inherited``, if the origin could read them (I-36).
    """

    def __init__(
        self, log: Events, blobs: Blobs, fork: Fork, asked: Event, owners: Owners
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._fork = fork
        self._asked = asked
        self._rename = Renaming(fork.origin, fork.execution_id).event
        self._owners = owners
        self._copied: set[str] = set()
        self._own = f"log:{fork.execution_id}-"

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        """Return the events as the store will, once it has them."""
        if execution_id != self._fork.execution_id:
            return await self._log.read(execution_id, after=after, limit=limit)
        left = self._fork.seq - after
        count = left if limit is None else min(limit, left)
        if count <= 0:
            return []
        page = await self._log.read(self._fork.origin, after=after, limit=count)
        return [await self._adopt(event) for event in page]

    async def take(self) -> tuple[State, list[bytes]]:
        """Return the state after the kept events, and the encoded events."""
        state, bodies = State(), list[bytes]()
        name = self._fork.execution_id
        while page := await self.read(name, after=state.seq, limit=EVENTS_PER_READ):
            replay(page, state)
            bodies += map(pack, page)
        return state, bodies

    async def _adopt(self, event: Event) -> Event:
        if event.seq == 1:
            return self._asked
        event = self._rename(event)
        payload = event.payload
        if _MARK in _encode(payload):
            payload = await self._within_reach(payload)
        if event.name == "task.resumed" and holds_reference(payload["answer"]):
            inherited = await self._inherited(payload["answer"])
            payload = {**payload, "inherited": inherited}
        return msgspec.structs.replace(event, payload=payload)

    async def _inherited(self, answer: JSON) -> list[str]:
        """Return keys of inherited references that the origin could read; copies are
        the fork's own.
        """
        keys = {reference["key"] for reference in references_in(answer)}
        readable = await self._owners.readable(self._fork.origin, answer)
        return sorted({*readable, *(keys & self._copied)})

    async def _within_reach(self, value: JSON) -> JSON:
        if is_reference(value):
            key = value["key"]
            if not key.startswith("log:") or key.startswith(self._own):
                return value
            try:
                body = _encode(await self._owners.whole(self._fork.origin, value))
            except BlobNotOwned:
                return value  # readers get an error
            key = await self._blobs.put(body)
            self._copied.add(key)
            return make_reference(key, len(body), "list", body)
        if isinstance(value, dict):
            return {key: await self._within_reach(each) for key, each in value.items()}
        if isinstance(value, list):
            return [await self._within_reach(each) for each in value]
        return value


async def begin_fork(
    orchestrator: Orchestrator,
    playbook: Playbook,
    fork: Fork,
    point: Point,
    log: Events,
) -> dict[str, JSON] | None:
    """Accept the fork: it is stored and can be loaded when this returns None.

    Otherwise return the error of its keychain. Raises ``ConfigError`` for secrets that
    the origin no longer has.
    """
    keys, store = orchestrator.keys, orchestrator.store
    blobs = await orchestrator.results.of(playbook)
    name, about = fork.execution_id, fork.playbook
    recorder = Recorder(State(), orchestrator.clock.now())
    owners = Owners(log, orchestrator.blobs)
    inherited = await owners.readable(fork.origin, point.state.outer)
    ask(recorder, fork, point.first, inherited)
    try:
        await keys.resolve(name, playbook.keychain, about)
        await keys.inherit(fork.origin, name)
        secrets = await keys.open(name, playbook.keychain, about)
        fork = await _seal_inputs(orchestrator, playbook, fork)
    except KeychainError as error:
        await keys.drop(name)
        refuse(recorder, fork.playbook, error.error)
        await store_blobs(blobs, recorder)
        await store.commit([rejection_of(recorder, fork.playbook)])
        return error.error
    kept = ForkHistory(log, blobs, fork, recorder.events[0], owners)
    state, history = await kept.take()
    live = LoadedExecution.of(playbook, state, fork.playbook, secrets)
    owners = Owners(kept, orchestrator.blobs)
    batch = await _decide(live, fork, owners, orchestrator.clock.now())
    lost = handles_in(msgspec.to_builtins(live.state, str_keys=True), secrets)
    if lost:
        await keys.drop(name)
        raise ConfigError(await _name_secrets(log, fork, lost))
    await store_blobs(blobs, recorder)
    await store_blobs(blobs, batch)
    effects = effects_of(batch.events)
    effects.ready = list(commands_of(live.state))  # nothing waits for it yet
    placement, now = orchestrator.placement, orchestrator.clock.now()
    planned = placement.plan(live, effects)
    transition = transition_of(live, batch, effects, fork.seq, planned, placement, now)
    whole = msgspec.structs.replace(transition.log, history=history)
    await store.commit([msgspec.structs.replace(transition, log=whole)])
    if live.state.finished:
        await keys.drop(name)
    return None


async def _seal_inputs(
    orchestrator: Orchestrator, playbook: Playbook, fork: Fork
) -> Fork:
    """Check and seal the edited inputs of a fork (S-72). Raises ``KeychainError``."""
    if fork.workload is None:
        return fork
    keys, name = orchestrator.keys, fork.execution_id
    error = check_inputs(playbook, keys.reveal(name, fork.workload))
    if error is not None:
        raise KeychainError(error)
    sealed = await keys.seal_inputs(name, playbook, fork.workload)
    return msgspec.structs.replace(fork, workload=sealed)


async def find_changed_loops(
    playbook: Playbook, fork: Fork, state: State, owners: Owners
) -> set[str]:
    """Return the steps whose loops have another collection in the fork: nothing of them
    is kept. Nothing is written."""
    kept = {run.step for run in state.kept.values() if run.root is not None}
    edited = fork.newer or fork.workload is not None or fork.set_ctx
    if not kept or not edited:
        return set()
    live = LoadedExecution.of(playbook, thaw(freeze(state)), fork.playbook, Secrets())
    batch = await _decide(live, fork, owners, 0.0)
    begun = {event.step for event in batch.events if event.name == "step.scheduled"}
    same = {event.step for event in batch.events if "kept" in event.payload}
    return {step for step in kept if step in begun and step not in same}


async def _decide(
    live: LoadedExecution, fork: Fork, owners: Owners, now: float
) -> Batch:
    before, name = freeze(live.state), live.state.execution_id
    while True:
        batch = Batch(
            live.playbook,
            live.net,
            live.state,
            now,
            live.values,
            live.secrets,
            MAX_BATCH_COST,
        )
        try:
            start_fork(batch, fork)
        except Unloaded as needed:
            await owners.load(name, needed.references, live.values, recent=batch.events)
            live.state = thaw(before)
        else:
            return batch


async def _name_secrets(log: Events, fork: Fork, lost: Mapping[str, str]) -> str:
    """Return a message with the missing secrets, and how to continue without them."""
    handle, place = next(iter(lost.items()))
    after = 0
    while after < fork.seq:
        page = await log.read(fork.origin, after=after, limit=EVENTS_PER_READ)
        for event in page:
            if handle.encode() in msgspec.json.encode(event.payload):
                if event.step is None:
                    return (
                        f"{place} is a secret input, and the secrets of {fork.origin} "
                        "are gone: they are kept until an execution has ended. Set the "
                        "input again"
                    )
                where = f"task '{event.task_label}' of step '{event.step}'"
                return (
                    f"{place} holds a secret that {where} fetched, and the secrets of "
                    f"{fork.origin} are gone: they are kept until an execution has "
                    f"ended. Begin before it was fetched (--at {event.seq - 1} or "
                    f"earlier, or noetl retry --from {event.step})"
                )
        after = page[-1].seq
    return f"{place} holds a secret of {fork.origin}, whose secrets are gone"


async def edited_workload(
    owners: Owners,
    state: State,
    edits: Mapping[str, JSON],
    playbook: Playbook,
    newer: Playbook | None,
) -> dict[str, JSON] | None:
    """Return the whole workload of a fork; None if it is that of its origin.

    A newer playbook has its own defaults. Values that the origin got over its defaults
    apply on top of them, and the edits apply last.
    """
    if not edits and newer is None:
        return None
    whole: JSON = await owners.whole(state.execution_id, state.workload)
    if newer is not None:
        given = _differences(playbook.workload, whole)
        whole = deep_merge(newer.workload, given)
    return dict(deep_merge(whole, edits))


def _differences(
    defaults: Mapping[str, JSON], values: Mapping[str, JSON]
) -> dict[str, JSON]:
    """Return the values that differ from the defaults."""
    found: dict[str, JSON] = {}
    for key, value in values.items():
        if key not in defaults:
            found[key] = value
        elif isinstance(value, Mapping) and isinstance(defaults[key], Mapping):
            if inner := _differences(defaults[key], value):
                found[key] = inner
        elif not is_equal(defaults[key], value):
            found[key] = value
    return found
