"""Counters of steps and lines of runs are those of the report and of the engine."""

from __future__ import annotations

import random

import pytest
from comparison import Watched, load
from generator import generate
from reference import Reference, TooMuch
from tallies import check_counters, check_runs
from test_forks import forked, retried


@pytest.mark.parametrize("shard", range(4))
def test_counters_add_up_at_every_prefix(shard: int) -> None:
    """Of runs to the end, of forks, of retries, and of a cancellation on the way."""
    for number in range(shard, 60, 4):
        seed = f"counters.{number}"
        case, dice = generate(seed), random.Random(seed)
        try:
            Reference(case.doc, case.meaning, case.answer).run()
        except TooMuch:
            continue
        execution = Watched(case, load(case), None if case.ordered else seed)
        execution.run()
        at = dice.randrange(3, len(execution.log) - 1)
        for each in (
            execution,
            forked(case, execution, at, seed),
            retried(case, execution, dice, "retry"),
            cancelled(seed, dice.randrange(1, 20)),
        ):
            check_counters(each.log)
            check_runs(each.log, dice.randrange(3, 40))


def cancelled(seed: str, moves: int) -> Watched:
    case = generate(seed)
    execution = Watched(case, load(case), None if case.ordered else seed)
    execution.start()
    for _ in range(moves):
        if not execution.step():
            break
    if not execution.state.finished:
        execution.cancel()
    while execution.step():
        pass
    return execution
