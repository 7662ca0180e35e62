"""A case under all of its schedules: it passes if every one of them does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from noetl.dsl.place import Place
from noetl.dsl.secrets import mask
from noetl.engine.simulate import Diverged
from noetl.testing.expectations import Mismatch, judge
from noetl.testing.explanation import explain
from noetl.testing.family import Endless
from noetl.testing.model import Case
from noetl.testing.observation import Observation
from noetl.testing.script import ScriptError
from noetl.testing.trial import Attempt, Trial

Watch = Callable[[Observation], None]


class Fault(msgspec.Struct, frozen=True):
    """Something that is not as expected, where the test says so, and why."""

    expectation: str
    at: Place
    message: str
    log: list[str]
    path: str = ""
    expected: str | None = None
    found: str | None = None
    hint: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    """``seed`` is the schedule that failed; ``runs`` is how many were tried."""

    case: Case
    runs: int
    faults: list[Fault]
    seed: int | None = None

    @property
    def passed(self) -> bool:
        return not self.faults


def judge_case(
    trial: Trial, seeds: Iterable[int], watch: Watch = lambda seen: None
) -> Verdict:
    """Run it until a schedule fails, or there is no other that could differ."""
    runs = 0
    for seed in seeds:
        runs += 1
        attempt = Attempt(trial, seed)
        faults = _judge(trial, attempt, watch)
        if faults:
            return Verdict(trial.case, runs, faults, seed)
        if not attempt.free:
            break
    return Verdict(trial.case, runs, [])


def _judge(trial: Trial, attempt: Attempt, watch: Watch) -> list[Fault]:
    try:
        seen = attempt.run()
    except ScriptError as error:
        at, message = error.at or trial.case.at, mask(str(error))
        log = explain(attempt.observe(), None)
        return [Fault("tasks", at, message, log, hint=error.hint)]
    except Endless as error:
        message = f"after {error} it came to no end"
        hint = "look for a jump or a cycle of arcs that nothing ends"
        log = explain(attempt.observe(), None)
        return [Fault("end", trial.case.at, message, log, hint=hint)]
    except Diverged as error:
        log = explain(attempt.observe(), None)
        return [Fault("replay", trial.case.at, str(error), log)]
    watch(seen)
    return [_fault(seen, each) for each in judge(trial.case, seen)]


def _fault(seen: Observation, why: Mismatch) -> Fault:
    """Values may hold secrets, and what is said here goes into files of others."""
    different = why.difference
    return Fault(
        why.expectation,
        different.at,
        mask(different.message),
        explain(seen, why),
        mask(different.path),
        mask(different.expected),
        mask(different.found),
    )
