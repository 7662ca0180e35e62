"""Runs many seeds, adds up what happened, and makes failing seeds smaller."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .bugs import Bug
from .plan import AMBIENT, Options, make_plan
from .run import Result, run_seed

SOMETIMES = (
    "fence",
    "steal",
    "poison",
    "fallback poll",
    "commit unknown",
    "duplicate report",
    "quarantine",
    "wake-up lost",
    "crash after commit",
    "late commit refused",
    "begun fork",
    "begun retry",
    "upgrade",
    "refused snapshot",
)
"""What must have happened at least once in some hundred seeds: without it, the seeds
would prove less than they say."""
SEEDS_PER_COLLECTION = 25


@dataclass
class Tally:
    """The sums of a campaign."""

    seeds: int = 0
    seconds: float = 0.0
    events: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    failures: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.seconds += result.seconds
        self.events += result.events
        self.happened.update(result.happened)
        if result.violations:
            self.failures.append(result)

    @property
    def missing(self) -> list[str]:
        """Return what never happened, although it should sometimes."""
        return [what for what in SOMETIMES if not self.happened[what]]


def run_seeds(seeds: Iterable[int], bug: Bug | None = None, most: int = 1) -> Tally:
    """Run seeds until ``most`` of them have failed."""
    tally = Tally()
    for count, seed in enumerate(seeds):
        if count % SEEDS_PER_COLLECTION == 0:
            gc.collect()
        options = Options(seed)
        if bug is not None:
            options = replace(options, kinds=bug.kinds, paths=bug.paths)
        tally.add(run_seed(options, bug))
        if len(tally.failures) == most:
            break
    return tally


def find(bug: Bug, seeds: Iterable[int]) -> Result | None:
    """Return the first run in which a planted bug is noticed."""
    failures = run_seeds(seeds, bug).failures
    return failures[0] if failures else None


def minimize(failing: Result, bug: Bug | None = None) -> Result:
    """Leave out faults and work as long as the same invariant breaks."""
    invariant = failing.violations[0][0]

    def fails(options: Options) -> Result | None:
        result = run_seed(options, bug)
        same = any(name == invariant for name, _ in result.violations)
        return result if same else None

    best = failing
    for group in AMBIENT:
        options = best.options
        smaller = replace(options, without=options.without | {group})
        best = fails(smaller) or best
    for number in range(
        len(make_plan(replace(failing.options, skip=frozenset())).faults)
    ):
        options = best.options
        smaller = replace(options, skip=options.skip | {number})
        best = fails(smaller) or best
    for count in (1, 2, 3):
        found = fails(replace(best.options, executions=count))
        if found is not None:
            return found
    return best


def describe(result: Result) -> str:
    """Return what a failing run broke, and the command that repeats it."""
    lines = [f"{name}: {message}" for name, message in result.violations[:3]]
    lines.append(f"again: scripts/simulate.py {result.options.command()}")
    return "\n".join(lines)
