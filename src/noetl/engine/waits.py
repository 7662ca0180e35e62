"""Pipelines that wait, on the server: times fixed, children's ends given.

A waiting pipeline holds no worker and costs a row; what it waits for is in the state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from noetl.dsl.schemas import find_flaws
from noetl.dsl.zones import next_time
from noetl.engine.batch import Batch
from noetl.engine.progress import Waiting
from noetl.engine.resuming import emit_resumed
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import Run, State
from noetl.engine.times import NEVER, rfc3339, seconds_of
from noetl.types import JSON


def fix_time(batch: Batch, payload: dict[str, JSON]) -> dict[str, JSON]:
    """The moment that ends the wait, by the server's clock (I-28).

    Raises ``ValueError`` for what no worker of ours reports.
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
    """A child has ended; its caller goes on, if it still waits for this one."""
    if batch.state.suspended.get(command_id) != "playbook":
        return
    run, path = batch.state.runs[command_id.split("/")[0]], path_of(command_id)
    waiting = find_progress(run, path).waiting
    if waiting is not None and (waiting.child or {}).get("execution_id") == child:
        answer = {**answer, "result": batch.secrets.redact(answer["result"])}
        emit_resumed(batch, run, path, {"answer": answer})


def waiting_in(state: State) -> Iterator[tuple[str, Run, Waiting]]:
    """What each pipeline that waits waits for, whoever waits longest first."""
    for command_id in state.suspended:
        run = state.runs[command_id.split("/")[0]]
        waiting = find_progress(run, path_of(command_id)).waiting
        if waiting is not None:
            yield command_id, run, waiting


def children_of(state: State) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Children that are waited for, by the command that waits."""
    for command_id, _, waiting in waiting_in(state):
        if waiting.on == "playbook" and waiting.child is not None:
            yield command_id, waiting.child


def moments_in(state: State) -> Iterator[float]:
    """When something is due, of all that is open."""
    if state.deadline is not None:
        yield seconds_of(state.deadline)
    for run in state.runs.values():
        if run.deadline is not None:
            yield seconds_of(run.deadline)
    for _, _, waiting in waiting_in(state):
        if waiting.until is not None:
            yield seconds_of(waiting.until)


MOST_SHOWN = 100


class WaitLine(msgspec.Struct, frozen=True):
    """What a pipeline waits for, as listings and documents have it.

    ``on`` says which of the others count: ``signal`` with ``schema`` and ``roles``,
    ``playbook`` with ``execution_id`` for a child.
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
    """The first of all waits of an execution, whoever waits longest first."""
    return [_line(*each) for each in islice(waiting_in(state), MOST_SHOWN)]


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
