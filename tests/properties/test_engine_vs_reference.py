"""Generated playbooks: the engine and a naive interpreter come to the same end.

A run has a share of time and a fresh seed; ``make nightly`` runs all ``PLAYBOOKS``.
``PLAYBOOK_SEED`` repeats a run, and ``PLAYBOOK_CASE`` one playbook of it; a failure
names the command.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from campaign import within
from checkers import check_all
from comparison import Watched, check_replay, compare, load, trace_of, verify
from generator import Case, generate
from reference import Reference, TooMuch
from seeds import seed_of

from noetl.engine.decide import pause, resume
from noetl.engine.steps.completion import cancel

SHARDS = 8
SHARE = 1.0
"""Seconds of each shard; the other two campaigns get a quarter of it."""
COUNT = int(os.environ.get("PLAYBOOKS", "5000"))
SEED = seed_of("PLAYBOOK_SEED")
CASE = os.environ.get("PLAYBOOK_CASE")

PRODUCTIONS = """
do continue, do retry, do jump, do break, do fail, do skip, else continue, else fail,
else break, else skip, else retry, router exclusive, router inclusive, back arc,
arc args, admit, join all, join any, join 2, loop sequential, loop parallel,
loop default, loop depth 1, loop depth 2, loop depth 3, best effort, set_ctx, set_iter
"""


def cases(shard: int) -> list[str]:
    if CASE:
        return [CASE] if shard == 0 else []
    return [f"{SEED}.{number}" for number in range(shard, COUNT, SHARDS)]


def repeat_hint(case: Case) -> str:
    command = f"PLAYBOOK_CASE={case.seed} .venv/bin/pytest tests/properties"
    return f"playbook {case.seed} ({case.flavour}); again: {command}"


@pytest.mark.spec("SRV-13", "NEXT-05", "REP-01", "REP-02", "REP-03", "REP-04")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_agrees_with_the_reference_under_every_schedule(shard: int) -> None:
    seen: Counter[str] = Counter()
    for seed in within(SHARE, cases(shard), least=50):
        seen["playbooks"] += 1
        case = generate(seed)
        try:
            expected, prefixes = verify(case)
        except TooMuch:
            seen["too long"] += 1
            continue
        except Exception as error:
            error.add_note(repeat_hint(case))
            raise
        seen["prefixes"] += prefixes
        seen.update(case.counts)
        seen[f"{case.flavour} {expected.status}"] += 1
    print(f"seed {SEED}, shard {shard}: {dict(seen)}")  # noqa: T201


def test_uses_every_production_often() -> None:
    seen: Counter[str] = Counter()
    for number in range(600):
        seen.update(generate(f"{SEED}.{number}").counts)
    words = [" ".join(word.split()) for word in PRODUCTIONS.split(",")]
    assert not [word for word in words if seen[word] < 12]


@pytest.mark.spec("S-39", "SRV-15")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_comes_to_the_same_end_when_it_was_paused(shard: int) -> None:
    for seed in within(SHARE / 4, cases(shard)[:: 1 if CASE else 5], least=10):
        case = generate(seed)
        try:
            expected = Reference(case.doc, case.meaning, case.answer).run()
        except TooMuch:
            continue
        try:
            simulation = Watched(case, load(case), seed)
            interrupt(simulation, random.Random(f"pause {seed}"))
            check_all(simulation.playbook, simulation.log)
            compare(case, expected, trace_of(simulation))
            check_replay(simulation)
        except Exception as error:
            error.add_note(repeat_hint(case))
            raise


def interrupt(simulation: Watched, dice: random.Random) -> None:
    """Pause at random; what runs then ends or not before it is resumed."""
    simulation.start()
    moving = True
    while moving:
        if dice.random() < 0.2:
            control(simulation, pause)
            starts = count_starts(simulation)
            for _ in range(dice.randint(0, 3)):
                simulation.step()
            assert count_starts(simulation) == starts, "started while paused"
            control(simulation, resume)
        moving = simulation.step()
    assert simulation.state.finished, "stuck after a pause"


def count_starts(simulation: Watched) -> int:
    names = ("step.scheduled", "loop.iteration.started")
    return sum(event.name in names for event in simulation.log)


def control(simulation: Watched, order: object) -> None:
    batch = simulation._batch()
    order(batch)  # type: ignore[operator]
    simulation.log += batch.events


@pytest.mark.spec("S-38")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_ends_when_it_is_cancelled_anywhere(shard: int) -> None:
    for seed in within(SHARE / 4, cases(shard)[:: 1 if CASE else 5], least=10):
        case, dice = generate(seed), random.Random(f"cancel {seed}")
        try:
            simulation = Watched(case, load(case), seed)
            simulation.start()
            for _ in range(dice.randint(0, 12)):
                simulation.step()
            if dice.random() < 0.3:
                control(simulation, pause)
            before = count_starts(simulation)
            over = simulation.state.finished
            control(simulation, cancel)
            assert simulation.state.finished, "cancelled, and still not over"
            assert count_starts(simulation) == before
            assert over or simulation.state.status == "cancelled"
            check_all(simulation.playbook, simulation.log)
            check_replay(simulation)
        except Exception as error:
            error.add_note(repeat_hint(case))
            raise
