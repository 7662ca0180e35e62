"""Verdict of a case: it passes if all of its schedules pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from noetl.dsl.node import Location
from noetl.dsl.secret_patterns import mask
from noetl.engine.events import Event
from noetl.engine.simulate import Diverged
from noetl.testing.child_executions import Endless
from noetl.testing.describe_events import Narrator
from noetl.testing.expectations import Mismatch, judge
from noetl.testing.model import Case
from noetl.testing.run_case import Attempt, Observation, Trial
from noetl.testing.script import ScriptError

SHOWN = 8

_VERDICTS = frozenset({"task.done", "next.evaluated", "step.failed", "step.skipped"})
_FLOW = frozenset({"next.evaluated", "step.skipped", "step.failed"})
_ENDS = frozenset({"step.failed", "loop.iteration.failed", "workflow.cancelled"})
_WAITS = frozenset({"task.suspended", "message.received", "workflow.cancelled"})
_LOOPS = frozenset({"loop.iteration.failed", "loop.done", "step.failed"})


def explain(seen: Observation, why: Mismatch | None) -> list[str]:
    """Return lines of the log; its last lines, if none concerns the mismatch."""
    log = [event for event in seen.log if why is None or _concerns(event, why)]
    log = log or [event for event in seen.log if event.name in _VERDICTS]
    if not log:
        return []
    narrator = Narrator(seen.playbook, seen.log[0].timestamp)
    left = len(log) - SHOWN
    lines = [mask(narrator.tell(event)) for event in log[-SHOWN:]]
    return [f"      … {left:,} more before", *lines] if left > 0 else lines


def _concerns(event: Event, why: Mismatch) -> bool:
    name = event.name
    done = name == "task.done"
    if why.task is not None:  # its calls, or the decisions that prevented them
        mine = (event.step, event.task_label) == why.task
        about = event.step == why.task[0] and name in _FLOW
        return ((done or name == "task.started") and mine) or about
    match why.expectation:
        case "status" | "error":
            return name in _ENDS or name in _FLOW or (done and _went_wrong(event))
        case "path" | "never":
            return name in _FLOW or name == "step.scheduled"
        case "ctx":
            return done and ("set_ctx" in event.payload)
        case "iterations":
            return event.step == why.step and (
                name in _LOOPS or (done and _went_wrong(event))
            )
        case "duration":
            return name in _WAITS or (
                done and event.payload["directive"]["do"] == "retry"
            )
        case "result":
            return done or name in _FLOW
        case _:
            return True


def _went_wrong(event: Event) -> bool:
    payload = event.payload
    failed = payload["outcome"]["status"] == "error"
    return failed or payload["directive"]["do"] in ("fail", "retry")


Watch = Callable[[Observation], None]


class Fault(msgspec.Struct, frozen=True):
    """Problem of a run, with the location of the expectation and the reason."""

    expectation: str
    at: Location
    message: str
    log: list[str]
    path: str = ""
    expected: str | None = None
    found: str | None = None
    hint: str | None = None


class Verdict(msgspec.Struct, frozen=True):
    """Verdict; ``seed`` is the schedule that failed, ``runs`` the number of runs."""

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
    """Run the case until a schedule fails, or no other schedule could differ."""
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
        message = f"after {error} the run did not finish"
        hint = "look for a jump or a cycle of arcs without an exit"
        log = explain(attempt.observe(), None)
        return [Fault("end", trial.case.at, message, log, hint=hint)]
    except Diverged as error:
        log = explain(attempt.observe(), None)
        return [Fault("replay", trial.case.at, str(error), log)]
    watch(seen)
    return [_fault(seen, each) for each in judge(trial.case, seen)]


def _fault(seen: Observation, why: Mismatch) -> Fault:
    """Build a fault; secrets are masked, because it is written to files."""
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
