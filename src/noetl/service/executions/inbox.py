"""The inbox: the questions that executions have asked, and who may answer them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from noetl.access.permissions import Principal, allows, roles_at
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import State
from noetl.engine.waits.resume import waiting_in
from noetl.ports import Parked, Summary
from noetl.ports.store import Store
from noetl.runtime.executions.loaded import fold
from noetl.types import JSON

MAX_PARKED = 5_000
"""Waits that are looked at, the longest ones."""
MAX_FOLDED = 200
"""Executions that one call reads; the next one continues."""
MAX_QUESTIONS = 100
"""Questions of one execution that are shown."""
PAGE = 100
MAX_ARGS_BYTES = 4096
"""Bytes of args, as JSON, above which their first characters are shown."""
HEAD = 512
CONTROL = "executions:control"

Place = tuple[str, str, str]
"""The place of a question in the inbox: when it was asked, execution and command."""


class Question(msgspec.Struct, frozen=True):
    """A pipeline that waits for a signal."""

    command_id: str
    step: str
    task: str
    signal: str
    asked_at: str
    until: str | None
    args: JSON
    schema: JSON
    roles: tuple[str, ...] | None


class Item(msgspec.Struct, frozen=True):
    """A question of an execution, and whether the caller may answer it."""

    summary: Summary
    question: Question
    may: bool

    @property
    def place(self) -> Place:
        found = self.question
        return found.asked_at, self.summary.execution_id, found.command_id


class Inbox(msgspec.Struct, frozen=True):
    """A page of questions, the longest wait first. ``complete`` is False if a further
    call may find more."""

    items: list[Item]
    mine: int
    others: int
    following: Place | None
    complete: bool


class InboxQueries:
    """Reads the questions of executions that wait, and remembers them until the log of
    the execution grows: nothing is written for them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[int, tuple[Question, ...]]] = OrderedDict()

    async def page(
        self,
        principal: Principal,
        visible: Callable[[Summary], bool],
        *,
        mine: bool | None = None,
        after: Place | None = None,
    ) -> Inbox:
        """Return the questions of executions that the caller sees; with ``mine`` only
        those that the caller may answer, or may not."""
        parked = await self._store.parked(limit=MAX_PARKED)
        complete = await self._read(parked) and len(parked) < MAX_PARKED
        found = sorted(
            (
                item
                for each in parked
                if visible(each.summary)
                for item in self._items(each.summary, principal)
            ),
            key=lambda item: item.place,
        )
        answerable = sum(item.may for item in found)
        shown = [
            item
            for item in found
            if mine in (None, item.may) and (after is None or item.place > after)
        ]
        following = shown[PAGE - 1].place if len(shown) > PAGE else None
        others = len(found) - answerable
        return Inbox(shown[:PAGE], answerable, others, following, complete)

    def _items(self, summary: Summary, principal: Principal) -> Iterator[Item]:
        for each in self._known.get(summary.execution_id, (0, ()))[1]:
            yield Item(summary, each, may_answer(principal, summary, each))

    async def _read(self, parked: Sequence[Parked]) -> bool:
        """Read the questions of executions whose logs have grown; return whether all
        of them were read."""
        left = MAX_FOLDED
        for each in parked:
            name = each.summary.execution_id
            known = self._known.get(name)
            if known is None or known[0] != each.last_seq:
                if not left:
                    return False
                left -= 1
                state = await fold(self._store, name)
                self._known[name] = (state.seq, questions_of(state))
            self._known.move_to_end(name)
        while len(self._known) > MAX_PARKED:
            self._known.popitem(last=False)
        return True


def questions_of(state: State) -> tuple[Question, ...]:
    """Return the questions of an execution, the longest wait first."""
    found: list[Question] = []
    for command_id, run, waiting in waiting_in(state):
        if waiting.on != "signal" or waiting.signal is None:
            continue
        roles = None if waiting.roles is None else tuple(waiting.roles)
        task = find_progress(run, path_of(command_id)).label or ""
        found.append(
            Question(
                command_id,
                run.step,
                task,
                waiting.signal,
                waiting.since or "",
                waiting.until,
                cut(run.args),
                waiting.schema,
                roles,
            )
        )
        if len(found) == MAX_QUESTIONS:
            break
    return tuple(found)


def cut(value: JSON) -> JSON:
    """Return the value, or its size and the first characters of its JSON."""
    text = msgspec.json.encode(value)
    if len(text) <= MAX_ARGS_BYTES:
        return value
    return {"$cut": len(text), "head": text[:HEAD].decode(errors="ignore")}


def may_answer(principal: Principal, summary: Summary, question: Question) -> bool:
    """Return whether the principal may send the signal."""
    path = summary.playbook.get("path")
    if not allows(principal, CONTROL, path):
        return False
    held = roles_at(principal, path)
    return question.roles is None or not held.isdisjoint({"admin", *question.roles})
