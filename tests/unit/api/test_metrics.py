"""Metrics by pool and by playbook: bounded labels, and who gets which."""

from __future__ import annotations

import re

from noetl.api.metrics import MAX_LABELS, Metrics
from noetl.engine.events import Event
from noetl.ports import Backlog
from noetl.ports.access import WorkerRecord

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
    metrics.note_backlog({**pools, "busy": Backlog(9, 4)}, [])

    ends = figures(metrics, "noetl_playbook_executions_finished_total")
    queued = figures(metrics, "noetl_queued_commands")
    assert len(ends) == len(queued) == MAX_LABELS + 1
    assert ends['path="other",status="completed"'] == 52.0
    assert queued['pool="busy"'] == 9.0
    assert queued['pool="other"'] == 51.0


def test_pools_show_their_queue_and_their_slots() -> None:
    metrics = Metrics()
    worker = WorkerRecord(
        worker="a/w", pool="gpu", slots=8, running=3, seen_at=1.0, address=""
    )
    metrics.note_backlog({"gpu": Backlog(7, 3)}, [worker, worker])
    assert figures(metrics, "noetl_queued_commands") == {'pool="gpu"': 7.0}
    assert figures(metrics, "noetl_slots_in_use") == {'pool="gpu"': 3.0}
    assert figures(metrics, "noetl_worker_slots") == {'pool="gpu"': 16.0}

    metrics.note_backlog({}, [])
    assert figures(metrics, "noetl_queued_commands") == {}


def test_paths_are_left_out_for_callers_who_may_not_read_them() -> None:
    metrics = metrics_of("secret/plan")

    assert b"secret/plan" in metrics.text()
    assert b"secret/plan" not in metrics.text(with_paths=False)
