"""Progress as lines: what a file or a pipe gets to see."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.commands.output.progress import PlainProgress, Progress, choose_progress
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


@pytest.mark.spec("S-38")
def test_a_step_that_a_cancellation_stops_has_not_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = {"error": {"message": "stopped"}}
    failed = event("step.failed", payload=error)

    assert said(capsys, event("workflow.cancelled"), failed) == ["■ fetch: cancelled"]


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
def test_a_wait_without_information_is_not_narrated(
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


IGNORED = {
    "outcome": {"error": {"kind": "timeout", "message": "too slow"}},
    "directive": {"do": "continue"},
    "ignored": True,
}


@pytest.mark.spec("S-73")
def test_the_end_of_a_step_counts_its_ignored_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    passed_over = event("task.done", task_label="call", payload=IGNORED)

    lines = said(capsys, passed_over, passed_over, event("step.done"))

    assert lines == ["! fetch: done, 2 errors ignored: timeout: too slow"]


@pytest.mark.spec("S-08", "S-09")
@pytest.mark.parametrize(
    ("on", "handled", "lines"),
    [
        pytest.param("step.failed", True, [], id="a failure with an arc that asks"),
        pytest.param("step.done", False, [], id="a success"),
        pytest.param(
            "step.failed",
            False,
            ["! fetch: its failure is not handled, but an unguarded arc fired: b"],
            id="a failure without one",
        ),
    ],
)
def test_an_unguarded_arc_that_fires_after_a_failure_is_a_warning(
    capsys: pytest.CaptureFixture[str], on: str, handled: bool, lines: list[str]
) -> None:
    payload = {"on": on, "fired": [{"step": "b"}], "handled": handled}

    assert said(capsys, event("next.evaluated", payload=payload)) == lines


@pytest.mark.spec("S-73")
def test_a_loop_that_failed_in_part_names_kinds_and_first_iterations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    errors = [{"index": n, "kind": "timeout", "message": f"m{n}"} for n in range(4)]
    kinds = {"timeout": 4, "http.client": 1}
    payload = {"total": 9, "failed": 5, "errors": errors, "error_kinds": kinds}

    lines = said(capsys, event("loop.done", payload=payload), event("step.done"))

    counted = "4 \u00d7 timeout, 1 \u00d7 http.client"
    first = "[0] m0, [1] m1, [2] m2, …"
    assert lines == [
        f"! fetch: done, 5 of 9 iterations failed: {counted}: {first}",
    ]


@pytest.mark.spec("S-73")
def test_a_failed_loop_names_the_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    payload = {"error": {"message": "exit code 1", "iteration": 13}}

    lines = said(capsys, event("step.failed", payload=payload))

    assert lines == ["✗ fetch: failed: [13] exit code 1"]
