"""Progress as lines: what a file or a pipe gets to see."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.commands.progress import PlainProgress, Progress, choose_progress
from noetl.engine.events import Event


def event(name: str, **fields: Any) -> Event:
    return Event(
        event_id="e",
        execution_id="x",
        seq=1,
        timestamp="2026-11-15T12:00:00.000000Z",
        source="server",
        name=name,
        entity_type="step",
        parent_id=None,
        entity_id="x",
        status="in_progress",
        step="fetch",
        step_run_id="x-1",
        **fields,
    )


def said(capsys: pytest.CaptureFixture[str], *events: Event) -> list[str]:
    PlainProgress().take(events)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


@pytest.mark.parametrize(
    ("name", "fields", "line"),
    [
        pytest.param("step.done", {}, "✓ fetch: done", id="an end"),
        pytest.param(
            "step.failed",
            {"payload": {"error": {"message": "a\nb\x1b[2J"}}},
            "✗ fetch: failed: a b\ufffd[2J",
            id="a message cannot harm the terminal",
        ),
        pytest.param(
            "task.done",
            {
                "task_label": "call",
                "attempt": 2,
                "payload": {
                    "outcome": {"error": {"message": "503"}},
                    "directive": {"do": "retry", "delay": 1.5},
                },
            },
            "… fetch: call: attempt 2: 503; again in 1.5 s",
            id="a retry",
        ),
        pytest.param(
            "task.suspended",
            {
                "task_label": "ask",
                "payload": {"on": "signal", "until": None, "signal": "approve"},
            },
            "◷ fetch: ask waits for signal 'approve'",
            id="a wait",
        ),
    ],
)
def test_a_line_for_what_matters(
    capsys: pytest.CaptureFixture[str], name: str, fields: dict[str, Any], line: str
) -> None:
    assert said(capsys, event(name, **fields)) == [line]


@pytest.mark.parametrize(
    ("payload", "iteration_id"),
    [
        pytest.param({"on": "delay", "until": None}, None, id="a retry has said so"),
        pytest.param({"on": "timer", "until": None}, "x-1/7", id="one of many"),
    ],
)
def test_a_wait_that_adds_nothing_is_not_told(
    capsys: pytest.CaptureFixture[str], payload: Any, iteration_id: str | None
) -> None:
    wait = event("task.suspended", payload=payload, iteration_id=iteration_id)
    assert said(capsys, wait) == []


def test_a_loop_speaks_at_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    started = event("loop.started", payload={"total": 40})
    ends = [event("loop.iteration.done", iteration_id=f"x-1/{n}") for n in range(40)]

    lines = said(capsys, started, *ends, event("step.done"))

    assert lines[:3] == [
        "↻ fetch: 40 iterations",
        "↻ fetch: 4 of 40",
        "↻ fetch: 8 of 40",
    ]
    assert len(lines) == 12


@pytest.mark.parametrize(
    ("quiet", "as_json", "kind"),
    [
        (False, False, PlainProgress),
        (True, False, Progress),
        (False, True, Progress),
    ],
)
def test_without_a_terminal_there_are_lines_or_nothing(
    quiet: bool, as_json: bool, kind: type[Progress]
) -> None:
    assert type(choose_progress(quiet=quiet, as_json=as_json)) is kind
