"""Evaluation of a case's expectations on the result of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from noetl.dsl.node import Location
from noetl.dsl.times import parse_duration
from noetl.engine.events import Event
from noetl.testing.check_names import TaskName, find_task
from noetl.testing.diff import Difference, compare, show
from noetl.testing.matchers import is_matcher
from noetl.testing.model import Case
from noetl.testing.run_case import Observation
from noetl.types import JSON

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
