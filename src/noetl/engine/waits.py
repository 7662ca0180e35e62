"""Pipelines that wait, on the server: times fixed, signals and children's ends given.

A waiting pipeline holds no worker and costs a row; what it waits for is in the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.batch import Batch
from noetl.engine.callers import Caller, attributed
from noetl.engine.listening import listening, offer, offer_missed, told
from noetl.engine.resuming import emit_resumed
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import Run, State
from noetl.engine.times import NEVER, rfc3339, seconds_of
from noetl.types import JSON


def fix_time(batch: Batch, payload: dict[str, JSON]) -> dict[str, JSON]:
    """The moment that ends the wait, by the server's clock (I-28)."""
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
    return fixed


def _armed(batch: Batch, timer: JSON) -> dict[str, JSON]:
    if "at" in timer:
        return {"id": timer["id"], "at": timer["at"]}
    moment = min(batch.clock + timer["seconds"], NEVER - 1)
    return {"id": timer["id"], "at": rfc3339(moment)}


def deliver(batch: Batch, run: Run, path: list[int]) -> None:
    """Give a pipeline that has just begun to wait what came before."""
    waiting = find_progress(run, path).waiting
    if waiting is not None and waiting.on == "event":
        offer_missed(batch, run, path)
        return
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
    message = state.messages[-1]
    for run, path in list(listening(batch.state)):
        if offer(batch, run, path, told(message), message=message["seq"]):
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
