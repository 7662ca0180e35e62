"""A fork without edits comes to the end that its origin came to, wherever it begins."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from copy import copy
from typing import Any

import pytest
from campaign import within
from checkers import check_all
from comparison import Watched, compare, encode, load, trace_of
from generator import Case, generate
from reference import Reference, TooMuch
from test_engine_vs_reference import CASE, SHARDS, SHARE, cases, repeat_hint

from noetl.engine.events import Event
from noetl.engine.evolve import evolve, replay
from noetl.engine.forks import Renaming
from noetl.engine.invariants import audit
from noetl.engine.state import State
from noetl.engine.undone import Undone
from noetl.net.net import build_net
from noetl.runtime.forks.points import unwind

FORKS = 4
"""Of each playbook."""


@pytest.mark.spec("REP-01", "REP-02", "REP-03", "REP-05")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_fork_comes_to_the_same_end(shard: int) -> None:
    for seed in within(SHARE / 4, cases(shard)[:: 1 if CASE else 5], least=8):
        case = generate(seed)
        try:
            expected = Reference(case.doc, case.meaning, case.answer).run()
        except TooMuch:
            continue
        dice = random.Random(f"fork {seed}")
        try:
            origin = Watched(case, load(case), None if case.ordered else seed)
            origin.run()
            last = next(e.seq for e in origin.log if e.name == "workflow.finished")
            for number in range(FORKS):
                at = dice.randrange(3, last)
                fork = forked(case, origin, at, f"{seed}/{number}")
                compare(case, expected, trace_of(fork))
                assert fork.state.error == renamed_error(origin, fork, case)
            last = next(e.seq for e in fork.log if e.name == "workflow.finished")
            again = forked(case, fork, dice.randrange(3, last), seed, "fork of fork")
            compare(case, expected, trace_of(again))
        except Exception as error:
            error.add_note(repeat_hint(case))
            raise


def forked(
    case: Case, origin: Watched, at: int, seed: str, name: str = "fork"
) -> Watched:
    fork = Watched(case, origin.playbook, None if case.ordered else seed, name)
    rename = Renaming(origin.log[0].execution_id, name)
    # The origin has the results of tasks before the fork; the fork sees the later ones.
    done = {
        (e.task_run_id, e.attempt) for e in origin.log[:at] if e.name == "task.done"
    }
    fork.inputs = {
        (rename.name(task), attempt): given
        for (task, attempt), given in origin.inputs.items()
        if (task, attempt) in done
    }
    length = fork.fork(origin.log, at)
    while fork.step():
        pass
    assert fork.state.finished, f"a fork at {at} is stuck"
    assert fork.log[length].name == "workflow.forked"
    check_kept(origin, fork, length, at)
    check_all(fork.playbook, fork.log)
    check_fold(fork)
    return fork


def check_kept(origin: Watched, fork: Watched, kept: int, at: int) -> None:
    """No task that had ended is lost, and none of them is called again."""
    done = [e for e in origin.log[:at] if e.name == "task.done"]
    mine = [e for e in fork.log[:kept] if e.name == "task.done"]
    assert [e.payload for e in mine] == [e.payload for e in done]
    assert [e.action_id for e in mine] == [e.action_id for e in done]
    new = {e.action_id for e in fork.log[kept:] if e.name == "task.done"}
    assert not new & {e.action_id for e in origin.log}


def check_fold(fork: Watched) -> None:
    """I-07: from the log alone, and from a snapshot anywhere."""
    assert encode(replay(fork.log)) == encode(fork.state)
    state = State()
    for event in fork.log:
        evolve(state, event)
    assert encode(state) == encode(fork.state)


def renamed_error(origin: Watched, fork: Watched, case: Case) -> object:
    """Where nothing runs beside anything else it is the same error, too."""
    if not case.ordered or origin.state.error is None:
        return fork.state.error
    return Renaming("sim", "fork")._error(origin.state.error)


class KeptLog:
    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        return self._events[after : None if limit is None else after + limit]


@pytest.mark.spec("S-76")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_retry_of_any_step_comes_to_the_same_end(shard: int) -> None:
    """What did not follow from the step is kept, and is done once."""
    for seed in within(SHARE / 4, cases(shard)[:: 1 if CASE else 5], least=8):
        case = generate(seed)
        try:
            expected = Reference(case.doc, case.meaning, case.answer).run()
        except TooMuch:
            continue
        dice = random.Random(f"retry {seed}")
        try:
            latest = Watched(case, load(case), None if case.ordered else seed)
            latest.run()
            for number in range(FORKS):
                latest = retried(case, latest, dice, f"retry{number}")
                compare(case, expected, trace_of(counted(latest)))
        except Exception as error:
            error.add_note(repeat_hint(case))
            raise


def retried(case: Case, origin: Watched, dice: random.Random, name: str) -> Watched:
    gates = ("step.scheduled", "step.skipped")
    target = dice.choice([e for e in counted(origin).log if e.name in gates])
    log: Any = KeptLog(origin.log)
    at = next(e.seq for e in origin.log if e.name == "workflow.finished") - 1
    net = build_net(origin.playbook)
    was, runs = origin.log[0].execution_id, [target.entity_id]
    undone = asyncio.run(unwind(log, was, at, runs, net, keep=False))
    fork = Watched(case, origin.playbook, None if case.ordered else name, name)
    rename = Renaming(was, name)
    fork.inputs = {(rename.name(k), n): v for (k, n), v in origin.inputs.items()}
    fork.fork(origin.log, at, undone=undone)
    while fork.step():
        pass
    assert fork.state.finished, f"a retry from {target.entity_id} is stuck"
    assert audit(fork.log) == []
    check_fold(fork)
    return fork


def counted(execution: Watched) -> Watched:
    """The execution without events that do not count."""
    undone = Undone.of(execution.log[0])
    clean = copy(execution)
    clean.log = [e for e in execution.log if undone is None or not undone.covers(e)]
    return clean
