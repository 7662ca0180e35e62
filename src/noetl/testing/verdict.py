"""Verdict of a case: its schedules pass if all of its expectations hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from noetl.dsl.node import Location
from noetl.dsl.secret_patterns import mask
from noetl.dsl.times import parse_duration
from noetl.engine.events import Event
from noetl.engine.simulate import Diverged
from noetl.testing.check_names import TaskName, find_task
from noetl.testing.child_executions import Endless
from noetl.testing.describe_events import Narrator
from noetl.testing.diff import Difference, compare, show
from noetl.testing.matchers import is_matcher
from noetl.testing.model import Case
from noetl.testing.run_case import Attempt, Observation, Trial
from noetl.testing.script import ScriptError
from noetl.types import JSON

SHOWN = 8

_VERDICTS = frozenset({"task.done", "next.evaluated", "step.failed", "step.skipped"})
_FLOW = frozenset({"next.evaluated", "step.skipped", "step.failed"})
_ENDS = frozenset({"step.failed", "loop.iteration.failed", "workflow.cancelled"})
_WAITS = frozenset({"task.suspended", "message.received", "workflow.cancelled"})
_LOOPS = frozenset({"loop.iteration.failed", "loop.done", "step.failed"})
_EXACT = 0.0005  # seconds: virtual time is a sum of floats


class Mismatch(msgspec.Struct, frozen=True):
    """Expectation that did not hold. ``task`` or ``step`` is its subject."""

    expectation: str
    difference: Difference
    step: str | None = None
    task: TaskName | None = None


Judge = Callable[[Location, Observation], Iterator[Mismatch]]


def judge(case: Case, seen: Observation) -> Iterator[Mismatch]:
    """Return every mismatch between the case and the run."""
    expect = case.expect
    implied = "status" not in expect and _expects_success(expect)
    if implied and seen.status != "completed":
        found = seen.status + _because(seen)
        different = Difference(case.at, "status", "completed", found)
        yield Mismatch("status", different)
    for name, at in expect.items():
        yield from _JUDGES[name](at, seen)


def _expects_success(expect: Mapping[str, Location]) -> bool:
    return "error" not in expect or expect["error"].node.value is None


def _because(seen: Observation) -> str:
    error = seen.state.error
    if error is None:
        return ""
    where = f" in step '{error['step']}'" if error.get("step") else ""
    return f" ({error['kind']}{where}: {error['message']})"


def _plain(name: str, value: Callable[[Observation], JSON]) -> Judge:
    def judge_value(at: Location, seen: Observation) -> Iterator[Mismatch]:
        for different in compare(at, value(seen), name):
            yield Mismatch(name, different)

    return judge_value


def _status(at: Location, seen: Observation) -> Iterator[Mismatch]:
    expected = at.node.value
    if seen.status != expected:
        found = seen.status + _because(seen)
        yield Mismatch("status", Difference(at, "status", expected, found))


def _error(at: Location, seen: Observation) -> Iterator[Mismatch]:
    error, expected = seen.state.error, at.node.value
    if expected is None or error is None:
        if expected is not error:
            wanted = "none" if expected is None else show(at.node.plain())
            found = "none" if error is None else _because(seen).strip(" ()")
            yield Mismatch("error", Difference(at, "error", wanted, found))
        return
    if isinstance(expected, str):
        for different in compare(at, error["kind"], "error.kind"):
            yield Mismatch("error", different)
        return
    for key in at.child_keys():
        place, path = at[key], f"error.{key}"
        value = error.get(key)
        if key != "message" or not isinstance(place.node.value, str):
            for different in compare(place, value, path):
                yield Mismatch("error", different)
        elif place.node.value not in str(value):
            wanted = f"a text with {show(place.node.value)}"
            yield Mismatch("error", Difference(place, path, wanted, show(value)))


def _calls(at: Location, seen: Observation) -> Iterator[Mismatch]:
    for name in at.child_keys():
        task = find_task(seen.playbook, name)
        if task is None:
            continue
        for different in _calls_of(at[name], seen.inputs(task), f"calls.{name}"):
            yield Mismatch("calls", different, task=task)


def _calls_of(
    at: Location, inputs: list[dict[str, JSON]], path: str
) -> Iterator[Difference]:
    if not at.node.is_mapping or is_matcher(at):
        yield from compare(at, len(inputs), path)
        return
    if "count" in at:
        yield from compare(at["count"], len(inputs), f"{path}.count")
    if "inputs" in at:
        yield from compare(at["inputs"], inputs, f"{path}.inputs")
    for each in at["nth"].children() if "nth" in at else ():
        number = each["call"].node.value
        here = f"{path}.inputs of call {number}"
        if number > len(inputs):
            made = f"{len(inputs)} calls"
            yield Difference(each["call"], here, "a call", made)
        else:
            yield from compare(each["inputs"], inputs[number - 1], here)


def _iterations(at: Location, seen: Observation) -> Iterator[Mismatch]:
    for step in at.child_keys():
        counts = seen.iterations(step)
        for key in at[step].child_keys():
            path = f"iterations.{step}.{key}"
            for different in compare(at[step][key], counts[key], path):
                yield Mismatch("iterations", different, step=step)


def _events(at: Location, seen: Observation) -> Iterator[Mismatch]:
    """Yield mismatches of a subsequence: each event is searched after the one
    before."""
    rest = iter(seen.log)
    after = "the start"
    for index, place in enumerate(at.children()):
        if not any(_is_event(place, event) for event in rest):
            wanted = show(place.node.plain())
            found = f"none after {after}"
            yield Mismatch(
                "events", Difference(place, f"events[{index}]", wanted, found)
            )
            return
        after = show(place.node.plain())


def _is_event(at: Location, event: Event) -> bool:
    if not at.node.is_mapping:
        return bool(at.node.value == event.name)
    values: dict[str, JSON] = {
        "name": event.name,
        "step": event.step,
        "task": event.task_label,
        "attempt": event.attempt,
        "status": event.status,
        "payload": event.payload,
    }
    return not any(
        difference
        for key in at.child_keys()
        for difference in compare(at[key], values[key], "")
    )


def _duration(at: Location, seen: Observation) -> Iterator[Mismatch]:
    found = f"{seen.seconds:g} s"
    for key in at.child_keys() if at.node.is_mapping else ("",):
        place = at[key] if key else at
        wanted = parse_duration(place.node.value)
        good = {
            "": abs(seen.seconds - wanted) <= _EXACT,
            "$at_least": seen.seconds >= wanted - _EXACT,
            "$at_most": seen.seconds <= wanted + _EXACT,
        }[key]
        if not good:
            expected = f"{key} {wanted:g} s".lstrip()
            different = Difference(place, "duration", expected, found)
            yield Mismatch("duration", different)


def _never(at: Location, seen: Observation) -> Iterator[Mismatch]:
    for place in at.children():
        name = place.node.value
        if name in seen.playbook.steps:
            count = seen.path.count(name)
            if count:
                found = f"{count} run{'s' if count > 1 else ''} of step '{name}'"
                different = Difference(place, f"never {name}", "none", found)
                yield Mismatch("never", different, step=name)
            continue
        task = find_task(seen.playbook, name)
        if task in seen.begun:
            count = len(seen.inputs(task))
            found = f"{count} call{'s' if count != 1 else ''} of {name}"
            different = Difference(place, f"never {name}", "none", found)
            yield Mismatch("never", different, task=task)


_JUDGES: dict[str, Judge] = {
    "status": _status,
    "error": _error,
    "result": _plain("result", lambda seen: seen.result),
    "ctx": _plain("ctx", lambda seen: seen.ctx),
    "path": _plain("path", lambda seen: seen.path),
    "calls": _calls,
    "iterations": _iterations,
    "events": _events,
    "duration": _duration,
    "never": _never,
}


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
