"""Runs one seed, and says what was wrong."""

from __future__ import annotations

import gc
import logging
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
            patch.set(transition, "SNAPSHOT_EVERY", 12)
            patch.set(cache, "SHORT_LOG", 20)
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
        return all(each.status in OVER for each in executions.values())

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
