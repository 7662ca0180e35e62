"""The inbox: the questions that executions have asked, and who may answer them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from noetl.access.permissions import Principal, allows, roles_at
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import State
from noetl.engine.waits.resume import waiting_in
from noetl.ports import LogReader, Parked, Summary
from noetl.ports.store import Store
from noetl.runtime.executions.snapshots import fold
from noetl.types import JSON

MAX_PARKED = 5_000
"""Waits that are looked at, the longest ones."""
MAX_FOLDED = 200
"""Executions that one call reads; the next one continues."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of questions, as JSON, that one call looks at."""
MAX_KNOWN_BYTES = 4 * MAX_BYTES
"""Bytes of questions that are remembered."""
PER_EXECUTION = 200
"""Bytes that are counted for an execution, whatever it asks."""
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


class _Known(msgspec.Struct, frozen=True):
    """Questions of an execution at a position of its log."""

    seq: int
    questions: tuple[Question, ...]
    size: int


class Questions:
    """Reads the questions of executions, and remembers them until the log of the
    execution grows: nothing is written for them."""

    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._size = 0

    def known(self, execution_id: str, seq: int) -> _Known | None:
        """Return what is remembered of a log that ends at a position."""
        found = self._known.get(execution_id)
        if found is None or found.seq != seq:
            return None
        self._known.move_to_end(execution_id)
        return found

    async def read(self, execution_id: str) -> _Known:
        """Read the questions from the log."""
        state = await fold(self._log, execution_id)
        questions = questions_of(state)
        size = len(msgspec.json.encode(questions)) + PER_EXECUTION
        found = _Known(state.seq, questions, size)
        self._forget(execution_id)
        self._known[execution_id] = found
        self._size += size
        while self._size > MAX_KNOWN_BYTES and len(self._known) > 1:
            self._forget(next(iter(self._known)))
        return found

    def _forget(self, execution_id: str) -> None:
        gone = self._known.pop(execution_id, None)
        self._size -= 0 if gone is None else gone.size

    async def of(self, execution_id: str) -> tuple[Question, ...]:
        """Return the questions of an execution as its log is now."""
        seq = await self._log.length(execution_id)
        known = self.known(execution_id, seq) or await self.read(execution_id)
        return known.questions


class InboxQueries:
    """Reads the questions of all executions that wait."""

    def __init__(self, store: Store, questions: Questions) -> None:
        self._store = store
        self._questions = questions

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
        seen = [each for each in parked if visible(each.summary)]
        items, is_whole = await self._items(seen, principal)
        complete = is_whole and len(parked) < MAX_PARKED
        found = sorted(items, key=lambda item: item.place)
        answerable = sum(item.may for item in found)
        shown = [
            item
            for item in found
            if mine in (None, item.may) and (after is None or item.place > after)
        ]
        following = shown[PAGE - 1].place if len(shown) > PAGE else None
        others = len(found) - answerable
        return Inbox(shown[:PAGE], answerable, others, following, complete)

    async def _items(
        self, seen: Sequence[Parked], principal: Principal
    ) -> tuple[list[Item], bool]:
        """Return the questions of executions, and whether these are all of them. Some
        of the logs that have grown are read, the others by the next call."""
        items: list[Item] = []
        logs, left = MAX_FOLDED, MAX_BYTES
        for each in seen:
            name = each.summary.execution_id
            known = self._questions.known(name, each.last_seq)
            if known is None:
                if not logs:
                    return items, False
                logs -= 1
                known = await self._questions.read(name)
            left -= known.size
            if left < 0:
                return items, False
            items += [
                Item(each.summary, asked, may_answer(principal, each.summary, asked))
                for asked in known.questions
            ]
        return items, True


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
