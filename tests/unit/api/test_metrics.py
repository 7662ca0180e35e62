"""Metrics by pool and by playbook: bounded labels, and who gets which."""

from __future__ import annotations

import re

import msgspec
import pytest

from noetl.api.metrics import MAX_LABELS, Metrics
from noetl.engine.events import Event
from noetl.ports import Backlog
from noetl.ports.access import WorkerRecord
from noetl.service.telemetry import run_metrics
from noetl.service.telemetry.run_metrics import MAX_STEPS

START, END = "2026-11-18T12:00:00.000000Z", "2026-11-18T12:00:05.000000Z"


class State:
    started_at = START


class Loaded:
    state = State()

    def __init__(self, path: str | None) -> None:
        self.about = {"path": path}


def end(name: str, status: str = "completed") -> Event:
    return Event(
        event_id=f"{name}.9",
        execution_id=name,
        seq=9,
        timestamp=END,
        source="server",
        name="playbook.processed",
        entity_type="playbook",
        entity_id=name,
        parent_id=None,
        status="success",
        payload={"status": status},
    )


def metrics_of(*paths: str | None) -> Metrics:
    """Metrics after an execution of each path has completed."""
    metrics = Metrics()
    metrics._known = {str(n): Loaded(path) for n, path in enumerate(paths)}
    for number in range(len(paths)):
        metrics.note([end(str(number))])
    return metrics


def figures(metrics: Metrics, name: str) -> dict[str, float]:
    text = metrics.text().decode()
    return {
        labels: float(value)
        for labels, value in re.findall(
            rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE
        )
    }


def test_an_end_is_counted_and_timed_by_playbook() -> None:
    metrics = metrics_of("sales/nightly", "sales/nightly")

    ends = figures(metrics, "noetl_playbook_executions_finished_total")
    took = figures(metrics, "noetl_playbook_execution_seconds_sum")
    assert ends == {'path="sales/nightly",status="completed"': 2.0}
    assert took == {'path="sales/nightly"': 10.0}


def test_a_failure_does_not_count_as_a_success() -> None:
    metrics = metrics_of("sales/nightly")
    success = figures(metrics, "noetl_playbook_last_success_timestamp_seconds")

    metrics._known = {"x": Loaded("sales/other")}
    metrics.note([end("x", "failed")])

    assert list(success) == ['path="sales/nightly"']
    again = figures(metrics, "noetl_playbook_last_success_timestamp_seconds")
    assert again == success


def test_paths_and_pools_have_a_bounded_number_of_labels() -> None:
    paths = [f"p/{number}" for number in range(MAX_LABELS + 50)]
    metrics = metrics_of(*paths, None, "long/" + "x" * 500)
    pools = {f"pool{number}": Backlog(1, 0) for number in range(MAX_LABELS + 50)}
    metrics.note_backlog(
        {**pools, "busy": Backlog(9, 4)}, dict.fromkeys(pools, 10.0), [], 70.0
    )

    ends = figures(metrics, "noetl_playbook_executions_finished_total")
    queued = figures(metrics, "noetl_commands_ready")
    assert len(ends) == len(queued) == MAX_LABELS + 1
    assert queued == figures(metrics, "noetl_queued_commands")
    assert ends['path="other",status="completed"'] == 52.0
    assert queued['pool="busy"'] == 9.0
    assert queued['pool="other"'] == 51.0
    oldest = figures(metrics, "noetl_commands_oldest_ready_seconds")
    assert oldest['pool="other"'] == 60.0


def test_pools_show_their_queue_and_their_slots() -> None:
    metrics = Metrics()
    worker = WorkerRecord(
        worker="a/w", pool="gpu", slots=8, running=3, seen_at=1.0, address=""
    )
    oldest = {"gpu": 1_000.0}
    metrics.note_backlog({"gpu": Backlog(7, 3)}, oldest, [worker, worker], 1_042.5)
    assert figures(metrics, "noetl_commands_ready") == {'pool="gpu"': 7.0}
    waits = figures(metrics, "noetl_commands_oldest_ready_seconds")
    assert waits == {'pool="gpu"': 42.5}
    assert figures(metrics, "noetl_slots_in_use") == {'pool="gpu"': 3.0}
    assert figures(metrics, "noetl_worker_slots") == {'pool="gpu"': 16.0}

    metrics.note_backlog({}, {}, [], 1_043.0)
    assert figures(metrics, "noetl_commands_ready") == {}


def step(name: str, step: str, second: int, run: str = "0-1") -> Event:
    base = end("0")
    at = f"2026-11-18T12:00:{second:02d}.000000Z"
    return msgspec.structs.replace(
        base, name=name, step=step, step_run_id=run, entity_id=run, timestamp=at
    )


def test_a_step_run_is_counted_and_timed_by_path_and_step() -> None:
    metrics = Metrics()
    metrics._known = {"0": Loaded("sales/nightly")}

    metrics.note([step("step.scheduled", "load", 0), step("step.started", "load", 2)])
    metrics.note([step("step.failed", "load", 7)])
    metrics.note([step("step.done", "load", 9, run="begun elsewhere")])

    labels = 'path="sales/nightly",step="load"'
    assert figures(metrics, "noetl_step_runs_finished_total") == {
        'path="sales/nightly",status="failed",step="load"': 1.0,
        'path="sales/nightly",status="done",step="load"': 1.0,
    }
    assert figures(metrics, "noetl_step_run_seconds_sum") == {labels: 7.0}
    assert figures(metrics, "noetl_step_run_seconds_count") == {labels: 1.0}
    waits = figures(metrics, "noetl_step_start_delay_seconds_sum")
    assert waits == {'path="sales/nightly"': 2.0}


def test_steps_have_a_bounded_number_of_labels_and_of_open_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_metrics, "MAX_OPEN_RUNS", 10)
    metrics = Metrics()
    metrics._known = {"0": Loaded("p")}

    for number in range(MAX_STEPS + 20):
        metrics.note([step("step.scheduled", f"s{number}", 0, run=str(number))])
    for number in range(MAX_STEPS + 20):
        metrics.note([step("step.done", f"s{number}", 1, run=str(number))])

    ends = figures(metrics, "noetl_step_runs_finished_total")
    assert len(ends) == MAX_STEPS + 1
    assert ends['path="p",status="done",step="other"'] == 20.0
    timed = figures(metrics, "noetl_step_run_seconds_count")
    assert sum(timed.values()) == 10.0


def test_paths_are_left_out_for_callers_who_may_not_read_them() -> None:
    metrics = metrics_of("secret/plan")

    assert b"secret/plan" in metrics.text()
    assert b"secret/plan" not in metrics.text(with_paths=False)
