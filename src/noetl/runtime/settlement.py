"""Settling: what is queued of an execution is decided together, and stored together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from noetl.engine.batch import Batch
from noetl.engine.decide import SETTLE, expire
from noetl.engine.effects import Effects, effects_of
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.errors import LogConflict, NoetlError, StoreError, Unloaded
from noetl.ports import Clock, Grant, Lease, Store
from noetl.runtime.keychain import Keyring
from noetl.runtime.live import Answer, Input, Live, fold, freeze, thaw
from noetl.runtime.ownership import Owners
from noetl.runtime.planning import Planner
from noetl.runtime.results import Results, store_blobs
from noetl.runtime.tasks import end_tasks
from noetl.runtime.transitions import transition_of
from noetl.runtime.turns import SLOW, Turns
from noetl.runtime.works import grant

SHARE = 200_000
"""Steps of templates, and events counted as such, after which a settlement is stored
and others are served before the execution goes on."""
TOGETHER = 200
"""Inputs that are decided together at most."""
RACES = 20
"""How often another server may be first until something must be wrong."""


class Listener(Protocol):
    """Who acts on what is stored."""

    def tell(
        self,
        live: Live,
        events: Sequence[Event],
        effects: Effects,
        granted: Sequence[Lease],
    ) -> None: ...

    def drop(self, execution_id: str) -> None:
        """It cannot be read at the moment: whoever comes next tries again."""
        ...

    def linger(self, live: Live, seconds: float) -> None:
        """A decision took so much of the processor."""
        ...

    def rest(self, execution_id: str, live: Live) -> None:
        """Nothing of it is being decided now."""
        ...


class Settlement:
    """One writer per execution in this process; the store decides between processes."""

    def __init__(
        self,
        store: Store,
        results: Results,
        owners: Owners,
        clock: Clock,
        keys: Keyring,
        planner: Planner,
        listener: Listener,
        turns: Turns,
    ) -> None:
        self._store = store
        self._results = results
        self._owners = owners
        self._clock = clock
        self._keys = keys
        self._planner = planner
        self._listener = listener
        self._turns = turns
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, execution_id: str, live: Live, each: Input) -> asyncio.Future[Answer]:
        """Queue an input. What is queued together is decided and stored together."""
        live.inbox.append(each)
        live.used = self._clock.now()
        if not live.busy:
            live.busy = True
            task = asyncio.create_task(self._serve(execution_id, live))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return each.future

    async def close(self) -> None:
        """What is being decided is left as it is in the log."""
        await end_tasks(self._tasks)

    async def _serve(self, execution_id: str, live: Live) -> None:
        try:
            while live.inbox:
                inputs, live.inbox = live.inbox[:TOGETHER], live.inbox[TOGETHER:]
                try:
                    await self._settle(execution_id, live, inputs)
                except BaseException as error:  # no caller waits for ever
                    _refuse([*inputs, *live.inbox], error)
                    raise
        finally:
            live.busy = False
            self._listener.rest(execution_id, live)

    async def _settle(
        self, execution_id: str, live: Live, inputs: Sequence[Input], races: int = RACES
    ) -> None:
        try:
            if live.stale:
                await self._catch_up(execution_id, live)
            await self._settle_together(execution_id, live, inputs)
        except LogConflict as conflict:
            await self._restore(execution_id, live)
            if races:  # another server was first: decide again on what is there
                await self._settle(execution_id, live, inputs, races - 1)
            else:
                for each in inputs:
                    each.refuse(conflict)
        except Exception as error:
            await self._restore(execution_id, live)
            if len(inputs) == 1:
                inputs[0].refuse(error)
                return
            for each in inputs:  # one of them is to blame; the others are not
                await self._settle(execution_id, live, [each], races)

    async def _settle_together(
        self, execution_id: str, live: Live, inputs: Sequence[Input]
    ) -> None:
        after = live.state.seq
        batch = await self._decide(execution_id, live, inputs)
        if any(each.error for each in inputs):
            await self._check_refusal(execution_id, after)
        if batch.events or any(each.disarm for each in inputs):
            effects = effects_of(batch.events)
            granted = grant(live, batch, effects, inputs, self._planner)
            until = self._clock.now() + self._planner.ttl
            transition = transition_of(
                live,
                batch,
                effects,
                after,
                self._planner,
                inputs,
                Grant(granted, until) if granted else None,
            )
            if batch.blobs:
                await store_blobs(await self._results.of(live.playbook), batch)
            if live.state.finished and live.state.parent is not None:
                caller = live.state.parent["execution_id"]
                await self._keys.share(execution_id, caller, live.state.result)
            await self._store.commit([transition])
            if live.state.finished:
                if live.may_have_secrets:
                    await self._keys.drop(execution_id)
                else:
                    self._keys.forget(execution_id)
            if batch.events:
                self._listener.tell(live, batch.events, effects, granted)
            if batch.is_cut:
                self._go_on(live)
        for each in inputs:
            if each.answer is not None:
                each.answer.ctx = live.state.ctx
                each.answer.spilled = live.state.spilled
            each.reply()

    def _go_on(self, live: Live) -> None:
        """First of all that comes next: each settlement moves at least one thing."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_forget_error)  # then the timer tells of it
        decision = partial(expire, timer_id=SETTLE)
        live.inbox.insert(0, Input(decision, future, disarm=SETTLE))

    async def _decide(
        self, execution_id: str, live: Live, inputs: Sequence[Input]
    ) -> Batch:
        # The state is changed while it is decided: where that is likely to be tried
        # again, because values are stored elsewhere, the way back is kept.
        before = freeze(live.state) if live.state.spilled else b""
        while True:
            now = self._clock.now()
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
                await self._turns.take(partial(_decide_all, batch, inputs))
            except Unloaded as needed:
                await self._owners.load(
                    execution_id, needed.references, live.values, recent=batch.events
                )
                if before:
                    live.state = thaw(before)
                else:
                    live.state = await fold(self._store, execution_id)
            else:
                if self._turns.seconds > SLOW:
                    self._listener.linger(live, self._turns.seconds)
                live.values.trim()
                return batch

    async def _check_refusal(self, execution_id: str, after: int) -> None:
        """No commit will say whether it was decided on old facts."""
        if not self._store.shared:
            return
        if await self._store.read(execution_id, after=after, limit=1):
            raise LogConflict(f"execution {execution_id} has moved on")

    async def _catch_up(self, execution_id: str, live: Live) -> None:
        """Another server may have written since: take what the log has to say."""
        live.stale = False
        replay(await self._store.read(execution_id, after=live.state.seq), live.state)

    async def _restore(self, execution_id: str, live: Live) -> None:
        """The state ran ahead of the log: fold what is really there."""
        try:
            live.state = await fold(self._store, execution_id)
        except Exception:  # the store is gone: whoever comes next will read it again
            self._listener.drop(execution_id)


def _decide_all(batch: Batch, inputs: Sequence[Input]) -> None:
    for each in inputs:
        batch.begin()
        _decide(batch, each)


def _refuse(inputs: Sequence[Input], error: BaseException) -> None:
    why = StoreError("the process is being stopped", "store.closed")
    for each in inputs:
        each.refuse(error if isinstance(error, Exception) else why)


def _forget_error(future: asyncio.Future[Answer]) -> None:
    if not future.cancelled():
        future.exception()


def _decide(batch: Batch, each: Input) -> None:
    """A refusal that has changed nothing concerns nobody else."""
    before = len(batch.events)
    each.answer = each.error = None
    try:
        each.answer = Answer(stop=bool(each.decide(batch)))
    except NoetlError as error:
        if len(batch.events) > before:
            raise
        each.error = error
