"""Pipelines that wait, on the server: times fixed, signals and children's ends given.

A waiting pipeline holds no worker and costs a row; what it waits for is in the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine import ids
from noetl.engine.batch import Batch
from noetl.engine.callers import Caller, attributed
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import Run, State
from noetl.engine.times import NEVER, rfc3339, seconds_of
from noetl.types import JSON


def fix_time(batch: Batch, payload: dict[str, JSON]) -> dict[str, JSON]:
    """The moment that ends the wait, by the server's clock (I-28)."""
    fixed = {key: value for key, value in payload.items() if key != "seconds"}
    seconds = payload.get("seconds")
    fixed.setdefault("until", None)
    if seconds is not None:
        fixed["until"] = rfc3339(min(batch.clock + seconds, NEVER - 1))
    return fixed


def deliver(batch: Batch, run: Run, path: list[int]) -> None:
    """Give a pipeline that has just begun to wait a signal that came before."""
    waiting = find_progress(run, path).waiting
    if waiting is None or waiting.on != "signal":
        return
    for message in batch.state.messages:
        if message["name"] == waiting.signal:
            answer = {"data": message["data"]}
            emit_resumed(
                batch, run, path, {"answer": answer, "message": message["seq"]}
            )
            return


def receive(batch: Batch, name: str, data: JSON, caller: Caller = None) -> None:
    """A signal: for the first pipeline that waits for it, or kept until one does."""
    state = batch.state
    if state.finished or state.cancelling is not None:
        return
    data = batch.secrets.redact(data)
    payload = {"name": name, "data": data, **attributed(caller)}
    batch.emit("message.received", state.execution_id, payload)
    for command_id, on in state.suspended.items():
        run, path = state.runs[command_id.split("/")[0]], path_of(command_id)
        waiting = find_progress(run, path).waiting
        if on == "signal" and waiting is not None and waiting.signal == name:
            deliver(batch, run, path)
            return


def answer_child(batch: Batch, command_id: str, child: str, answer: JSON) -> None:
    """A child has ended; its caller goes on, if it still waits for this one."""
    if batch.state.suspended.get(command_id) != "playbook":
        return
    run, path = batch.state.runs[command_id.split("/")[0]], path_of(command_id)
    waiting = find_progress(run, path).waiting
    if waiting is not None and (waiting.child or {}).get("execution_id") == child:
        answer = {**answer, "result": batch.secrets.redact(answer["result"])}
        emit_resumed(batch, run, path, {"answer": answer})


def emit_resumed(
    batch: Batch, run: Run, path: list[int], payload: dict[str, JSON]
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


def children_of(state: State) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Children that are waited for, by the command that waits."""
    for command_id, on in state.suspended.items():
        run = state.runs[command_id.split("/")[0]]
        waiting = find_progress(run, path_of(command_id)).waiting
        if on == "playbook" and waiting is not None and waiting.child is not None:
            yield command_id, waiting.child


def moments_in(state: State) -> Iterator[float]:
    """When something is due, of all that is open."""
    if state.deadline is not None:
        yield seconds_of(state.deadline)
    for run in state.runs.values():
        if run.deadline is not None:
            yield seconds_of(run.deadline)
    for command_id in state.suspended:
        run = state.runs[command_id.split("/")[0]]
        waiting = find_progress(run, path_of(command_id)).waiting
        if waiting is not None and waiting.until is not None:
            yield seconds_of(waiting.until)
