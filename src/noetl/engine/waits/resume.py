"""Waits on the server: fix times, answer waits for children, offer events.

A waiting pipeline holds no worker and costs a row; the state has its wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from noetl.dsl.json_schema import find_flaws
from noetl.dsl.times import next_time
from noetl.engine.events import TASK_RESUMED, Event, TaskResumed
from noetl.engine.ids import Path
from noetl.engine.runs import Run, Waiting, find_progress, iteration_id, path_of, run_of
from noetl.engine.state import State
from noetl.engine.tasks.scope import view
from noetl.engine.times import NEVER, rfc3339, seconds_of
from noetl.engine.waits.suspend import pick
from noetl.errors import TemplateError
from noetl.types import JSON

if TYPE_CHECKING:  # a batch announces events of steps here
    from noetl.engine.recorder import Batch, Recorder


def fix_time(batch: Batch, payload: dict[str, JSON]) -> dict[str, JSON]:
    """Return the payload with the time that ends the wait, by the server's clock
    (I-28).

    Raises ``ValueError`` for a payload that the workers of NoETL do not report.
    """
    flaws = find_flaws(payload["schema"]) if "schema" in payload else ()
    if flaws:
        raise ValueError(flaws[0])
    fixed = {key: value for key, value in payload.items() if key != "seconds"}
    if payload["on"] == "event":
        fixed["timers"] = sorted(
            (_armed(batch, timer) for timer in payload["timers"]),
            key=lambda timer: timer["at"],
        )
        fixed["until"] = next((timer["at"] for timer in fixed["timers"]), None)
    seconds = payload.get("seconds")
    fixed.setdefault("until", None)
    if seconds is not None:
        fixed["until"] = rfc3339(min(batch.clock + seconds, NEVER - 1))
    elif "at" in payload:
        fixed["until"] = rfc3339(next_time(payload["at"], payload["zone"], batch.clock))
    return fixed


def _armed(batch: Batch, timer: JSON) -> dict[str, JSON]:
    if "at" in timer:
        return {"id": timer["id"], "at": timer["at"]}
    moment = min(batch.clock + timer["seconds"], NEVER - 1)
    return {"id": timer["id"], "at": rfc3339(moment)}


def answer_child(batch: Batch, command_id: str, child: str, answer: JSON) -> None:
    """Give the end of a child to its caller, if the caller still waits for it."""
    if batch.state.suspended.get(command_id) != "playbook":
        return
    run, path = batch.state.runs[run_of(command_id)], path_of(command_id)
    waiting = find_progress(run, path).waiting
    called = waiting.child if waiting is not None else None
    if called is not None and called["execution_id"] == child:
        answer = {**answer, "result": batch.secrets.redact(answer["result"])}
        if "warnings" in answer:
            name = f"playbook '{called['path']}'"
            answer["warnings"] = [f"{name}: {each}" for each in answer["warnings"]]
        emit_resumed(batch, run, path, {"answer": answer})


def waiting_in(state: State) -> Iterator[tuple[str, Run, Waiting]]:
    """Yield each waiting pipeline and its wait, the longest wait first."""
    for command_id in state.suspended:
        run = state.runs[run_of(command_id)]
        waiting = find_progress(run, path_of(command_id)).waiting
        assert waiting is not None, "what is suspended waits"
        yield command_id, run, waiting


def children_of(state: State) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield the children that are waited for, by the command that waits."""
    for command_id, _, waiting in waiting_in(state):
        if waiting.on == "playbook" and waiting.child is not None:
            yield command_id, waiting.child


def moments_in(state: State) -> Iterator[float]:
    """Yield the due times of everything that is open."""
    if state.deadline is not None:
        yield seconds_of(state.deadline)
    for run in state.runs.values():
        if run.deadline is not None:
            yield seconds_of(run.deadline)
    for _, _, waiting in waiting_in(state):
        if waiting.until is not None:
            yield seconds_of(waiting.until)


