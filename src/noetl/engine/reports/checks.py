"""Checks of a report before it is recorded: its shapes, and whether it is repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from noetl.dsl.labels import Labels
from noetl.dsl.model import Action
from noetl.engine.events import Event
from noetl.engine.reports.accept import Fact
from noetl.engine.tasks.scope import NAME_CHARS
from noetl.engine.times import seconds_of
from noetl.engine.values.references import is_reference, is_same
from noetl.templates.limits import MISSING
from noetl.types import JSON

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Malformed(ValueError):
    """Error of a payload that does not fit; the message names the member."""


class _Error(msgspec.Struct):
    kind: str
    message: str


class _Outcome(msgspec.Struct):
    """An outcome: it has a ``result``, and an ``error`` if it failed."""

    status: Literal["ok", "error"]
    result: JSON
    error: _Error | None = None


class _Directive(msgspec.Struct):
    do: Action
    next: str | None = None
    delay: Seconds = 0.0


_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS + len("…"))]
_MOST = msgspec.Meta(max_length=MISSING)


class _Done(msgspec.Struct):
    outcome: _Outcome
    directive: _Directive
    set_iter: dict[str, JSON] | None = None
    set_ctx: dict[str, JSON] | None = None
    error: _Error | None = None
    ignored: bool = False
    undefined: Annotated[list[_Name], _MOST] | None = None
    nearest: Annotated[dict[_Name, _Name], _MOST] | None = None
    spilled: list[str] | None = None


class _Child(msgspec.Struct):
    execution_id: str
    path: str
    version: str | None
    args: JSON
    iter: JSON
    labels: Labels = {}


class _Timer(msgspec.Struct):
    id: str
    at: str | None = None
    seconds: Seconds | None = None


class _Suspended(msgspec.Struct):
    on: Literal["delay", "limit", "timer", "signal", "playbook", "event"]
    until: str | None = None
    seconds: Seconds | None = None
    at: str | None = None
    zone: str | None = None
    signal: str | None = None
    roles: list[str] | None = None
    child: _Child | None = None
    timers: list[_Timer] | None = None
    spilled: list[str] | None = None


def check_shapes(facts: Iterable[Fact]) -> None:
    """Check the payloads of facts. Raises ``Malformed``, which names the first one."""
    for fact in facts:
        try:
            if fact.name == "task.done":
                _check_done(msgspec.convert(fact.payload, _Done))
            elif fact.name == "task.suspended":
                _check_suspended(msgspec.convert(fact.payload, _Suspended))
        except (Malformed, msgspec.ValidationError) as error:
            message = f"the payload of {fact.name} is not valid: {error}"
            raise Malformed(message) from None


def _check_done(done: _Done) -> None:
    if done.outcome.status == "error" and done.outcome.error is None:
        raise Malformed("an outcome with the status error needs `error`")
    if done.directive.do == "fail" and done.error is None:
        raise Malformed("a pipeline that fails needs `error`")
    if not math.isfinite(done.directive.delay):
        raise Malformed("`delay` is not a number of seconds")


def _check_suspended(asked: _Suspended) -> None:
    if asked.on == "signal" and asked.signal is None:
        raise Malformed("a wait for a signal needs its name in `signal`")
    if asked.on == "playbook" and asked.child is None:
        raise Malformed("a wait for a playbook needs `child`")
    if (asked.at is None) is not (asked.zone is None):
        raise Malformed("`zone` and a time of day in `at` need each other")
    if (asked.on == "event") is not (asked.timers is not None):
        raise Malformed("`timers` are for waits for events, and only for those")
    moments = [("until", asked.until)]
    for timer in asked.timers or ():
        if (timer.at is None) is (timer.seconds is None):
            raise Malformed("a timer needs one of `at` and `seconds`")
        moments.append(("at", timer.at))
    for name, moment in moments:
        try:
            if moment is not None:
                seconds_of(moment)
        except (ValueError, OverflowError):
            raise Malformed(f"`{name}` is not a time") from None


# -- repeated reports -------------------------------------------------------------


Verdict = Literal["same", "other", "unknown"]

_FIXED = {"seconds", "until", "timers"}
"""Members that the server converts to times by its own clock."""
_PATCHES = {"set_ctx", "set_iter"}


def judge(facts: Sequence[Fact], events: Sequence[Event]) -> Verdict:
    """Compare the facts with the ``events`` of the pipeline: ``same`` if all are
    recorded, ``other`` if one is recorded differently."""
    verdict: Verdict = "same"
    for fact in facts:
        about = [event for event in events if _is_about(event, fact)]
        if any(_matches(event, fact) for event in about):
            continue
        if about:
            return "other"
        verdict = "unknown"
    return verdict


def _is_about(event: Event, fact: Fact) -> bool:
    """Return whether the event records this fact; after a jump a task has several."""
    reported = (fact.name, fact.label, fact.attempt)
    return (event.name, event.task_label, event.attempt) == reported


def _matches(event: Event, fact: Fact) -> bool:
    if fact.name not in ("task.done", "task.suspended"):
        return True  # the server writes these payloads itself
    stored, reported = event.payload, fact.payload
    changed = {"spilled", "refused"}
    if fact.name == "task.suspended":
        changed |= _FIXED
    if "refused" in stored:  # the server turned it into a failure
        changed |= {"directive", "error"}
    patches = _PATCHES & reported.keys()
    changed |= {key for key in patches if _is_unfolded(stored, reported, key)}
    members = (stored.keys() | reported.keys()) - changed
    return all(_agree(stored.get(key), reported.get(key)) for key in members)


def _is_unfolded(stored: dict[str, JSON], reported: dict[str, JSON], key: str) -> bool:
    """Return whether a dotted key leads into a value that is stored elsewhere."""
    names, sent = set(stored.get(key) or ()), set(reported[key] or ())
    return names != sent and _first(names) == _first(sent)


def _first(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def _agree(stored: JSON, reported: JSON) -> bool:
    """Compare two values, except those that the server has stored elsewhere."""
    if stored == reported:
        return True
    if is_reference(stored):
        return is_same(stored, reported)
    if isinstance(stored, dict) and isinstance(reported, dict):
        return stored.keys() == reported.keys() and all(
            _agree(stored[key], reported[key]) for key in reported
        )
    if isinstance(stored, list) and isinstance(reported, list):
        pairs = zip(stored, reported, strict=False)
        return len(stored) == len(reported) and all(_agree(*pair) for pair in pairs)
    return False
