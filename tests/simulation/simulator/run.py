"""Runs one seed, and says what was wrong."""

from __future__ import annotations

import gc
import logging
import random
from dataclasses import dataclass

from noetl.runtime.executions import cache, transition

from . import answers, checks, outcomes
from .bugs import Bug
from .clients import OVER
from .patching import Patch
from .plan import Options
from .world import World

LOGGER = logging.getLogger("noetl")
SILENT = logging.CRITICAL + 1
_OVER = frozenset(OVER)


@dataclass
class Result:
    """What a run has shown."""

    options: Options
    violations: list[tuple[str, str]]
    happened: dict[str, int]
    trace: str
    seconds: float
    events: int


def run_seed(options: Options, bug: Bug | None = None) -> Result:
    """Run a seed to its end, or to its first violation; perhaps with a bug."""
    level = LOGGER.level
    LOGGER.setLevel(SILENT)  # faults are no news here
    try:
        with Patch() as patch:
            every, short = 12, 20
            if options.has_more:  # states are restored at other positions
                draw = random.Random(f"{options.seed}:sizes")
                every, short = draw.choice((1, 3, 7, 12, 40)), draw.choice((2, 8, 20))
            patch.set(transition, "SNAPSHOT_EVERY", every)
            patch.set(cache, "SHORT_LOG", short)
            if bug is not None:
                bug.plant(patch)
            return _run(options)
    finally:
        LOGGER.setLevel(level)


def _run(options: Options) -> Result:
    was_enabled = gc.isenabled()
    gc.disable()
    world = World(options)
    found: list[tuple[str, str]] = []

    def note(invariant: str, message: str) -> None:
        found.append((invariant, message))

    log = checks.LogCheck(world, note)
    checkers: list[checks.Checker] = [
        log,
        checks.ReplayCheck(world, note, log),
        leases := checks.LeaseCheck(world, note),
        outcomes.ResultCheck(world, note, log),
        outcomes.ViewCheck(world, note),
        outcomes.CallLimitCheck(world, note, leases),
        checks.CapacityCheck(world, note),
        answers.ReportCheck(world, note),
        answers.StartCheck(world, note, log),
        answers.EffectCheck(world, note),
        checks.EndCheck(world, note, log),
    ]
    world.database.observers += checkers
    executions = world.database.memory._executions

    def is_over() -> bool:
        if found:
            return True
        if world.client.open_jobs or not executions:
            return False
        # A list: this is asked after every callback.
        return _OVER.issuperset([each.status for each in executions.values()])

    try:
        world.run(is_over)
        if not found:
            for each in checkers:
                each.end()
        found += [("defect", each) for each in world.network.defects]
        found += [("complaint", each) for each in world.loop.complaints]
        events = sum(map(len, log.logs.values()))
        return Result(
            options,
            found,
            world.happened,
            world.loop.trace(),
            world.loop.time(),
            events,
        )
    finally:
        world.close()
        if was_enabled:
            gc.enable()
