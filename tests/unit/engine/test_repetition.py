"""A report that is sent again, and what the server made of it the first time."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.engine.reports.accept import Fact
from noetl.engine.reports.checks import judge
from noetl.engine.values.references import PAYLOAD_LIMIT
from noetl.engine.values.spilling import fit

OK = {"status": "ok", "result": 1}
GOES_ON = {"do": "continue", "next": None}
DONE = {"outcome": OK, "directive": GOES_ON}


def event(name: str, payload: dict[str, Any], *, attempt: int = 1) -> Event:
    return Event(
        event_id="x.1",
        execution_id="x",
        seq=1,
        timestamp="",
        source="worker",
        name=name,
        entity_type="task",
        parent_id=None,
        entity_id="x-1",
        status="success",
        task_label="a",
        attempt=attempt,
        payload=payload,
    )


def fact(name: str, payload: dict[str, Any] | None = None, *, attempt: int = 1) -> Fact:
    return Fact(name, "a", attempt, payload or {})


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        pytest.param(DONE, DONE, id="equal"),
        pytest.param(
            {
                **DONE,
                "directive": {"do": "fail"},
                "refused": {},
                "error": {"kind": "c"},
            },
            DONE,
            id="a conflict was made a failure",
        ),
        pytest.param(
            {**DONE, "set_ctx": {"a": {"b": 1, "c": 2}}},
            {**DONE, "set_ctx": {"a.b": 1}},
            id="a patch of a stored value was made whole",
        ),
    ],
)
def test_what_the_server_changed_is_still_the_same(stored, told):
    assert judge([fact("task.done", told)], [event("task.done", stored)]) == "same"


def test_a_value_that_the_server_put_elsewhere_is_still_the_same():
    large = {"outcome": {"status": "ok", "result": "x" * 2_000}, "directive": GOES_ON}
    stored, blobs = fit(large, 1_000)
    assert blobs
    assert len(str(large)) < PAYLOAD_LIMIT

    assert judge([fact("task.done", large)], [event("task.done", stored)]) == "same"
    large["outcome"]["result"] = "y" * 2_000
    assert judge([fact("task.done", large)], [event("task.done", stored)]) == "other"


def test_a_wait_whose_end_the_server_fixed_is_still_the_same():
    asked = {"on": "delay", "seconds": 5.0}
    stored = event("task.suspended", {"on": "delay", "until": "2026-11-15T08:00:05Z"})

    assert judge([fact("task.suspended", asked)], [stored]) == "same"
    signal = {"on": "signal", "signal": "go"}
    assert judge([fact("task.suspended", signal)], [stored]) == "other"


@pytest.mark.parametrize(
    "told",
    [
        {**DONE, "outcome": {"status": "ok", "result": 2}},
        {**DONE, "directive": {"do": "break", "next": None}},
        {**DONE, "set_ctx": {"x": 1}},
        {**DONE, "outcome": {"status": "ok", "result": [1]}},
    ],
)
def test_another_body_is_another_report(told):
    assert judge([fact("task.done", told)], [event("task.done", DONE)]) == "other"


def test_a_task_that_ran_twice_is_known_by_either_run():
    first = event("task.done", {**DONE, "set_ctx": {"x": 1}})
    second = event("task.done", DONE)

    assert judge([fact("task.done", DONE)], [first, second]) == "same"


def test_what_was_never_recorded_is_unknown():
    started = event("task.started", {"in_doubt": 1})
    told = [fact("task.started"), fact("task.done", DONE)]

    assert judge(told[:1], [started]) == "same"
    assert judge(told, [started]) == "unknown"
    assert judge([fact("task.started", attempt=2)], [started]) == "unknown"
