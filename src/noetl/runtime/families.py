"""Executions that call executions: children begin once, and answer once (S-37)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine.decide import Request, resume
from noetl.engine.effects import Effects
from noetl.engine.events import Event
from noetl.engine.state import State
from noetl.engine.suspensions import MAX_DEPTH
from noetl.engine.waits import answer_child, children_of
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import Catalog, Store
from noetl.runtime.lanes import Lane
from noetl.runtime.live import Answer, Decision, Live
from noetl.runtime.ownership import Owners
from noetl.runtime.rights import RUN, Rights, find_initiator
from noetl.runtime.tasks import end_tasks
from noetl.types import JSON

WIDTH = 8
"""Children of one family that a server begins, answers for or stops at once: other
teams wait behind so many of them at most."""
REMEMBERED = 1_000
"""Cancelled families whose children are not begun any more."""


class Parents(Protocol):
    """What a family needs of the orchestrator."""

    store: Store
    owners: Owners
    rights: Rights
    changed: asyncio.Event

    @property
    def is_server(self) -> bool: ...
    def is_loaded(self, execution_id: str) -> bool: ...
    def live(self, execution_id: str) -> Live | None: ...
    def state(self, execution_id: str) -> State: ...
    def forget(self, execution_id: str) -> None: ...
    async def start(
        self, playbook: Playbook, request: Request
    ) -> dict[str, JSON] | None: ...
    async def load(self, execution_id: str) -> State: ...
    async def refresh(self, execution_id: str) -> None: ...
    async def reject(self, request: Request, error: dict[str, JSON]) -> list[Event]: ...
    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None: ...
    async def decide(self, execution_id: str, decision: Decision) -> Answer: ...


class Families:
    """Who waits for whom is in the log; here it is only acted upon, again if need be:
    the child's id is derived from the action that calls it."""

    def __init__(self, parents: Parents, catalog: Catalog) -> None:
        self._parents = parents
        self._catalog = catalog
        self._tasks: set[asyncio.Future[None]] = set()
        self._begins, self._answers, self._stops = Lane(WIDTH), Lane(WIDTH), Lane(WIDTH)
        self._called_off: dict[str, None] = {}
        self.broken: BaseException | None = None

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    async def look(self, execution_id: str, timer_id: str) -> None:
        """Somebody may have ended, or died, without a word: ask the log."""
        what, _, command_id = timer_id.partition(":")
        live = self._parents.live(execution_id)
        if live is None:
            return
        if what == "child":
            children = dict(children_of(live.state))
            if command_id in children:
                await self._begin(execution_id, live, command_id, children[command_id])
        elif live.state.parent is not None and not live.state.finished:
            caller = live.state.parent["execution_id"]
            await self._parents.refresh(caller)
            above = await self._parents.load(caller)
            awaited = {child["execution_id"] for _, child in children_of(above)}
            if execution_id not in awaited:
                await self._parents.cancel(execution_id, above.cancelling)

    async def close(self) -> None:
        await end_tasks(self._tasks)

    def note(self, execution_id: str, live: Live, effects: Effects) -> None:
        """After a commit: begin children, stop those that nobody waits for."""
        for command_id, child in effects.children.items():
            self._adopt(execution_id, live, command_id, child)
        if live.state.cancelling is not None and live.state.parent is None:
            self._call_off(live.state.trace_id)
        if live.children:
            self._drop(live)
        if live.state.finished and live.state.parent is not None:
            work = self._answer(execution_id, live.state)
            self._spawn(work, self._answers, live.state.trace_id)

    def _call_off(self, family: str) -> None:
        """Begin no more children: the root is cancelled, and all others will be."""
        self._called_off[family] = None
        if len(self._called_off) > REMEMBERED:
            del self._called_off[next(iter(self._called_off))]

    def _drop(self, live: Live) -> None:
        """Stop the children that nobody waits for any more."""
        awaited = {child["execution_id"] for _, child in children_of(live.state)}
        for child_id in live.children.keys() - awaited:
            del live.children[child_id]
            if self._parents.is_loaded(child_id) or self._parents.is_server:
                work = self._stop(child_id, live.state.cancelling)
                self._spawn(work, self._stops, live.state.trace_id)

    def take_up(self, execution_id: str, live: Live) -> None:
        """After a restart: the children that the log says are waited for."""
        for command_id, child in children_of(live.state):
            self._adopt(execution_id, live, command_id, child)

    def _adopt(
        self, execution_id: str, live: Live, command_id: str, child: dict[str, JSON]
    ) -> None:
        live.children[child["execution_id"]] = command_id
        work = self._begin(execution_id, live, command_id, child)
        self._spawn(work, self._begins, live.state.trace_id)

    async def _begin(
        self, parent_id: str, live: Live, command_id: str, child: dict[str, JSON]
    ) -> None:
        child_id, path = child["execution_id"], child["path"]
        if child_id not in live.children or live.state.trace_id in self._called_off:
            return  # it was called off before its turn
        known = await self._parents.store.read(child_id, limit=1)
        if known:
            await self._attach(child_id)
            await self._recheck(live, child_id)
            return
        if live.state.depth >= MAX_DEPTH:
            message = f"playbooks call each other more than {MAX_DEPTH} deep"
            await self._fail(parent_id, command_id, child_id, "playbook.depth", message)
            return
        initiator = await find_initiator(self._parents.store, parent_id)
        if not await self._parents.rights.allow(initiator, RUN, path):
            # Asked before the catalog is: the answer does not say what is there.
            who = initiator.principal if initiator else "the caller"
            message = f"{who}, who began this execution, may not run '{path}'"
            await self._fail(
                parent_id, command_id, child_id, "playbook.forbidden", message
            )
            return
        found = await self._catalog.find(path, child["version"])
        if found is None:
            version = f" in version {child['version']}" if child["version"] else ""
            message = f"there is no playbook '{path}'{version}; looked in "
            message += self._catalog.place
            await self._fail(
                parent_id, command_id, child_id, "playbook.not_found", message
            )
            return
        try:
            args = await self._parents.owners.whole(parent_id, child["args"])
        except (BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned) as error:
            await self._fail(parent_id, command_id, child_id, error.kind, str(error))
            return
        request = Request(
            child_id,
            _marked(found.about, live.about),
            deep_merge(found.playbook.workload if found.playbook else {}, args),
            parent={
                "execution_id": parent_id,
                "command_id": command_id,
                "depth": live.state.depth,
                "iter": child["iter"],
            },
            trace_id=live.state.trace_id,
            initiator=initiator.as_json() if initiator else None,
        )
        if child_id not in live.children:
            return  # it was called off while we looked for it
        if found.playbook is None:
            await self._parents.reject(request, found.error)
            message = f"playbook '{path}' is not valid: {found.error['message']}"
            await self._fail(
                parent_id, command_id, child_id, "playbook.invalid", message
            )
            return
        refusal = await self._parents.start(found.playbook, request)
        if refusal is not None:
            message = f"playbook '{path}' was not started: {refusal['message']}"
            await self._fail(parent_id, command_id, child_id, refusal["kind"], message)
            return
        await self._recheck(live, child_id)

    async def _recheck(self, live: Live, child_id: str) -> None:
        """Whoever called may have been cancelled while the child was begun."""
        if child_id not in live.children:
            await self._stop(child_id, live.state.cancelling)

    async def _attach(self, child_id: str) -> None:
        """The child is there already: it goes on, or has an answer."""
        await self._parents.refresh(child_id)
        state = await self._parents.load(child_id)
        if state.finished:
            await self._answer(child_id, state)
        elif state.status == "paused" and not self._parents.is_server:
            await self._parents.decide(child_id, resume)

    async def _answer(self, child_id: str, state: State) -> None:
        self._parents.forget(child_id)
        parent = state.parent or {}
        if self._parents.is_server:
            await self._parents.load(parent["execution_id"])
        if not self._parents.is_loaded(parent["execution_id"]):
            return
        answer: dict[str, JSON] = {
            "execution_id": child_id,
            "status": state.status,
            "result": state.result,
            "error": state.error,
        }
        await self._give(parent["execution_id"], parent["command_id"], child_id, answer)

    async def _fail(
        self, parent_id: str, command_id: str, child_id: str, kind: str, message: str
    ) -> None:
        error = {"kind": kind, "message": message}
        answer = {"execution_id": None, "status": None, "result": None, "error": error}
        await self._give(parent_id, command_id, child_id, answer)

    async def _give(
        self, parent_id: str, command_id: str, child_id: str, answer: dict[str, JSON]
    ) -> None:
        if not self._parents.is_loaded(parent_id):
            return
        await self._parents.decide(
            parent_id, lambda batch: answer_child(batch, command_id, child_id, answer)
        )

    async def _stop(self, child_id: str, error: dict[str, JSON] | None) -> None:
        if self._parents.is_server:
            await self._parents.load(child_id)
        if not self._parents.is_loaded(child_id):
            return  # it has ended meanwhile
        if not self._parents.state(child_id).finished:
            await self._parents.cancel(child_id, error)

    def _spawn(
        self, work: Coroutine[None, None, None], lane: Lane, family: str
    ) -> None:
        """Do it in the family's turn; at home, where there is one family, at once."""
        if self._parents.is_server:
            work = _in_turn(work, lane, family)
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.broken = task.exception()  # a store that failed: never hang on it
        self._parents.changed.set()


async def _in_turn(work: Coroutine[None, None, None], lane: Lane, family: str) -> None:
    try:
        async with lane.turn(family):
            await work
    finally:
        work.close()  # it may never have begun


def _marked(about: dict[str, JSON], caller: dict[str, JSON]) -> dict[str, JSON]:
    """What is recorded of a child: it gets data of its caller, and is as sensitive."""
    return {**about, "sensitive": True} if caller.get("sensitive") else about
