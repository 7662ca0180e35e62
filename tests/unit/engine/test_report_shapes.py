"""Shapes of reports: a payload that cannot be recorded is named, with its member."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.reports.accept import Fact
from noetl.engine.reports.checks import Malformed, check_shapes, judge
from noetl.types import JSON

OK = {"status": "ok", "result": 1}
GOES_ON = {"do": "continue"}
ERROR = {"kind": "x", "message": "no"}
CHILD = {"execution_id": "c", "path": "p", "version": None, "args": {}, "iter": None}


def done(**changes: JSON) -> Fact:
    return Fact("task.done", "a", 1, {"outcome": OK, "directive": GOES_ON, **changes})


def suspended(on: str, **members: JSON) -> Fact:
    return Fact("task.suspended", "a", 1, {"on": on, **members})


SOUND = [
    Fact("step.started"),
    done(),
    done(outcome={"status": "error", "result": None, "error": ERROR}),
    suspended("signal", signal="go"),
    suspended("playbook", child=CHILD),
    suspended("timer", at="09:00", zone="UTC"),
    suspended("delay", until="2026-11-15T08:00:05Z"),
    suspended("event", timers=[{"id": "a", "seconds": 1}]),
    suspended("event", timers=[{"id": "b", "at": "1970-01-01T00:00:01Z"}]),
]  # fmt: skip


def test_shapes_of_a_worker_of_noetl_are_sound() -> None:
    check_shapes(SOUND)


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (
            done(outcome={"status": "error", "result": None}),
            "status error needs `error",
        ),
        (done(directive={"do": "fail"}), "a pipeline that fails needs `error`"),
        (
            done(directive={"do": "retry", "delay": float("inf")}),
            "`delay` is not a num",
        ),
        (done(outcome=7), "Expected `object`, got `int` - at `$.outcome`"),
        (suspended("signal"), "a wait for a signal needs its name in `signal`"),
        (suspended("playbook"), "a wait for a playbook needs `child`"),
        (suspended("timer", at="09:00"), "`zone` and a time of day in `at` need each"),
        (suspended("event"), "`timers` are for waits for events, and only for those"),
        (suspended("delay", timers=[]), "`timers` are for waits for events"),
        (suspended("delay", until="soon"), "`until` is not a time"),
        (suspended("event", timers=[{"id": "a"}]), "needs one of `at` and `seconds`"),
        (suspended("event", timers=[{"id": "a", "at": "x"}]), "`at` is not a time"),
    ],
)
def test_a_shape_that_cannot_be_recorded_is_named(fact: Fact, words: str) -> None:
    with pytest.raises(Malformed) as error:
        check_shapes([Fact("step.started"), fact])

    assert str(error.value).startswith(f"the payload of {fact.name} is not valid: ")
    assert words in str(error.value)


def test_a_list_of_another_length_is_another_report() -> None:
    class Recorded:
        name, task_label, attempt = "task.done", "a", 1
        payload: Any = done(outcome={"status": "ok", "result": [1, 2]}).payload

    event: Any = Recorded()
    same, longer = ([1, 2], "same"), ([1, 2, 3], "other")
    for result, verdict in (same, longer, ([1, {"a": 1}], "other")):
        told = done(outcome={"status": "ok", "result": result})
        assert judge([told], [event]) == verdict