MAX_SHOWN = 100


class WaitLine(msgspec.Struct, frozen=True):
    """The wait of a pipeline, for listings and documents.

    ``on`` is the kind of wait: ``signal`` has ``schema`` and ``roles``, ``playbook``
    has ``execution_id`` of the child.
    """

    step: str
    task: str
    on: str
    since: str | None
    until: str | None
    iteration_id: str | None = None
    signal: str | None = None
    schema: JSON = None
    roles: list[str] | None = None
    playbook: str | None = None
    execution_id: str | None = None


def waits_of(state: State) -> list[WaitLine]:
    """Return the first waits of an execution, the longest wait first."""
    return [_line(*each) for each in islice(waiting_in(state), MAX_SHOWN)]


def _line(command_id: str, run: Run, waiting: Waiting) -> WaitLine:
    child = waiting.child or {}
    return WaitLine(
        run.step,
        find_progress(run, path_of(command_id)).label or "",
        waiting.on,
        waiting.since,
        waiting.until,
        command_id if "/" in command_id else None,
        waiting.signal,
        waiting.schema,
        waiting.roles,
        child.get("path"),
        child.get("execution_id"),
    )


# -- waits for events: the server evaluates their guards --------------------------


def emit_resumed(batch: Recorder, run: Run, path: Path, payload: TaskResumed) -> None:
    progress = find_progress(run, path)
    label = progress.label or ""
    command_id = iteration_id(run.id, path)
    task_run = progress.task_run_id(command_id)
    batch.emit(
        TASK_RESUMED,
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


def listening(state: State) -> Iterator[tuple[Run, Path]]:
    """Yield the pipelines that wait for events, in the order in which they began to
    wait."""
    for command_id, on in state.suspended.items():
        if on == "event":
            yield state.runs[run_of(command_id)], path_of(command_id)


def announce(batch: Batch, event: Event) -> None:
    """Offer an event that was just recorded to the pipelines that wait for events.

    Deciding functions call this right after they emit one of ``TRIGGERS``, so that
    guards see the state at that event, and ``task.resumed`` follows it.
    """
    if batch.state.listeners and batch.state.cancelling is None:
        for run, path in list(listening(batch.state)):
            if run.id != event.step_run_id:
                offer(batch, run, path, view(event))


def offer_missed(batch: Batch, run: Run, path: Path) -> None:
    """Offer kept signals, then missed events, to a pipeline that begins to wait."""
    for message in batch.state.messages:
        if offer(batch, run, path, as_message(message), message=message["seq"]):
            return
    missed = batch.state.listeners[iteration_id(run.id, path)]
    for number, event in enumerate(list(missed), start=1):
        if offer(batch, run, path, event, missed=number):
            return


def offer(
    batch: Batch,
    run: Run,
    path: Path,
    event: dict[str, JSON],
    *,
    message: int | None = None,
    missed: int | None = None,
) -> bool:
    """Evaluate the guards on one event; return whether one of them accepts it.

    ``message`` is the number of the signal, if the event is one. ``missed`` is the
    number of missed events that were offered with it: by default all.
    """
    progress, step = find_progress(run, path), batch.playbook.steps[run.step]
    task = next(task for task in step.tasks if task.label == progress.label)
    scope = batch.scope(run.args)
    scope.decision = batch.wait_conditions
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
    except TemplateError as error:  # S-32: fail closed, with the reason
        why = f"a guard of '{task.label}': {scope.describe(error)}"
        answer["error"] = {"kind": error.kind, "message": why}
    if missed is None:  # all earlier events were offered
        command_id = iteration_id(run.id, path)
        missed = len(batch.state.listeners.get(command_id, ()))
    payload: TaskResumed = {"answer": answer}
    if message is not None:
        payload["message"] = message
    payload["missed"] = missed
    emit_resumed(batch, run, path, payload)
    return True


def as_message(message: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a signal as guards see it: its name is the type, unless its data has
    one."""
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
