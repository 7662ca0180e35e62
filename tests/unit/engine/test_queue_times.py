"""The time that a step waits until its first task begins, apart from its run time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.engine.execution_document import Document

pytestmark = pytest.mark.spec("S-79")

START = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def moment(at: float) -> str:
    return (START + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def of_run(name: str, at: float, payload: Any = None, **fields: Any) -> Event:
    return Event(
        event_id="e",
        execution_id="x",
        seq=1,
        timestamp=moment(at),
        source="server",
        name=name,
        entity_type="step",
        parent_id=None,
        entity_id="x-1",
        status="in_progress",
        step="fetch",
        step_run_id="x-1",
        payload=payload or {},
        **fields,
    )


def done(at: float, began: float) -> Event:
    meta = {"started_at": moment(began), "ts": moment(at)}
    outcome = {"status": "success", "meta": meta}
    return of_run("task.done", at, {"outcome": outcome, "directive": {}})


SCHEDULED = of_run("step.scheduled", 0, {"tokens": [], "args": {}})
ENDED = of_run("step.done", 9, {"result": 1})


@pytest.mark.parametrize(
    ("events", "queued"),
    [
        pytest.param([], None, id="nothing has begun"),
        pytest.param([of_run("task.started", 2)], 2000.0, id="recorded at its start"),
        pytest.param(
            [of_run("task.started", 8), done(8, began=3)], 3000.0, id="with its outcome"
        ),
        pytest.param(
            [of_run("task.started", 2), done(4, began=2.5), done(8, began=1)],
            2000.0,
            id="the first task alone",
        ),
        pytest.param([done(8, began=-1)], 0.0, id="the clock of a worker is behind"),
        pytest.param(
            [of_run("task.started", 2), of_run("workflow.forked", 5)],
            None,
            id="scheduled again by a fork",
        ),
    ],
)
def test_the_time_in_the_queue(events: list[Event], queued: float | None) -> None:
    document = Document()
    document.note([SCHEDULED, *events])

    assert document.as_json()["steps"][0]["queued_ms"] == queued


def test_it_is_part_of_the_duration() -> None:
    document = Document()
    document.note([SCHEDULED, of_run("task.started", 2), done(8, began=2), ENDED])
    [step] = document.as_json()["steps"]

    assert (step["duration_ms"], step["queued_ms"]) == (9000.0, 2000.0)
