"""What payloads of a worker's facts must look like before anything is made of them."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import msgspec

from noetl.dsl.model import Action
from noetl.engine.reports import Fact
from noetl.engine.times import seconds_of
from noetl.types import JSON

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Malformed(ValueError):
    """Says what does not fit, and where."""


class _Error(msgspec.Struct):
    kind: str
    message: str


class _Outcome(msgspec.Struct):
    """With a ``result`` always, and of an error why."""

    status: Literal["ok", "error"]
    result: JSON
    error: _Error | None = None


class _Directive(msgspec.Struct):
    do: Action
    next: str | None = None
    delay: Seconds = 0.0


class _Done(msgspec.Struct):
    outcome: _Outcome
    directive: _Directive
    set_iter: dict[str, JSON] | None = None
    set_ctx: dict[str, JSON] | None = None
    error: _Error | None = None
    spilled: list[str] | None = None


class _Child(msgspec.Struct):
    execution_id: str
    path: str
    version: str | None
    args: JSON
    iter: JSON


class _Timer(msgspec.Struct):
    id: str
    at: str | None = None
    seconds: Seconds | None = None


class _Suspended(msgspec.Struct):
    on: Literal["delay", "timer", "signal", "playbook", "event"]
    until: str | None = None
    seconds: Seconds | None = None
    at: str | None = None
    zone: str | None = None
    signal: str | None = None
    roles: list[str] | None = None
    child: _Child | None = None
    timers: list[_Timer] | None = None
    spilled: list[str] | None = None


def check_shape(fact: Fact) -> None:
    """Raises ``Malformed``."""
    try:
        if fact.name == "task.done":
            _check_done(msgspec.convert(fact.payload, _Done))
        elif fact.name == "task.suspended":
            _check_suspended(msgspec.convert(fact.payload, _Suspended))
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None


def _check_done(done: _Done) -> None:
    if done.outcome.status == "error" and done.outcome.error is None:
        raise Malformed("an outcome with the status error says why in `error`")
    if done.directive.do == "fail" and done.error is None:
        raise Malformed("a pipeline that fails says why in `error`")
    if not math.isfinite(done.directive.delay):
        raise Malformed("`delay` is no number of seconds")


def _check_suspended(asked: _Suspended) -> None:
    if asked.on == "signal" and asked.signal is None:
        raise Malformed("who waits for a signal names it in `signal`")
    if asked.on == "playbook" and asked.child is None:
        raise Malformed("who waits for a playbook names it in `child`")
    if (asked.at is None) is not (asked.zone is None):
        raise Malformed("a time of day has a `zone`, and a zone a time of day in `at`")
    if (asked.on == "event") is not (asked.timers is not None):
        raise Malformed("who waits for events, and nobody else, has `timers`")
    moments = [("until", asked.until)]
    for timer in asked.timers or ():
        if (timer.at is None) is (timer.seconds is None):
            raise Malformed("a timer has one of `at` and `seconds`")
        moments.append(("at", timer.at))
    for name, moment in moments:
        try:
            if moment is not None:
                seconds_of(moment)
        except (ValueError, OverflowError):
            raise Malformed(f"`{name}` is no moment") from None
