"""What a pipeline waited for has come: recorded for whoever runs it next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.engine import ids
from noetl.engine.ids import Path
from noetl.engine.runs import find_progress
from noetl.engine.state import Run
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.engine.batch import Recorder


def emit_resumed(
    batch: Recorder, run: Run, path: Path, payload: dict[str, JSON]
) -> None:
    progress = find_progress(run, path)
    label = progress.label or ""
    command_id = ids.iteration_id(run.id, path)
    task_run = ids.task_run_id(command_id, label, progress.visits[label])
    batch.emit(
        "task.resumed",
        task_run,
        payload,
        parent_id=run.id,
        step=run.step,
        step_run_id=run.id,
        iteration_id=command_id if path else None,
        task_run_id=task_run,
        task_label=label,
        attempt=progress.attempt,
    )
