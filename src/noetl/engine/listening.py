"""Pipelines that wait for whatever happens: their guards are asked on the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from noetl.engine import ids
from noetl.engine.choices import pick
from noetl.engine.events import Event, view
from noetl.engine.ids import Path
from noetl.engine.resuming import emit_resumed
from noetl.engine.runs import find_progress, path_of, run_of
from noetl.engine.state import Run, State
from noetl.errors import TemplateError
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.engine.batch import Batch


def listening(state: State) -> Iterator[tuple[Run, Path]]:
    """The pipelines that wait for events, in the order in which they began to."""
    for command_id, on in state.suspended.items():
        if on == "event":
            yield state.runs[run_of(command_id)], path_of(command_id)


def notify(batch: Batch, event: Event) -> None:
    """Something has happened in a run: ask those of other runs that wait."""
    if batch.state.cancelling is None:
        for run, path in list(listening(batch.state)):
            if run.id != event.step_run_id:
                offer(batch, run, path, view(event))


def offer_missed(batch: Batch, run: Run, path: Path) -> None:
    """A pipeline waits (again): signals that nobody took, then what it missed."""
    for message in batch.state.messages:
        if offer(batch, run, path, told(message), message=message["seq"]):
            return
    missed = batch.state.listeners[ids.iteration_id(run.id, path)]
    for number, event in enumerate(list(missed), start=1):
        if offer(batch, run, path, event, missed=number):
            return


def offer(
    batch: Batch, run: Run, path: Path, event: dict[str, JSON], **about: JSON
) -> bool:
    """Ask the guards about one event; whether one of them accepts it."""
    progress, step = find_progress(run, path), batch.playbook.steps[run.step]
    task = next(task for task in step.tasks if task.label == progress.label)
    scope = batch.scope(run.args)
    scope.decision = batch.hearing
    scope.update(
        _prev=progress.prev,
        _task=task.label,
        _attempt=progress.attempt,
        _outcomes=progress.outcomes,
    )
    if progress.iter is not None:
        scope["iter"] = progress.iter
    answer: dict[str, JSON] = {"event": event}
    try:
        answer["matched"] = pick(task, scope, event)
        if not answer["matched"]:
            return False
    except TemplateError as error:  # S-32: it fails closed, and says why
        message = f"a guard of '{task.label}': {scope.told(error)}"
        answer["error"] = {"kind": error.kind, "message": message}
    if "missed" not in about:  # all that came before this one was offered
        command_id = ids.iteration_id(run.id, path)
        about["missed"] = len(batch.state.listeners.get(command_id, ()))
    emit_resumed(batch, run, path, {"answer": answer, **about})
    return True


def told(message: Mapping[str, JSON]) -> dict[str, JSON]:
    """A signal as guards see it: its name is the type, unless its data has one."""
    data = message["data"]
    data = data if isinstance(data, dict) else {"value": data}
    data = {"type": message["name"], **data}
    return {
        "name": "message.received",
        "event_type": "message.received",
        "status": "success",
        "payload": data,
        "data": data,
    }
