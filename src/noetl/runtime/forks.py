"""A fork is put into the store whole: what it keeps, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine.batch import Batch, Recorder
from noetl.engine.context import is_equal
from noetl.engine.decide import refuse
from noetl.engine.effects import effects_of
from noetl.engine.forking import Fork, ask, go_apart
from noetl.engine.runs import commands_of
from noetl.engine.secrets import handles_in
from noetl.engine.state import State
from noetl.errors import ConfigError, KeychainError, Unloaded
from noetl.runtime.kept import Kept
from noetl.runtime.live import PAGE, Live, freeze, thaw
from noetl.runtime.loading import Events
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.origins import Point
from noetl.runtime.ownership import Owners
from noetl.runtime.results import store_blobs
from noetl.runtime.settlement import SHARE
from noetl.runtime.transitions import rejection_of, transition_of
from noetl.types import JSON


async def begin_fork(
    orchestrator: Orchestrator,
    playbook: Playbook,
    fork: Fork,
    point: Point,
    log: Events,
) -> dict[str, JSON] | None:
    """Accept the fork: it is in the store when this returns, and can be loaded.

    Or why it was refused: its keychain. Raises ``ConfigError`` for secrets that the
    origin does not have any more.
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
    except KeychainError as error:
        refuse(recorder, fork.playbook, error.error)
        await store_blobs(blobs, recorder)
        await store.commit([rejection_of(recorder, fork.playbook)])
        return error.error
    await keys.inherit(fork.origin, name)
    secrets = await keys.open(name, playbook.keychain, about)
    kept = Kept(log, blobs, fork, recorder.events[0], owners)
    state, history = await kept.take()
    live = Live.of(playbook, state, fork.playbook, secrets)
    live.saved = 0  # there is no snapshot yet
    batch = await _decide(orchestrator, live, fork, kept)
    lost = handles_in(msgspec.to_builtins(live.state, str_keys=True), secrets)
    if lost:
        await keys.drop(name)
        raise ConfigError(await _name_secrets(log, fork, lost))
    await store_blobs(blobs, recorder)
    await store_blobs(blobs, batch)
    effects = effects_of(batch.events)
    effects.ready = list(commands_of(live.state))  # nothing waits yet
    transition = transition_of(
        live, batch, effects, fork.seq, orchestrator.planner, (), None
    )
    await store.commit([msgspec.structs.replace(transition, history=history)])
    if live.state.finished:
        await keys.drop(name)
    return None


async def _decide(
    orchestrator: Orchestrator, live: Live, fork: Fork, kept: Kept
) -> Batch:
    owners, now = Owners(kept, orchestrator.blobs), orchestrator.clock.now()
    before = freeze(live.state)
    while True:
        batch = Batch(
            live.playbook,
            live.net,
            live.state,
            now,
            live.values,
            live.secrets,
            SHARE,
        )
        try:
            go_apart(batch, fork)
        except Unloaded as needed:
            await owners.load(
                fork.execution_id, needed.references, live.values, recent=batch.events
            )
            live.state = thaw(before)
        else:
            return batch


async def _name_secrets(log: Events, fork: Fork, lost: Mapping[str, str]) -> str:
    """Which secrets are gone, and how to go on without them."""
    handle, place = next(iter(lost.items()))
    after = 0
    while after < fork.seq:
        page = await log.read(fork.origin, after=after, limit=PAGE)
        for event in page:
            if handle.encode() in msgspec.json.encode(event.payload):
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
    """The whole workload of a fork; None if it is that of its origin.

    A newer playbook brings its own defaults. What the origin was given over those of
    its playbook is laid over them, and the edits over that.
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
    """What is laid over the defaults to get the values."""
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
